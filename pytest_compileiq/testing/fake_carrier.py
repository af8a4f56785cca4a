"""A transport whose workers start no process, for tests of conversations, of pools, and of the order of calls."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_compileiq.benchmark.block import BlockAnswer
from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.rules.stress import Draw
from pytest_compileiq.timing.sampler import ARMS, Slot
from pytest_compileiq.workers import messages
from pytest_compileiq.workers.messages import Answer, Order
from pytest_compileiq.workers.transport import Connection, WorkerDied

_TOUCHED = Touched(frozenset({"kernel"}), frozenset())
_ANSWERS: dict[type[Order], Answer] = {
    messages.Enter: messages.Entered(),
    messages.Leave: messages.Left(None),
    messages.CheckTask: _TOUCHED,
    messages.LookTask: None,
    messages.DrawTask: Draw(),
    messages.FirstCallsTask: None,
}


def obedient(order: Order) -> Answer:
    """The answer of a worker whose kernel is correct and takes a millisecond."""
    if isinstance(order, messages.BlockTask):
        slots = tuple(
            Slot(quad, slot, ARMS[letter], (1e-3,) * order.plan.samples)
            for quad, arms in enumerate(order.plan.quads)
            for slot, letter in enumerate(arms)
        )
        return BlockAnswer({"runtime": slots}, {}, _TOUCHED)
    return _ANSWERS.get(type(order), messages.Ready())


@dataclass
class FakeCarrier:
    """A ``Transport`` whose workers are functions of this process."""

    # The worker's number in launch order, and the order → the worker's answer; an exception is raised.
    answer: Callable[[int, Order], Answer | Exception] = lambda worker, order: obedient(order)
    # `(what, worker)` in call order: the names of orders (`Start`, `Enter`, `CheckTask` and so on), `close`, `kill`;
    # for `alone`, `bring`, `refuse` and `sweep` the second item is the kinds, the name of the build's folder, the
    # reason or the spared workers.
    said: list[tuple[str, Any]] = field(default_factory=list)
    launches: int = 100  # how many workers may be started; the machine refuses the next one
    shares_files: bool = True  # whether the workers see this machine's files
    devices: int = 1  # that the workers are spread over

    def launch(self, start: messages.Start, number: int) -> _FakeLine:
        launched = sum(what == "Start" for what, _ in self.said)
        if launched == self.launches:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        line = _FakeLine(self, launched)
        line.send(start)
        return line

    @contextlib.contextmanager
    def alone(self, number: int, kinds: Sequence[str]) -> Iterator[None]:
        if kinds:
            self.said.append(("alone", tuple(kinds)))
        yield

    def refuse(self, number: int, reason: str) -> WorkerDied:
        self.said.append(("refuse", reason))
        return WorkerDied("lost", reason)

    def sweep(self, spared: Collection[Connection] = ()) -> None:
        self.said.append(("sweep", tuple(line.number for line in spared if isinstance(line, _FakeLine))))


@dataclass
class _FakeLine:
    carrier: FakeCarrier
    number: int
    is_outdated: bool = False
    _waiting: list[Order] = field(default_factory=list)

    @property
    def shares_files(self) -> bool:
        return self.carrier.shares_files

    def bring(self, build: Path) -> None:
        self.carrier.said.append(("bring", build.name))

    def send(self, order: Order) -> None:
        self.carrier.said.append((type(order).__name__, self.number))
        self._waiting.append(order)

    def receive(self, timeout_s: float) -> Answer:
        answer = self.carrier.answer(self.number, self._waiting.pop(0))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self, wait_s: float) -> None:
        self.carrier.said.append(("close", self.number))

    def kill(self) -> None:
        self.carrier.said.append(("kill", self.number))
