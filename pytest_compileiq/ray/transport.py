"""Workers on the devices of a Ray cluster: one actor owns those of a device, and is replaced once lost."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pytest_compileiq.benchmark.builds import Afar, Builds, Maker
from pytest_compileiq.ray.build_nodes import BuildNode, BuildNodes
from pytest_compileiq.ray.cluster import OWN, Node, connect, leave, living_nodes, name_of, own_node, unlike_nodes
from pytest_compileiq.ray.device_actor import CALLS_AT_ONCE
from pytest_compileiq.ray.remote import RayConnection, RemoteDevice, launched
from pytest_compileiq.ray.remote_files import RemoteFiles
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.cpu import ProcessorTurn
from pytest_compileiq.system.process import OWN_PROCESSOR, Guard
from pytest_compileiq.timing.clock import Device, Measures
from pytest_compileiq.workers.messages import Start
from pytest_compileiq.workers.transport import Connection, WorkerDied


@dataclass
class DeviceSlot:
    """One device of the cluster, whichever actor owns it now."""

    node: Node  # that it is of
    has_gpu: bool  # whether it is one of the node's GPUs
    told: tuple[str, ...]
    turn: threading.RLock = field(default_factory=threading.RLock)  # whoever works there has it
    losses: int = 0  # of actors, since something was done there
    is_usable: bool = True  # False once its node is gone or refused, or actors are lost there again and again
    files: RemoteFiles | None = None
    device: RemoteDevice | None = None
    measures: Mapping[str, Measures] = field(default_factory=dict)  # kind → what is measured on there

    @property
    def name(self) -> str:
        """For messages."""
        return name_of(self.node)

    def reached(self) -> RemoteDevice:
        """Its device; of an actor that begins now, where the last one was lost."""
        if self.device is None or self.device.is_lost:
            self.device = RemoteDevice(self.node["NodeID"], self.name, self.told, self.files, has_gpu=self.has_gpu)
        return self.device


def named(devices: Sequence[Device]) -> str:
    """As models are told apart."""
    told = (
        (each.name, each.architecture, each.driver, f"{each.power_limit_w:g} W" if each.power_limit_w else None)
        for each in devices
    )
    return "; ".join(", ".join(filter(None, parts)) for parts in told)


_BEAT_S = 5.0
_LOSSES_IN_A_ROW = 2  # of actors at one slot, with nothing done between them


@dataclass
class Cluster:
    """The devices of a Ray cluster that this run uses: those of nodes that have what this machine has."""

    root: Path  # the project's root, which the paths of the messages are relative to
    guard: Guard  # of the run, which holds its builds
    where: str  # ray for a cluster of its own on this machine, else its HOST:PORT
    say: Callable[[str], None]  # tells the user one line
    start: Start  # what every worker begins with
    kinds: frozenset[str]  # of devices that the run measures on
    slots: list[DeviceSlot] = field(default_factory=list)
    files: RemoteFiles = field(init=False)  # what nodes that do not see this machine's files are given
    measures: Mapping[str, Measures] = field(default_factory=dict)  # kind → what all devices in use measure on
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
        """See what each node is good for."""
        self._own_node = own_node()
        probe = self.guard.folder / "seen-by-nodes"
        probe.touch()
        told = self._told = str(self.root), str(self.guard.folder), str(probe)
        self.files = RemoteFiles(self.root, self.guard, self.say)
        nodes = living_nodes()
        if self.where != OWN:  # others may lack what messages and workers depend on
            unlike = unlike_nodes(nodes)
            for node in nodes:
                if why := unlike.get(node["NodeID"]):
                    self.say(f"{name_of(node)} is not used: {why}")
            nodes = [node for node in nodes if node["NodeID"] not in unlike]
        self.slots = [
            DeviceSlot(node, has_gpu, told)
            for node in nodes
            for has_gpu in ([True] * int(node["Resources"].get("GPU", 0)) or [False])
        ]
        threading.Thread(target=self._beat, daemon=True, name="compileiq-beat").start()
        asked = [(slot, slot.reached().begin("describe", sorted(self.kinds))) for slot in self.slots]
        for slot, reference in asked:
            device = slot.reached()
            try:
                shares_files, slot.measures = device.answer(reference)
            except WorkerDied as death:
                slot.is_usable = False
                self.say(f"{death.reason}: it is not used")
                continue
            if not shares_files:
                slot.files = self.files
                device.furnish(self.files)
        self._expect_one_model()
        self._elsewhere = {slot.node["NodeID"]: slot.node for slot in self.slots if slot.files}
        self.slots = self.usable
        if not self.slots:
            raise ConnectionError("no node of the Ray cluster can be used")
        if self._elsewhere:
            self.files.project()  # now, for what it is refused for to be said before anything begins

    @property
    def each(self) -> Sequence[RayTransport]:
        """One transport to each device that the run began with."""
        return [RayTransport(self, home) for home in range(len(self.slots))]

    @property
    def usable(self) -> list[DeviceSlot]:
        """The devices that are left."""
        return [slot for slot in self.slots if slot.is_usable]

    def lost(self, slot: DeviceSlot, device: RemoteDevice) -> None:
        """Note the loss of a device's actor, and tell it once."""
        with self._losing:
            if id(device) in self._told_lost or self._closed.is_set():
                return
            self._told_lost.add(id(device))
            slot.losses += 1
            self.say(f"{device.why_lost}; {self._what_is_left(slot)}")

    def _what_is_left(self, slot: DeviceSlot) -> str:
        """What becomes of a slot whose actor was lost."""
        others = [other for other in self.usable if other is not slot]
        left = f"going on with {quantity(len(others), 'other device')}" if others else "no device is left"
        try:
            living = {node["NodeID"] for node in living_nodes()}
        except ConnectionError as error:  # so that no other actor can begin
            slot.is_usable = False
            return f"{error}: {left}"
        if self._own_node not in living:  # then Ray takes this run's job for finished
            for each in self.slots:
                each.is_usable = False
            mend = "" if self.where == OWN else "ray start it again, and "
            return (
                "the node of this machine is gone, and with it this run's part in the cluster: nothing that was "
                f"finished is lost; {mend}the same command goes on"
            )
        if slot.node["NodeID"] not in living:
            slot.is_usable = False
            return f"its node is gone: {left}"
        if slot.losses >= _LOSSES_IN_A_ROW and others:
            slot.is_usable = False
            return f"{slot.losses} in a row were lost there: {left}"
        return "another one takes its place"

    def processor_of(self, slot: DeviceSlot) -> ProcessorTurn:
        """Who uses the processor of a device: nodes that see this machine's files are this machine."""
        return OWN_PROCESSOR if slot.files is None else self.processors[slot.node["NodeID"]]

    def afar(self, nodeid: str) -> Afar:
        """What other machines do for a test; this one builds too, as much as it is to."""
        # Nodes that are measured on, and where flags mean something else, are refused when they enter the test.
        is_here = any(slot.files is None for slot in self.usable)
        host_flags = None if is_here else self._of_builds().host_flags(nodeid)

        def makers(builds: Builds) -> Sequence[Maker]:
            return self._of_builds().makers(nodeid, builds)

        return Afar(makers, host_flags, {} if is_here else self.measures)

    def _of_builds(self) -> BuildNodes:
        with self._looking:
            if self._build_nodes is None:
                nodes = [self._builder(node) for node in self._elsewhere.values()]
                self._build_nodes = BuildNodes(nodes, self.root, self.say)
            return self._build_nodes

    def _builder(self, node: Node) -> BuildNode:
        builds = max(1, int(node["Resources"].get("CPU", 1)))
        device = RemoteDevice(
            node["NodeID"], name_of(node), self._told, self.files, has_gpu=False, calls_at_once=builds + CALLS_AT_ONCE
        )
        return BuildNode(device, self.start, builds, self.processors[node["NodeID"]], self.say)

    def refuse(self, node: Node, reason: str) -> None:
        """Use a node no more, and tell it once."""
        with self._losing:
            refused = [slot for slot in self.usable if slot.node["NodeID"] == node["NodeID"]]
            for slot in refused:
                slot.is_usable = False
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

    def _expect_one_model(self) -> None:
        """Measure on devices of one model alone."""
        # What is fast on one model need not be on another, and a claim is about one.
        able = [slot for slot in self.usable if self.kinds <= slot.measures.keys()]
        models = {id(slot): tuple(slot.measures[kind].device for kind in sorted(self.kinds)) for slot in able}
        own = [models[id(slot)] for slot in able if slot.node["NodeID"] == self._own_node]
        kept = own[0] if own else next((model for model, _ in Counter(models.values()).most_common(1)), ())
        for slot in self.usable:
            if slot not in able:
                lacking = " and ".join(sorted(self.kinds - slot.measures.keys()))
                self._leave_out(slot, f"has no device of kind {lacking}")
            elif models[id(slot)] != kept:
                self._leave_out(slot, f"measures on {named(models[id(slot)])}, and this run on {named(kept)}")
            else:
                self.measures = slot.measures

    def _leave_out(self, slot: DeviceSlot, why: str) -> None:
        slot.is_usable = False
        if slot.device is not None:
            slot.device.stop()
        self.say(f"{slot.name} {why}: it is not measured on")

    def _beat(self) -> None:
        while not self._closed.wait(_BEAT_S):
            for device in self._devices():
                device.beat()

    def _devices(self) -> list[RemoteDevice]:
        """The actors, those that build included."""
        of_builds = [node.device for node in self._build_nodes.nodes] if self._build_nodes else []
        return [*(slot.device for slot in self.slots if slot.device is not None), *of_builds]


