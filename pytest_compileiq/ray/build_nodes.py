"""Nodes of a cluster that build: those that make of a baseline what this machine makes of it, by the same inputs.

Each has an actor of its own for it, beside those of its devices, so that no candidate that brings a device down costs a
build. Its workers collect the tests and enter none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, LifoQueue

from pytest_compileiq.benchmark.builds import Builds, MadeElsewhere, Maker, MakerLost
from pytest_compileiq.benchmark.cached_builds import identity_of, why_other
from pytest_compileiq.errors import BuildError, EnvironmentFault
from pytest_compileiq.model import CodeDigest, ControlsFile
from pytest_compileiq.ray.remote import RayConnection, RemoteDevice, launched
from pytest_compileiq.system.cpu import ProcessorTurn
from pytest_compileiq.toolchains.base import HostFlags
from pytest_compileiq.workers import messages
from pytest_compileiq.workers.pool import START_TIMEOUT_S, Worker
from pytest_compileiq.workers.transport import WorkerDied


@dataclass
class BuildNode:
    """One node."""

    device: RemoteDevice  # the actor that owns the workers that build there
    start: messages.Start  # what they begin with
    slots: int  # builds at once, of all benchmarks together
    turn: ProcessorTurn  # of the node's processor
    say: Callable[[str], None]  # tells the user one line
    _idle: LifoQueue[Worker] = field(default_factory=LifoQueue)
    _free: threading.BoundedSemaphore = field(init=False)
    _giving_up: threading.Lock = field(default_factory=threading.Lock)
    _is_given_up: bool = False

    def __post_init__(self) -> None:
        self._free = threading.BoundedSemaphore(self.slots)

    def launch(self) -> RayConnection:
        """Start one worker."""
        line = launched(self.device, self.start)
        return RayConnection(self.device, line, lambda: self.device, lambda death: None)

    def ask(self, query: messages.Query, timeout_s: float) -> messages.QueryAnswer:
        """Have a worker that is idle, or a new one, answer while nobody measures on the processor."""
        with self._free, self.turn.building():
            try:
                worker = self._idle.get_nowait()
            except Empty:
                worker = Worker(self.launch())
            try:
                answer = worker.query(query, timeout_s)
            except WorkerDied:
                worker.line.kill()
                raise
            self._idle.put(worker)
            return answer

    def give_up(self, reason: str) -> None:
        """Tell, once, that it builds no more."""
        with self._giving_up:
            if not self._is_given_up:
                self._is_given_up = True
                self.say(f"{reason}; its builds are made elsewhere")


@dataclass
class BuildNodes:
    """The nodes of one run that may build."""

    nodes: Sequence[BuildNode]
    root: Path  # of the project
    say: Callable[[str], None]  # tells the user one line
    _makers: dict[str, Sequence[Maker]] = field(default_factory=dict)
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def makers(self, nodeid: str, builds: Builds) -> Sequence[Maker]:
        """Who makes builds of one benchmark elsewhere; nodes that do not build it alike are told, once."""
        with self._looking:
            if nodeid not in self._makers:
                self._makers[nodeid] = self._found(nodeid, builds) if builds.builder.compiler.compiles else ()
            return self._makers[nodeid]

    def host_flags(self, nodeid: str) -> HostFlags:
        """What flags of a test that name the host mean on the first node that says it."""
        reason = "none is left"
        for node in self.nodes:
            try:
                told = node.ask(messages.Identify(nodeid, None), START_TIMEOUT_S)
            except WorkerDied as death:
                reason = f"{node.device.name}: {death.reason}"
                continue
            if isinstance(told, messages.IdentityAnswer):
                return told.host_flags
        raise EnvironmentFault(f"no node can say how it would build {nodeid}: {reason}")

    def _found(self, nodeid: str, builds: Builds) -> Sequence[Maker]:
        """Those of every node that gives the baseline's machine code by the same inputs."""
        nodes = [node for node in self.nodes if not node.device.is_lost]
        if not nodes:
            return ()
        builder = builds.builder
        baseline, identity = builds.get(None), identity_of(builder, self.root)
        host_flags = dict(builder.host_flags)

        def of_node(node: BuildNode) -> Sequence[Maker]:
            maker = NodeMaker(node, nodeid, host_flags, builds.timeout_s)
            try:
                why = maker.why_other(identity, baseline.code)
            except WorkerDied as death:
                why = death.reason
            if why is not None:
                self.say(f"{node.device.name} builds nothing of {nodeid}: {why}")
            return (maker,) * node.slots if why is None else ()

        with ThreadPoolExecutor(len(nodes)) as threads:
            return [maker for makers in threads.map(of_node, nodes) for maker in makers]


@dataclass(frozen=True)
class NodeMaker:
    """Makes builds of one benchmark on one node."""

    node: BuildNode
    nodeid: str
    host_flags: dict[str, tuple[str, ...]]
    timeout_s: float

    def why_other(self, identity: Mapping[str, str], baseline: Mapping[str, CodeDigest]) -> str | None:
        """What the node builds otherwise, or with; None where nothing is."""
        told = self._ask(messages.Identify(self.nodeid, self.host_flags))
        if not isinstance(told, messages.IdentityAnswer):
            return f"it answered {type(told).__name__}"
        if other := why_other(told.identity, identity):
            return other
        made = self._ask(messages.Make(self.nodeid, self.host_flags, None))
        if isinstance(made, messages.BuildRefused):
            return f"its baseline does not build: {made.reason}"
        is_same = isinstance(made, messages.BuildAnswer) and _digests(made.build.code) == _digests(baseline)
        return None if is_same else "its baseline has other machine code"

    def make(self, controls: ControlsFile) -> MadeElsewhere:
        """The build with ``controls``."""
        try:
            made = self._ask(messages.Make(self.nodeid, self.host_flags, controls))
        except WorkerDied as death:
            self.node.give_up(death.reason)
            raise MakerLost(death.reason) from death
        if isinstance(made, messages.BuildRefused):
            raise BuildError(made.reason, kind=made.kind, log=made.log)
        if not isinstance(made, messages.BuildAnswer):
            raise MakerLost(f"it answered {type(made).__name__}")
        return made.build

    def _ask(self, query: messages.Query) -> messages.QueryAnswer:
        return self.node.ask(query, START_TIMEOUT_S + self.timeout_s)


def _digests(code: Mapping[str, CodeDigest]) -> dict[str, str]:
    return {entry: digest.sha256 for entry, digest in code.items()}
