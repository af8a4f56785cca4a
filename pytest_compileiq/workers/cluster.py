"""Workers on the nodes of a Ray cluster: another carrier of the same messages.

One actor a device owns today's workers (``workers.device``). Ray starts it, tells when it is gone, and carries bytes;
what an answer says is decoded here, and nothing that a candidate's process said is unpickled.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from pytest_compileiq.errors import EnvironmentFault, install
from pytest_compileiq.system.process import Guard
from pytest_compileiq.workers.carrier import Line, WorkerDied
from pytest_compileiq.workers.device import CALLS_AT_ONCE, UNHEARD_S, Device, Ended
from pytest_compileiq.workers.local import alone_here
from pytest_compileiq.workers.messages import Answer, Order, Start, decode_answer, encode

OWN = "ray"
_BEAT_S = 5.0
_POLL_S = 1.0
_STOP_S = 10.0
_OBJECT_STORE_BYTES = 100 * 2**20  # of a cluster of its own: answers are small
_AUTH_MODE = "RAY_AUTH_MODE"
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Of what is lost the user is told in a line: Ray would add a paragraph for each process, or the raylet's last log.
    "RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    # Ray ends a process, this one, that has not reached the cluster's head for a minute.
    "RAY_gcs_rpc_server_reconnect_timeout_s": str(10**6),
}  # fmt: skip


@dataclass
class RayCarrier:
    """Starts workers on one node of a cluster at a time; on another one when that is lost.

    Nodes that do not see this machine's files are not used.

    Attributes:
        root: the project's root, which the paths of the messages are relative to.
        guard: of the run, which holds its builds.
        where: ``ray`` for a cluster of its own on this machine, else its ``HOST:PORT``.
        say: tells the user one line.
    """

    root: Path
    guard: Guard
    where: str
    say: Callable[[str], None]
    shares_files: ClassVar[bool] = True
    _device: _Device | None = None
    _without_files: set[str] = field(default_factory=set)
    _begun: Counter[str] = field(default_factory=Counter)
    _closed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Connect, or begin a cluster.

        Raises:
            EnvironmentFault: Ray is not installed, or there is no such cluster.
        """
        _connect(self.where, self.guard, self.say)
        self._probe = self.guard.folder / "seen-by-nodes"
        self._probe.touch()
        threading.Thread(target=self._beat, daemon=True, name="compileiq-beat").start()

    def launch(self, start: Start) -> Line:
        """Start one worker.

        Raises:
            WorkerDied: it ended at once.
            OSError: no node can be used.
        """
        device = self._reached()
        # A candidate is not to have the cluster's token.
        environment = {name: value for name, value in start.environment.items() if not name.startswith("RAY_")}
        number = device.ask("launch", encode(msgspec.structs.replace(start, environment=environment)))
        return RayLine(device, number)

    def alone(self, kinds: Sequence[str]) -> AbstractContextManager[None]:
        """Hold the processor's lock: every node that is used is this machine."""
        return alone_here(kinds)

    def sweep(self, spared: Collection[Line] = ()) -> None:
        """Kill what workers have left behind, except the workers ``spared``."""
        if self._device is not None and not self._device.is_lost:
            numbers = [line.number for line in spared if isinstance(line, RayLine) and line.device is self._device]
            with contextlib.suppress(WorkerDied):
                self._device.ask("sweep", numbers)

    def close(self) -> None:
        """End the actor, and the cluster if it is this run's own; closing twice does nothing more."""
        import ray

        if self._closed.is_set():
            return
        self._closed.set()
        if self._device is not None:
            self._device.stop()
        with warnings.catch_warnings(action="ignore"):
            ray.shutdown()

    def _reached(self) -> _Device:
        """The device in use, or another one once it was lost.

        Raises:
            WorkerDied: the other one is lost at once.
            OSError: there is none.
        """
        while self._device is None or self._device.is_lost:
            node = self._next_node()
            device = _Device(node, (str(self.root), str(self.guard.folder), str(self._probe)))
            self._begun[node["NodeID"]] += 1
            if self._device is not None:
                self.say(f"{self._device.why_lost}; going on with another one on {device.name}")
            if device.ask("shares_files"):
                self._device = device
            else:
                device.stop()
                self._without_files.add(node["NodeID"])
                self.say(f"{device.name} does not see this machine's files and is not used")
        return self._device

    def _next_node(self) -> Mapping[str, Any]:
        """The node that fewest actors were begun on: the others have lost them."""
        import ray

        nodes_of: Any = ray.nodes  # Ray does not say what it gives
        try:
            known: list[Mapping[str, Any]] = nodes_of()
        except Exception as error:  # the head is gone
            raise ConnectionError(f"the Ray cluster is gone: {_first_line(error)}") from error
        nodes = [node for node in known if node["Alive"] and node["NodeID"] not in self._without_files]
        if not nodes:
            raise ConnectionError("no node of the Ray cluster sees this machine's files")
        return min(nodes, key=lambda node: self._begun[node["NodeID"]])

    def _beat(self) -> None:
        while not self._closed.wait(_BEAT_S):
            if self._device is not None:
                self._device.beat()


