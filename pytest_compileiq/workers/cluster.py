"""The devices of a Ray cluster that a run uses, and carriers to them: another way for the same messages.

One actor a device owns today's workers (``workers.device``). Ray starts it and tells when it is gone; another one then
takes its place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec

from pytest_compileiq.system.process import Guard
from pytest_compileiq.workers.carrier import MOST_LOSSES, Line, WorkerDied
from pytest_compileiq.workers.messages import Start, encode
from pytest_compileiq.workers.ray_cluster import OWN, Node, connect, leave, living_nodes, own_node
from pytest_compileiq.workers.remote import RayLine, RemoteDevice

_BEAT_S = 5.0
_LOSSES_IN_A_ROW = 2  # of actors at one place, with nothing done between them


@dataclass
class Place:
    """One device of the cluster, whichever actor owns it now.

    Attributes:
        node: that it is of.
        has_gpu: whether it is one of the node's GPUs.
        turn: whoever works there has it.
        losses: of actors, since something was done there.
        is_usable: False once its node is gone, or actors are lost there again and again.
    """

    node: Node
    has_gpu: bool
    told: tuple[str, ...]
    turn: threading.RLock = field(default_factory=threading.RLock)
    losses: int = 0
    is_usable: bool = True
    device: RemoteDevice | None = None

    @property
    def name(self) -> str:
        """For messages."""
        return f"node {self.node['NodeID'][:8]} ({self.node['NodeManagerHostname']})"

    def reached(self) -> RemoteDevice:
        """Its device; of an actor that begins now, where the last one was lost."""
        if self.device is None or self.device.is_lost:
            self.device = RemoteDevice(self.node["NodeID"], self.name, self.told, has_gpu=self.has_gpu)
        return self.device


@dataclass
class Cluster:
    """The devices of a Ray cluster that this run uses: those of nodes that see this machine's files.

    Attributes:
        root: the project's root, which the paths of the messages are relative to.
        guard: of the run, which holds its builds.
        where: ``ray`` for a cluster of its own on this machine, else its ``HOST:PORT``.
        say: tells the user one line.
        places: the devices, those that are gone too.
    """

    root: Path
    guard: Guard
    where: str
    say: Callable[[str], None]
    places: list[Place] = field(default_factory=list)
    _losing: threading.Lock = field(default_factory=threading.Lock)
    _told_lost: set[int] = field(default_factory=set)
    _own_node: str = ""
    _closed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Connect, or begin a cluster, and look at its devices.

        Raises:
            EnvironmentFault: Ray is not installed, or there is no such cluster.
            ConnectionError: the cluster has no device that can be used.
        """
        connect(self.where, self.guard, self.say)
        self._own_node = own_node()
        probe = self.guard.folder / "seen-by-nodes"
        probe.touch()
        told = str(self.root), str(self.guard.folder), str(probe)
        self.places = [
            Place(node, has_gpu, told)
            for node in living_nodes()
            for has_gpu in ([True] * int(node["Resources"].get("GPU", 0)) or [False])
        ]
        threading.Thread(target=self._beat, daemon=True, name="compileiq-beat").start()
        asked = [(place, place.reached().begin("shares_files")) for place in self.places]
        for place, reference in asked:
            self._expect_files(place, reference)
        self._expect_one_model()
        if not self.usable:
            self.close()  # another test may ask for it again
            raise ConnectionError("no node of the Ray cluster can be used")

    @property
    def usable(self) -> list[Place]:
        """The devices that are left."""
        return [place for place in self.places if place.is_usable]

    def carrier(self, home: int) -> RayCarrier:
        """A carrier whose first worker lives on the device at place ``home``."""
        return RayCarrier(self, home)

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
        left = f"going on with the {len(others)} device(s) that are left" if others else "no device is left"
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

    def close(self) -> None:
        """End the actors, and the cluster if it is this run's own; closing twice does nothing more."""
        if self._closed.is_set():
            return
        self._closed.set()
        for place in self.places:
            if place.device is not None:
                place.device.stop()
        leave()

    def _expect_files(self, place: Place, reference: object) -> None:
        device = place.reached()
        try:
            place.is_usable = device.answer(reference)
        except WorkerDied as death:
            place.is_usable = False
            self.say(f"{death.reason}: it is not used")
            return
        if not place.is_usable:
            device.stop()
            self.say(f"{place.name} does not see this machine's files and is not used")

    def _expect_one_model(self) -> None:
        """Leave out the devices of another model than this machine's, or than the first where that is not used.

        What is fast on one model need not be on another, and a claim is about one.
        """
        models = [(place, model) for place in self.usable if (model := self._model_of(place)) is not None]
        of_own = [model for place, model in models if place.node["NodeID"] == self._own_node]
        kept = next(iter([*of_own, *(model for _, model in models)]), None)
        for place, model in models:
            if model != kept and place.device is not None:
                place.is_usable = False
                place.device.stop()
                self.say(
                    f"{place.name} has another device ({model}) than this search is about ({kept}), and is not used"
                )

    def _model_of(self, place: Place) -> str | None:
        """What is measured on there; None where that is lost."""
        try:
            model: str = place.reached().ask("model")
        except WorkerDied as death:
            place.is_usable = False
            self.say(f"{death.reason}: it is not used")
            return None
        return model

    def _beat(self) -> None:
        while not self._closed.wait(_BEAT_S):
            for place in self.places:
                if place.device is not None:
                    place.device.beat()


