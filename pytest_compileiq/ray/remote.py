"""The actor of one device, and the workers that it owns, as their driver knows them.

What an answer says is decoded here, and nothing that a candidate's process said is unpickled.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_compileiq.ray.cluster import what_ray_says
from pytest_compileiq.ray.device_actor import CALLS_AT_ONCE, UNHEARD_S, DeviceActor, Ended
from pytest_compileiq.ray.remote_files import BUILDS, FileSet, RemoteFiles
from pytest_compileiq.workers.messages import Answer, Order, Start, TaskAnswer, decode_answer, encode
from pytest_compileiq.workers.transport import WorkerDied

_POLL_S = 1.0
_STOP_S = 10.0


@dataclass
class SentFiles:
    """What one actor has been given of it, each thing once, however many threads ask for it."""

    files: RemoteFiles
    ask: Callable[..., object]  # calls a method of the actor
    _is_settled: bool = False
    _brought: set[Path] = field(default_factory=set)
    _delivering: threading.Lock = field(default_factory=threading.Lock)

    def settle(self) -> None:
        """Bring the project."""
        with self._delivering:
            if not self._is_settled:
                self._deliver(self.files.project(), "settle")
                self._is_settled = True

    def bring(self, build: Path) -> None:
        """Bring a build, a folder of the run's."""
        with self._delivering:
            if build not in self._brought:
                with self.files.build(build) as (file_set, place):
                    self._deliver(file_set, "unpack", f"{BUILDS}/{place}")
                self._brought.add(build)

    def _deliver(self, file_set: FileSet, method: str, *arguments: object) -> None:
        for message in file_set.messages():
            self.ask("take", message)
        self.ask(method, file_set.manifest(), *arguments)


class RemoteDevice:
    """The actor of one device."""

    def __init__(
        self,
        node_id: str,
        name: str,
        told: tuple[str, ...],
        files: RemoteFiles | None = None,
        *,
        has_gpu: bool,
        calls_at_once: int = CALLS_AT_ONCE,
    ) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.name = name
        self.why_lost = ""
        self.sent: SentFiles | None = None  # None where it sees this machine's files at the same paths
        if files is not None:
            self.furnish(files)
        self._losing = threading.Lock()
        self._heard = time.monotonic()
        self._beats: Any = None
        self._actor: Any = (
            ray.remote(DeviceActor)
            .options(
                num_cpus=0, num_gpus=int(has_gpu), max_restarts=0, max_task_retries=0, max_concurrency=calls_at_once,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
            .remote(*told)
        )  # fmt: skip

    @property
    def is_lost(self) -> bool:
        """Whether it is gone, or was given up."""
        return bool(self.why_lost)

    def begin(self, method: str, *arguments: object) -> Any:
        """Call a method of the actor; returns the reference of its answer."""
        import ray

        if self.is_lost:
            raise WorkerDied("lost", self.why_lost)
        try:
            return getattr(self._actor, method).remote(*arguments)
        except ray.exceptions.RayError as error:
            raise self._lost(what_ray_says(error)) from error

    def ask(self, method: str, *arguments: object) -> Any:
        """Call a method of the actor and wait for its answer; raises as ``answer``."""
        return self.answer(self.begin(method, *arguments))

    def answer(self, reference: Any) -> Any:
        """Wait for an answer, which the actor bounds; here only its silence is."""
        import ray

        try:
            while not ray.wait([reference], timeout=_POLL_S)[0]:
                if time.monotonic() - self._heard > UNHEARD_S:
                    raise self._lost(f"not heard of for {UNHEARD_S:g} s")
            answer = ray.get(reference, timeout=UNHEARD_S)
        except ray.exceptions.RayError as error:
            raise self._lost(what_ray_says(error)) from error
        if not isinstance(answer, Ended):
            return answer
        if answer.kind == "lost":
            raise self._lost(answer.reason)
        if answer.kind == "crash":  # no doing of what it ran where the actor ends, and its workers with it
            self.ask("hear")
        raise WorkerDied(answer.kind, answer.reason)

    def furnish(self, files: RemoteFiles) -> None:
        """It does not see this machine's files: it is to work on copies of them."""
        self.sent = SentFiles(files, self.ask)

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
        self._end("it was ended")

    def _lost(self, reason: str) -> WorkerDied:
        self._end(f"the worker's actor on {self.name} was lost: {reason}")
        return WorkerDied("lost", self.why_lost)

    def _end(self, why: str) -> None:
        import ray

        with self._losing:
            self.why_lost = self.why_lost or why
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self._actor)


@dataclass
class RayConnection:
    """One worker of a device. Not thread-safe: one conversation at a time."""

    device: RemoteDevice  # that it lives on
    number: int
    at_home: Callable[[], RemoteDevice | None]  # the device that a new worker of its number would live on
    done: Callable[[WorkerDied | None], None]  # is told of every task that was answered, and of the loss of the device
    _pending: Any = None

    @property
    def is_outdated(self) -> bool:
        return self.device is not self.at_home()

    @property
    def shares_files(self) -> bool:
        return self.device.sent is None

    def bring(self, build: Path) -> None:
        if (sent := self.device.sent) is not None:
            self._told(lambda: sent.bring(build))

    def send(self, order: Order) -> None:
        self._told(lambda: self.device.ask("send", self.number, encode(order)))

    def receive(self, timeout_s: float) -> Answer:
        if self._pending is None:  # else a Ctrl-C came while it was waited for
            self._pending = self._told(lambda: self.device.begin("receive", self.number, timeout_s))
        answer: bytes = self._told(lambda: self.device.answer(self._pending))
        self._pending = None
        try:
            decoded: Answer = decode_answer(answer)
        except ValueError as error:
            raise WorkerDied("crash", "its answer is no message") from error
        if isinstance(decoded, TaskAnswer):
            self.done(None)
        return decoded

    def close(self, wait_s: float) -> None:
        with contextlib.suppress(WorkerDied):
            self.device.ask("close", self.number, wait_s)

    def kill(self) -> None:
        with contextlib.suppress(WorkerDied):
            self.device.ask("kill", self.number)

    def _told(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except WorkerDied as death:
            if death.kind == "lost":
                self.done(death)
            raise


def launched(device: RemoteDevice, start: Start) -> int:
    """Start a worker on ``device``, which is given the project first where it has none; returns its number."""
    if device.sent is not None:
        device.sent.settle()
    # A candidate is not to have the cluster's token.
    environment = {name: value for name, value in start.environment.items() if not name.startswith("RAY_")}
    number: int = device.ask("launch", encode(replace(start, environment=environment)))
    return number