@dataclass
class RayTransport:
    """Starts workers on the devices of a cluster: worker 0 at ``home``, the others on those behind it, in turn."""

    cluster: Cluster
    home: int
    _avoided: dict[int, DeviceSlot] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        return len(self.cluster.slots)

    def launch(self, start: Start, number: int) -> Connection:
        slot = self._slot_of(number)
        device = slot.reached()
        try:
            line = launched(device, start)
        except WorkerDied as death:
            self._lost(number, slot, device, death)
            raise
        done = partial(self._done, number, slot, device)
        return RayConnection(device, line, lambda: self._slot_of(number).device, done)

    @contextmanager
    def alone(self, number: int, kinds: Sequence[str]) -> Iterator[None]:
        while True:
            slot = self._slot_of(number)
            with slot.turn:
                if self._slot_of(number) is slot:  # else it was lost while its turn was waited for
                    with self._held(number, slot) if "cpu" in kinds else nullcontext():
                        yield
                    return

    @contextmanager
    def _held(self, number: int, slot: DeviceSlot) -> Iterator[None]:
        device = slot.reached()
        try:
            device.ask("hold")
        except WorkerDied as death:
            self._lost(number, slot, device, death)
            raise
        try:
            with self.cluster.processor_of(slot).measuring():
                yield
        finally:
            with suppress(WorkerDied):
                device.ask("release")

    def refuse(self, number: int, reason: str) -> WorkerDied:
        slot = self._slot_of(number)
        self.cluster.refuse(slot.node, reason)
        return WorkerDied("lost", f"{slot.name} is not used: {reason}")

    def sweep(self, spared: Collection[Connection] = ()) -> None:
        for slot in self.cluster.usable:
            if slot.turn.acquire(blocking=False):  # who waits for a turn that has one waits for ever
                try:
                    with suppress(WorkerDied):
                        slot.reached().ask("sweep")
                finally:
                    slot.turn.release()

    def _slot_of(self, number: int) -> DeviceSlot:
        slots, first = self.cluster.slots, self.home + number
        in_turn = [slots[(first + step) % len(slots)] for step in range(len(slots))]
        usable = [slot for slot in in_turn if slot.is_usable]
        if not usable:
            raise ConnectionError(
                "no device of the Ray cluster is left: nothing that was finished is lost, and the same command goes on "
                "where there is one again"
            )
        return next((slot for slot in usable if slot is not self._avoided.get(number)), usable[0])

    def _done(self, number: int, slot: DeviceSlot, device: RemoteDevice, death: WorkerDied | None) -> None:
        if death is not None:
            self._lost(number, slot, device, death)
            return
        slot.losses = 0
        self._avoided.pop(number, None)

    def _lost(self, number: int, slot: DeviceSlot, device: RemoteDevice, death: WorkerDied) -> None:
        if death.kind != "lost":
            return
        self.cluster.lost(slot, device)
        # Asked again on another device: it may have been this one's doing. What is lost there too was the candidate's.
        before = self._avoided.pop(number, None)
        if before is None:
            self._avoided[number] = slot
        elif before is not slot:
            before.losses = slot.losses = 0


open_transport = Cluster  # of `rooms.transport()`
