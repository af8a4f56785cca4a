"""The workers of one home: started when first asked, replaced when a candidate ends or poisons them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.build_identity import identity_of_compiler
from pytest_compileiq.errors import NoWorker, fault_of
from pytest_compileiq.workers.messages import Entered, Start
from pytest_compileiq.workers.tasks import pack_builder
from pytest_compileiq.workers.transport import MOST_LOSSES, Transport, WorkerDied
from pytest_compileiq.workers.worker import Worker


@dataclass
class Crew:
    """Workers by number; all benchmarks share them, so that imports are paid once."""

    start: Start  # what each worker begins with
    carrier: Transport  # where the workers live
    _workers: dict[int, Worker] = field(default_factory=dict)

    def prepare(self, numbers: range, benchmark: TunedBenchmark) -> None:
        """Start the workers of ``numbers`` side by side and wait for all, so that no start-up disturbs a sample."""
        devices = self.carrier.devices  # one after the other is kept from all others
        for place, first in enumerate(numbers[:devices]):
            with self.carrier.alone(first, ()):
                self._start_up(numbers[place::devices])
        for number in numbers:
            with self.entered(number, benchmark):
                pass

    @contextmanager
    def entered(self, number: int, benchmark: TunedBenchmark, kinds: Sequence[str] = ()) -> Iterator[Worker]:
        """Worker ``number`` with the fixtures up, while nobody else works on its device, or measures on ``kinds``."""
        # Where the driver's own node goes down, the actors of all its devices do.
        for losses_left in reversed(range(MOST_LOSSES + self.carrier.devices)):
            with self.carrier.alone(number, kinds):
                try:
                    worker = self._tried(number, benchmark)
                except WorkerDied as death:  # no controls are applied yet, so none can be to blame
                    self.discard(number)
                    if death.kind != "lost" or not losses_left:
                        raise NoWorker(death.reason) from death
                    continue
                yield worker
                return

    def replace(self, number: int) -> None:
        """End worker ``number`` and whatever workers have left behind; the next of that number is a new process."""
        self.discard(number)
        self.carrier.sweep([worker.line for worker in self._workers.values()])

    def discard(self, number: int) -> None:
        """End worker ``number`` if there is one; the next of that number is a new process."""
        worker = self._workers.pop(number, None)
        if worker is not None:
            worker.kill()

    def close(self) -> None:
        """End every worker and whatever they left behind."""
        for worker in self._workers.values():
            worker.dismiss()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self.carrier.sweep()

    def _start_up(self, numbers: range) -> None:
        """Start workers of one device, as far as it is not lost."""
        for number in numbers:
            with suppress(WorkerDied):  # told below, where it does not get ready either
                self._started(number)
        for number in numbers:
            try:
                self._started(number).wait_ready()
            except WorkerDied as death:
                self.discard(number)
                if death.kind != "lost":
                    raise NoWorker(death.reason) from death

    def _tried(self, number: int, benchmark: TunedBenchmark) -> Worker:
        """Worker ``number`` with the fixtures up; raises what ended it."""
        worker = self._started(number)
        if worker.inside == benchmark.nodeid:
            return worker
        try:
            worker.leave()
        except WorkerDied:  # because of what it ran before, which has been judged
            self.discard(number)
            worker = self._started(number)
        if worker.line.shares_files:
            worker.enter(benchmark.nodeid, pack_builder(benchmark.builder))
        else:
            self._enter_afar(worker, number, benchmark)
        return worker

    def _enter_afar(self, worker: Worker, number: int, benchmark: TunedBenchmark) -> None:
        """Enter a test on another machine, unless that makes something else of the marker than this one."""
        try:
            reason = why_unlike(worker.enter(benchmark.nodeid, None), benchmark)
        except WorkerDied as death:
            if death.kind != "wrong":
                raise
            reason = death.reason
        if reason is not None:
            raise self.carrier.refuse(number, f"{benchmark.nodeid}: {reason}")

    def _started(self, number: int) -> Worker:
        if number in self._workers and self._workers[number].line.is_outdated:
            self.discard(number)
        if number not in self._workers:
            try:
                self._workers[number] = Worker(self.carrier, self.start, number)
            except OSError as error:
                raise NoWorker(fault_of(error)) from error
        return self._workers[number]


def why_unlike(entered: Entered, benchmark: TunedBenchmark) -> str | None:
    """Why a machine that has ``entered`` the test cannot judge what is built here; None if it can."""
    here = benchmark.builder
    if entered.target != here.target:
        return f"it builds for {entered.target} (here {here.target})"
    if entered.command != tuple(here.compiler.command):
        return f"it builds by {shlex.join(entered.command)!r} (here {shlex.join(here.compiler.command)!r})"
    for objective in benchmark.timed_objectives:
        device = benchmark.device(objective.metric).name
        if benchmark.device_kind(objective.metric) == "cpu" and entered.processor != device:
            return f"it measures on {entered.processor}, and this run on {device}"
        if objective.metric == "compile_time" and entered.compiler != (compiler := identity_of_compiler(here.compiler)):
            return f"it compiles by {entered.compiler} (here {compiler})"
    return entered.native if benchmark.needs_device else None