@dataclass
class RayCarrier:
    """Starts workers on the devices of a cluster: worker 0 at ``home``, the others on those behind it, in turn.

    What a device is lost with is asked for again on another one, where there is one: it may have been the device's
    doing. What is lost there too was the candidate's.
    """

    cluster: Cluster
    home: int
    shares_files: ClassVar[bool] = True
    _avoided: dict[int, Place] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        """How many places there are; a place that is gone is passed over."""
        return len(self.cluster.places)

    def launch(self, start: Start, number: int) -> Line:
        """Start one worker.

        Raises:
            WorkerDied: it ended at once.
            OSError: no device can be used.
        """
        place = self._place_of(number)
        device = place.reached()
        # A candidate is not to have the cluster's token.
        environment = {name: value for name, value in start.environment.items() if not name.startswith("RAY_")}
        try:
            line = device.ask("launch", encode(msgspec.structs.replace(start, environment=environment)))
        except WorkerDied as death:
            self._lost(number, place, device, death)
            raise
        return RayLine(device, line, lambda: self._place_of(number).device, partial(self._done, number, place, device))

    @contextmanager
    def alone(self, number: int, kinds: Sequence[str]) -> Iterator[None]:
        """Hold the device's turn, and on its machine the processor's lock where that is measured.

        Raises:
            OSError: no device can be used.
        """
        for tries_left in reversed(range(MOST_LOSSES)):
            place = self._place_of(number)
            with place.turn, self._held(number, place, kinds) as is_held:
                if (is_held and self._place_of(number) is place) or not tries_left:  # what is asked for next tells it
                    yield
                    return

    @contextmanager
    def _held(self, number: int, place: Place, kinds: Sequence[str]) -> Iterator[bool]:
        """Whether the processor's lock is held, if it has to be."""
        if "cpu" not in kinds:
            yield True
            return
        device = place.reached()
        try:
            device.ask("hold")
        except WorkerDied as death:
            self._lost(number, place, device, death)
            yield False
            return
        try:
            yield True
        finally:
            with suppress(WorkerDied):
                device.ask("release")

    def sweep(self, spared: Collection[Line] = ()) -> None:
        """Kill what workers have left behind; those that live are spared, whosever they are."""
        for place in self.cluster.usable:
            with place.turn, suppress(WorkerDied):
                if place.device is not None:
                    place.device.ask("sweep")

    def _place_of(self, number: int) -> Place:
        """Where worker ``number`` lives.

        Raises:
            ConnectionError: no device is left.
        """
        places, first = self.cluster.places, self.home + number
        in_turn = [places[(first + step) % len(places)] for step in range(len(places))]
        usable = [place for place in in_turn if place.is_usable]
        if not usable:
            raise ConnectionError(
                "no device of the Ray cluster is left: nothing that was finished is lost, and the same command goes on "
                "where there is one again"
            )
        return next((place for place in usable if place is not self._avoided.get(number)), usable[0])

    def _done(self, number: int, place: Place, device: RemoteDevice, death: WorkerDied | None) -> None:
        if death is not None:
            self._lost(number, place, device, death)
            return
        place.losses = 0
        self._avoided.pop(number, None)

    def _lost(self, number: int, place: Place, device: RemoteDevice, death: WorkerDied) -> None:
        if death.kind != "lost":
            return
        self.cluster.lost(place, device)
        before = self._avoided.pop(number, None)
        if before is None:
            self._avoided[number] = place
        elif before is not place:
            before.losses = place.losses = 0