class _Device:
    """The actor of one device, as its driver knows it."""

    def __init__(self, node: Mapping[str, Any], told: tuple[str, ...]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.name = f"node {node['NodeID'][:8]} ({node['NodeManagerHostname']})"
        self.is_lost = False
        self.why_lost = ""
        self._heard = time.monotonic()
        self._beats: Any = None
        self._actor: Any = (
            ray.remote(Device)
            .options(
                num_cpus=0, max_restarts=0, max_task_retries=0, max_concurrency=CALLS_AT_ONCE,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            )
            .remote(*told)
        )  # fmt: skip

    def begin(self, method: str, *arguments: object) -> Any:
        """Call a method of the actor; returns the reference of its answer.

        Raises:
            WorkerDied: the actor is known to be lost.
        """
        import ray

        if self.is_lost:
            raise WorkerDied("lost", self.why_lost)
        try:
            return getattr(self._actor, method).remote(*arguments)
        except ray.exceptions.RayError as error:
            raise self._lost(_first_line(error)) from error

    def ask(self, method: str, *arguments: object) -> Any:
        """Call a method of the actor and wait for its answer; raises as ``answer``."""
        return self.answer(self.begin(method, *arguments))

    def answer(self, reference: Any) -> Any:
        """Wait for an answer, which the actor bounds; here only its silence is.

        Raises:
            WorkerDied: the worker died, or is lost with its actor.
        """
        import ray

        try:
            while not ray.wait([reference], timeout=_POLL_S)[0]:
                if time.monotonic() - self._heard > UNHEARD_S:
                    raise self._lost(f"not heard of for {UNHEARD_S:g} s")
            answer = ray.get(reference)
        except ray.exceptions.RayError as error:
            raise self._lost(_first_line(error)) from error
        if isinstance(answer, Ended):
            raise WorkerDied(answer.kind, answer.reason)
        return answer

    def beat(self) -> None:
        """Tell the actor that its driver is there, and note its answer to the beat before."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError, WorkerDied):
            if self._beats is None:
                self._beats = self.begin("hear")
            elif ray.wait([self._beats], timeout=0)[0]:
                ray.get(self._beats)
                self._heard, self._beats = time.monotonic(), self.begin("hear")

    def stop(self) -> None:
        """End it and all its work."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError, WorkerDied):
            ray.wait([self.begin("stop")], timeout=_STOP_S)
        self._end()

    def _lost(self, reason: str) -> WorkerDied:
        self.why_lost = f"the worker's actor on {self.name} was lost: {reason}"
        self._end()
        return WorkerDied("lost", self.why_lost)

    def _end(self) -> None:
        import ray

        self.is_lost = True
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self._actor)


@dataclass
class RayLine:
    """One worker of a device. Not thread-safe: one conversation at a time."""

    device: _Device
    number: int
    _pending: Any = None

    def send(self, order: Order) -> None:
        """Send one order.

        Raises:
            WorkerDied: the worker is gone.
        """
        self.device.ask("send", self.number, encode(order))

    def receive(self, timeout_s: float) -> Answer:
        """The next answer.

        Raises:
            WorkerDied: the worker died, hung, or is lost with its machine.
        """
        if self._pending is None:  # else a Ctrl-C came while it was waited for
            self._pending = self.device.begin("receive", self.number, timeout_s)
        answer: bytes = self.device.answer(self._pending)
        self._pending = None
        try:
            decoded: Answer = decode_answer(answer)
        except ValueError as error:
            raise WorkerDied("crash", "what it answered is no message") from error
        return decoded

    def close(self, wait_s: float) -> None:
        """Wait for its end, and kill it if it does not end within ``wait_s``."""
        with contextlib.suppress(WorkerDied):
            self.device.ask("close", self.number, wait_s)

    def kill(self) -> None:
        """End it now."""
        with contextlib.suppress(WorkerDied):
            self.device.ask("kill", self.number)


def _connect(where: str, guard: Guard, say: Callable[[str], None]) -> None:
    """Begin a cluster of this run's own, or connect to one.

    Never without an address: Ray would take whatever cluster ran here last.

    Raises:
        EnvironmentFault: Ray is not installed, is in use, or there is no such cluster.
    """
    try:
        with _with_environment(_QUIET):  # some of it is read as Ray is imported
            import ray
    except ImportError as error:
        raise EnvironmentFault(f"--tune-on needs Ray: {install('ray')}") from error
    if ray.is_initialized():
        raise EnvironmentFault(
            "--tune-on: this process has begun Ray before, as a conftest.py may: leave one of them out"
        )
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "namespace": "compileiq"}
    own = where == OWN
    logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of the token that it was given
    with warnings.catch_warnings(action="ignore"), _with_environment(_own(guard) if own else _QUIET):
        try:
            if own:
                ray.init(address="local", include_dashboard=False, _temp_dir=str(guard.folder / "r"),
                         object_store_memory=_OBJECT_STORE_BYTES, **quiet)  # fmt: skip
                if os.environ.get(_AUTH_MODE) != "token":
                    ray.shutdown()
                    raise RuntimeError(
                        "it began without a token, and would take orders from anybody: needs 2.60 or later"
                    )
            else:
                ray.init(address=where, **quiet)
        except Exception as error:  # Ray raises what it likes: RuntimeError for another version, ConnectionError, …
            remedy = "" if own else ": is it the HOST:PORT that ray start --head printed, of the same Ray and Python?"
            raise EnvironmentFault(f"--tune-on={where}: Ray: {_first_line(error)}{remedy}") from error
    if not own and os.environ.get(_AUTH_MODE) != "token":
        say(f"the Ray cluster {where} asks for no token, so that whoever reaches its ports runs code on it: "
            "start its nodes, and this run, with RAY_AUTH_MODE=token")  # fmt: skip


def _own(guard: Guard) -> Mapping[str, str | None]:
    """The environment that a cluster of this run's own begins with: only this run knows its token.

    Where the mode is unset, Ray turns tokens on, even if it was imported long before.
    """
    return {**_QUIET, **guard.marked({}), "RAY_AUTH_TOKEN": secrets.token_hex(32), _AUTH_MODE: None}


@contextlib.contextmanager
def _with_environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Ray reads its settings from the environment as it begins; no worker is to inherit them."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
