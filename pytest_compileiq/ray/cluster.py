"""The devices of a Ray cluster that a run uses.

One actor a device owns today's workers (``workers.device``). Ray starts it and tells when it is gone; another one then
takes its place.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_compileiq.benchmark.afar import Afar
from pytest_compileiq.benchmark.builds import Builds
from pytest_compileiq.benchmark.elsewhere import Maker
from pytest_compileiq.ray.build_nodes import BuildNode, BuildNodes
from pytest_compileiq.ray.device import CALLS_AT_ONCE
from pytest_compileiq.ray.joined import (
    OWN,
    Node,
    connect,
    leave,
    living_nodes,
    name_of,
    own_node,
    unlike_nodes,
)
from pytest_compileiq.ray.luggage import Luggage
from pytest_compileiq.ray.place import Place, named
from pytest_compileiq.ray.remote import RemoteDevice
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.cpu import ProcessorTurn
from pytest_compileiq.system.process import OWN_PROCESSOR, Guard
from pytest_compileiq.timing.base import Measures
from pytest_compileiq.workers.carrier import WorkerDied
from pytest_compileiq.workers.messages import Start

_BEAT_S = 5.0
_LOSSES_IN_A_ROW = 2  # of actors at one place, with nothing done between them


@dataclass
class Cluster:
    """The devices of a Ray cluster that this run uses: those of nodes that have what this machine has.

    Attributes:
        root: the project's root, which the paths of the messages are relative to.
        guard: of the run, which holds its builds.
        where: ``ray`` for a cluster of its own on this machine, else its ``HOST:PORT``.
        say: tells the user one line.
        start: what every worker begins with.
        kinds: of devices that the run measures on.
        places: the devices that the run began with, those that are gone too.
        luggage: what nodes that do not see this machine's files are given.
        measures: kind → what all devices in use measure on.
        processors: node id → who uses its processor, of nodes of other machines.
    """

    root: Path
    guard: Guard
    where: str
    say: Callable[[str], None]
    start: Start
    kinds: frozenset[str]
    places: list[Place] = field(default_factory=list)
    luggage: Luggage = field(init=False)
    measures: Mapping[str, Measures] = field(default_factory=dict)
    processors: defaultdict[str, ProcessorTurn] = field(default_factory=lambda: defaultdict(ProcessorTurn))
    _losing: threading.Lock = field(default_factory=threading.Lock)
    _told_lost: set[int] = field(default_factory=set)
    _own_node: str = ""
    _told: tuple[str, ...] = ()
    _elsewhere: Mapping[str, Node] = field(default_factory=dict)
    _build_nodes: BuildNodes | None = None
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _closed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Connect, or begin a cluster, and look at its devices.

        Raises:
            EnvironmentFault: Ray is not installed, or there is no such cluster.
            ConnectionError: the cluster has no device that can be used.
        """
        connect(self.where, self.guard, self.say)
        try:
            self._look_around()
        except BaseException:
            self.close()  # another test may ask for it again
            raise

    def _look_around(self) -> None:
        """See what each node is good for; raises as the beginning of the cluster does."""
        self._own_node = own_node()
        probe = self.guard.folder / "seen-by-nodes"
        probe.touch()
        told = self._told = str(self.root), str(self.guard.folder), str(probe)
        self.luggage = Luggage(self.root, self.guard, self.say)
        self.places = [
            Place(node, has_gpu, told)
            for node in (living_nodes() if self.where == OWN else self._alike(living_nodes()))
            for has_gpu in ([True] * int(node["Resources"].get("GPU", 0)) or [False])
        ]
        threading.Thread(target=self._beat, daemon=True, name="compileiq-beat").start()
        asked = [(place, place.reached().begin("shares_files")) for place in self.places]
        for place, reference in asked:
            self._look_for_files(place, reference)
        self._expect_one_model()
        self._elsewhere = {place.node["NodeID"]: place.node for place in self.places if place.luggage}
        self.places = self.usable
        if not self.places:
            raise ConnectionError("no node of the Ray cluster can be used")
        if self._elsewhere:
            self.luggage.project()  # now, for what it is refused for to be said before anything begins

    @property
    def usable(self) -> list[Place]:
        """The devices that are left."""
        return [place for place in self.places if place.is_usable]

    def lost(self, place: Place, device: RemoteDevice) -> None:
        """Note the loss of a device's actor, and tell it once."""
        with self._losing:
            if id(device) in self._told_lost or self._closed.is_set():
                return
            self._told_lost.add(id(device))
            place.losses += 1
            self.say(f"{device.why_lost}; {self._what_is_left(place)}")

    def _what_is_left(self, place: Place) -> str:
        """What becomes of a place whose actor was lost."""
        others = [other for other in self.usable if other is not place]
        left = f"going on with {quantity(len(others), 'other device')}" if others else "no device is left"
        try:
            living = {node["NodeID"] for node in living_nodes()}
        except ConnectionError as error:  # so that no other actor can begin
            place.is_usable = False
            return f"{error}: {left}"
        if self._own_node not in living:  # then Ray takes this run's job for finished
            for each in self.places:
                each.is_usable = False
            mend = "" if self.where == OWN else "ray start it again, and "
            return (
                "the node of this machine is gone, and with it this run's part in the cluster: nothing that was "
                f"finished is lost; {mend}the same command goes on"
            )
        if place.node["NodeID"] not in living:
            place.is_usable = False
            return f"its node is gone: {left}"
        if place.losses >= _LOSSES_IN_A_ROW and others:
            place.is_usable = False
            return f"{place.losses} in a row were lost there: {left}"
        return "another one takes its place"

    def processor_of(self, place: Place) -> ProcessorTurn:
        """Who uses the processor of a device: nodes that see this machine's files are this machine."""
        return OWN_PROCESSOR if place.luggage is None else self.processors[place.node["NodeID"]]

    def afar(self, nodeid: str) -> Afar:
        """What other machines do for a test; this one builds too, as much as it is to.

        Nodes that are measured on, and where flags that name the host mean something else, are refused when they enter
        the test.

        Raises:
            EnvironmentFault: all devices are elsewhere, and no node says what such flags mean there.
        """
        is_here = any(place.luggage is None for place in self.usable)
        host_flags = None if is_here else self._of_builds().host_flags(nodeid)

        def makers(builds: Builds) -> Sequence[Maker]:
            return self._of_builds().makers(nodeid, builds)

        return Afar(makers, host_flags, {} if is_here else self.measures)

    def _of_builds(self) -> BuildNodes:
        with self._looking:
            if self._build_nodes is None:
                self._build_nodes = BuildNodes(self._builders(), self.start, self.root, self.say)
            return self._build_nodes

    def _builders(self) -> list[BuildNode]:
        return [self._builder(node) for node in self._elsewhere.values()]

    def _builder(self, node: Node) -> BuildNode:
        slots = max(1, int(node["Resources"].get("CPU", 1)))
        device = RemoteDevice(
            node["NodeID"], name_of(node), self._told, has_gpu=False, calls_at_once=slots + CALLS_AT_ONCE
        )
        device.furnish(self.luggage)
        return BuildNode(device, slots, self.processors[node["NodeID"]], self.say)

    def refuse(self, node: Node, reason: str) -> None:
        """Use a node no more, and tell it once."""
        with self._losing:
            refused = [place for place in self.usable if place.node["NodeID"] == node["NodeID"]]
            for place in refused:
                place.is_usable = False
            if refused:
                self.say(f"{name_of(node)} is not used: {reason}")

    def close(self) -> None:
        """End the actors, and the cluster if it is this run's own; closing twice does nothing more."""
        if self._closed.is_set():
            return
        self._closed.set()
        for device in self._devices():
            device.stop()
        leave()

    def _alike(self, nodes: list[Node]) -> list[Node]:
        """The nodes that have what messages and workers depend on as this machine has it; others are told."""
        unlike = unlike_nodes(nodes)
        for node in nodes:
            if why := unlike.get(node["NodeID"]):
                self.say(f"{name_of(node)} is not used: {why}")
        return [node for node in nodes if node["NodeID"] not in unlike]

    def _look_for_files(self, place: Place, reference: object) -> None:
        device = place.reached()
        try:
            if not device.answer(reference):
                place.luggage = self.luggage
                device.furnish(self.luggage)
        except WorkerDied as death:
            place.is_usable = False
            self.say(f"{death.reason}: it is not used")

    def _expect_one_model(self) -> None:
        """Measure on devices of one model alone: on this machine's if it is one of them, else on those that are most.

        What is fast on one model need not be on another, and a claim is about one.
        """
        measures = {id(place): self._measures_of(place) for place in self.usable}
        able = [place for place in self.usable if self.kinds <= measures[id(place)].keys()]
        models = {id(place): tuple(measures[id(place)][kind].device for kind in sorted(self.kinds)) for place in able}
        own = [models[id(place)] for place in able if place.node["NodeID"] == self._own_node]
        kept = own[0] if own else next((model for model, _ in Counter(models.values()).most_common(1)), ())
        for place in self.usable:
            if place not in able:
                lacking = " and ".join(sorted(self.kinds - measures[id(place)].keys()))
                self._leave_out(place, f"has no device of kind {lacking}")
            elif models[id(place)] != kept:
                self._leave_out(place, f"measures on {named(models[id(place)])}, and this run on {named(kept)}")
            else:
                self.measures = measures[id(place)]

    def _measures_of(self, place: Place) -> Mapping[str, Measures]:
        """What is measured on at a place, of the kinds of this run; nothing where its actor is lost."""
        try:
            measures: Mapping[str, Measures] = place.reached().ask("measures", sorted(self.kinds))
        except WorkerDied as death:
            place.is_usable = False
            self.say(f"{death.reason}: it is not used")
            return {}
        return measures

    def _leave_out(self, place: Place, why: str) -> None:
        place.is_usable = False
        if place.device is not None:
            place.device.stop()
        self.say(f"{place.name} {why}: it is not measured on")

    def _beat(self) -> None:
        while not self._closed.wait(_BEAT_S):
            for device in self._devices():
                device.beat()

    def _devices(self) -> list[RemoteDevice]:
        """The actors, those that build included."""
        of_builds = [node.device for node in self._build_nodes.nodes] if self._build_nodes else []
        return [*(place.device for place in self.places if place.device is not None), *of_builds]
