"""What the workers of a run are asked for, and whose fault it is when one does not answer.

A worker is a pytest of its own, configured as its parent is (``workers.worker_plugin``). It collects the tuned tests,
then waits: entering a test sets up its fixtures once, and tasks run on them until the parent leaves it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar, cast

from msgspec.structs import replace

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.block import BlockAnswer
from pytest_compileiq.benchmark.body import ArmFailure, Touched
from pytest_compileiq.benchmark.cached_builds import identity_of_compiler
from pytest_compileiq.errors import NoWorker, fault_of
from pytest_compileiq.model import UNIT, Arm, ControlsFile, FailureKind, Launch, LockClocks, Workload
from pytest_compileiq.samples import ChecksMade, Conditions, SampleRow
from pytest_compileiq.system.wait import Timer
from pytest_compileiq.timing.registry import holds_context
from pytest_compileiq.timing.sampler import BlockPlan
from pytest_compileiq.workers import messages
from pytest_compileiq.workers.tasks import pack_builder
from pytest_compileiq.workers.transport import MOST_LOSSES, Connection, Transport, WorkerDied

START_TIMEOUT_S = 600.0
_EXIT_TIMEOUT_S = 10.0
_FAILURES: Mapping[str, FailureKind] = {"timeout": "timeout", "wrong": "wrong", "lost": "lost"}  # the rest: a crash
_Given = TypeVar("_Given")


class Worker:
    """One worker, which was just started. Not thread-safe: one conversation at a time.

    Raises:
        WorkerDied: of all methods that wait: it could not do it (kind ``wrong``, saying why), or ended.
    """

    def __init__(self, line: Connection) -> None:
        self.line = line
        self.inside: str | None = None  # the node id of the test that it has entered
        self._ready = False

    def enter(self, nodeid: str, builder: bytes | None) -> messages.Entered:
        """Set up the test's fixtures, leaving the test that the worker was in; ``builder`` as in ``Enter``."""
        self.wait_ready()
        self.leave()
        self.line.send(messages.Enter(nodeid, builder))
        answer = self.line.receive(START_TIMEOUT_S)
        if not isinstance(answer, messages.Entered):
            raise WorkerDied("wrong", _reason(answer) or "the test could not be set up")
        self.inside = nodeid
        return answer

    def wait_ready(self) -> None:
        """Wait until it has collected its tests."""
        if not self._ready:
            self._expect(messages.Ready)
            self._ready = True

    def ask(self, task: messages.Task[object], timeout_s: float) -> messages.TaskAnswer:
        """Have the entered test do ``task``; ``timeout_s`` bounds the time without progress."""
        self.line.send(task)
        answer = self.line.receive(timeout_s)
        if isinstance(answer, messages.TaskAnswer):
            return answer
        self.inside = None  # the test is over, which no task ends by itself
        raise WorkerDied("crash", f"the test ended within its task: {_reason(answer) or 'no reason given'}")

    def query(self, query: messages.Query, timeout_s: float) -> messages.QueryAnswer:
        """Have it answer about a test that it has not entered; ``timeout_s`` bounds the time without progress."""
        self.wait_ready()
        self.line.send(query)
        answer = self.line.receive(timeout_s)
        if not isinstance(answer, messages.QueryAnswer):
            raise WorkerDied("wrong", _reason(answer) or f"answered {type(answer).__name__}")
        return answer

    def leave(self) -> None:
        """Tear the entered test's fixtures down."""
        if self.inside is not None:
            self.inside = None
            self.line.send(messages.Leave())
            self._expect(messages.Left)

    def dismiss(self) -> None:
        """Ask it to tear its fixtures down and to end, without waiting."""
        with suppress(WorkerDied):
            if self.inside is not None:
                self.line.send(messages.Leave())
            self.line.send(messages.Quit())

    def close(self) -> None:
        """Wait for the end of a dismissed worker; kill it if it outlives its last teardown by ten seconds."""
        with suppress(WorkerDied):
            if self.inside is not None:
                self._expect(messages.Left)
        self.line.close(_EXIT_TIMEOUT_S)

    def _expect(self, event: type[messages.Ready] | type[messages.Left]) -> None:
        answer = self.line.receive(START_TIMEOUT_S)
        if not isinstance(answer, event):
            raise WorkerDied("crash", _reason(answer) or f"answered {type(answer).__name__}")


def _reason(answer: messages.Answer) -> str | None:
    return answer.reason if isinstance(answer, messages.Failed | messages.Left | messages.FailureAnswer) else None


class EvaluationFailed(ArmFailure):
    """An evaluation in a worker gave no result; where the worker did not survive it, neither arm is to blame."""


def asked_again(ask: Callable[[], _Given]) -> _Given:
    """What ``ask`` gives, asked for again where its worker was lost; raises as ``ask`` once it was lost twice."""
    for losses_left in reversed(range(MOST_LOSSES)):
        try:
            return ask()
        except EvaluationFailed as failure:
            if failure.kind != "lost" or not losses_left:
                raise
    raise AssertionError("the last try returns or raises")


def _expect_device(used: str, wanted: str) -> None:
    """A claim is about one model of GPU, the one that the kernels are compiled for."""
    if used != wanted:
        reason = f"the call launched on {used}, and this run is for {wanted}: CUDA_VISIBLE_DEVICES chooses the GPU"
        raise EvaluationFailed("baseline", "wrong", reason)


def _unit(answer: BlockAnswer, metric: str) -> str:
    """Which specimen of its device ``metric`` was taken on; empty where the worker does not know."""
    unit = answer.units.get(metric, "")
    if unit and not UNIT.fullmatch(unit):
        raise EvaluationFailed(None, "crash", f"answered that its device is called {unit!r:.80}, which is no name")
    return unit


@dataclass(frozen=True)
class MeasuredBlock:
    """What one block gave: its rows, how each metric was taken on a GPU, what the tuned arm touched, its checks."""

    rows: list[SampleRow]
    conditions: Mapping[str, Conditions]
    touched: Touched
    checks: Mapping[str, ChecksMade] = field(default_factory=dict)

    def of(self, metric: str) -> list[SampleRow]:
        """The rows of one metric."""
        return [row for row in self.rows if row.objective == metric]


@dataclass
class Pool:
    """The workers of one home, by number: all benchmarks share them, so that imports are paid once.

    Worker ``k`` takes the ``k``-th block of every benchmark.

    Raises:
        EvaluationFailed: of all methods that ask a worker: an arm's body failed, or the worker did not survive it.
        NoWorker: of these and of ``prepare``: the worker did not get ready.
    """

    start: messages.Start  # what each worker begins with
    transport: Transport  # where the workers live
    lock_clocks: LockClocks = None  # where a GPU's clocks are held while it is measured
    timer: Timer = field(default_factory=Timer)  # of the time that is waited in between samples
    _workers: dict[int, Worker] = field(default_factory=dict)
    _launches: dict[tuple[str, str], Launch] = field(default_factory=dict)
    _remarks: dict[str, dict[str, None]] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        """How many devices the workers are spread over: ``number`` lives on ``number % devices``."""
        return self.transport.devices

    def move_to(self, other: Pool) -> None:
        """Use the workers of ``other`` from now on."""
        self.transport, self._workers = other.transport, other._workers

    def prepare(self, numbers: range, benchmark: TunedBenchmark) -> None:
        """Start the workers of ``numbers`` side by side and wait for all, so that no start-up disturbs a sample."""
        devices = self.devices
        for place, first in enumerate(numbers[:devices]):  # one device after the other is kept from all others
            with self.transport.alone(first, ()):
                self._start_up(numbers[place::devices])
        for number in numbers:
            with self._entered(number, benchmark):
                pass

    def ask(self, number: int, benchmark: TunedBenchmark, task: messages.Task[_Given]) -> _Given:
        """Have worker ``number`` do ``task``; what is timed, while nobody else measures on the objectives' devices."""
        is_timed = isinstance(task, messages.BlockTask | messages.LookTask)
        timed = benchmark.timed_objectives if is_timed else ()
        with self._entered(number, benchmark, [benchmark.device_kind(each.metric) for each in timed]) as worker:
            try:
                if not worker.line.shares_files:  # no other machine builds what it measures
                    for controls in (None, *filter(None, task.arms.values())):
                        worker.line.bring(benchmark.builds.made(controls))
                answer = worker.ask(task, benchmark.spec.timeout_s)
            except WorkerDied as death:
                self.discard(number)
                raise EvaluationFailed(None, _FAILURES.get(death.kind, "crash"), death.reason) from death
            if isinstance(answer, messages.FailureAnswer):
                if answer.poisoned:
                    self.discard(number)
                    self.transport.sweep([each.line for each in self._workers.values()])
                raise EvaluationFailed(answer.arm, answer.kind, answer.reason)
            if not isinstance(answer, task.answer):
                self.discard(number)
                raise EvaluationFailed(None, "crash", f"answered {type(answer).__name__} to a {type(task).__name__}")
            return cast("_Given", answer)

    def block(
        self,
        number: int,
        benchmark: TunedBenchmark,
        arms: Mapping[Arm, ControlsFile | None],
        workload: Workload,
        plan: BlockPlan,
    ) -> MeasuredBlock:
        """Sample one block in worker ``number``.

        All blocks of one benchmark and workload are launched on a GPU as the first one was, unless the plan says how.
        """
        of_all = benchmark.nodeid, workload.name
        if plan.launch is None:
            plan = replace(plan, launch=self._launches.get(of_all), lock_clocks=self.lock_clocks)
        on_gpu = holds_context(benchmark.builder.clock)
        task = messages.BlockTask(workload.name, arms["tuned"], arms["baseline"], plan, on_gpu)
        answer = self.ask(number, benchmark, task)
        for metric, conditions in answer.conditions.items():
            _expect_device(conditions.device, benchmark.device(metric).name)
            self._launches[of_all] = conditions.launch
        self._remarks.setdefault(benchmark.nodeid, {}).update(dict.fromkeys(answer.remarks))
        units = {metric: _unit(answer, metric) for metric in answer.slots}
        rows = [
            SampleRow(
                benchmark.device(metric).name, workload.name, metric, number, slot.quad, slot.slot, slot.arm, sample,
                value, slot.dropped, slot.clocks, units[metric], None if sample else slot.start,
            )
            for metric, slots in answer.slots.items()
            for slot in slots
            for sample, value in enumerate(slot.values)
        ]  # fmt: skip
        return MeasuredBlock(rows, answer.conditions, answer.touched, answer.checks)

    def remarks(self, benchmark: TunedBenchmark) -> tuple[str, ...]:
        """What its blocks could not see of their device, or keep out of it, in sentences, each once."""
        return tuple(self._remarks.get(benchmark.nodeid, ()))

    def discard(self, number: int) -> None:
        """End worker ``number`` if there is one; the next of that number is a fresh process."""
        if (worker := self._workers.pop(number, None)) is not None:
            worker.line.kill()

    def close(self) -> None:
        """End every worker and whatever they left behind: what is asked for from now on is done by fresh processes."""
        for worker in self._workers.values():
            worker.dismiss()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self.transport.sweep()

    # ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _entered(self, number: int, benchmark: TunedBenchmark, kinds: Sequence[str] = ()) -> Iterator[Worker]:
        """Worker ``number`` with the fixtures up, while nobody else works on its device, or measures on ``kinds``."""
        # Where the driver's own node goes down, the actors of all its devices do.
        for losses_left in reversed(range(MOST_LOSSES + self.devices)):
            with ExitStack() as held:
                try:
                    held.enter_context(self.transport.alone(number, kinds))
                    worker = self._tried(number, benchmark)
                except WorkerDied as death:  # no controls are applied yet, so none can be to blame
                    self.discard(number)
                    if death.kind != "lost" or not losses_left:
                        raise NoWorker(death.reason) from death
                    continue
                yield worker
                return

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
            return worker
        try:
            reason = why_unlike(worker.enter(benchmark.nodeid, None), benchmark)
        except WorkerDied as death:
            if death.kind != "wrong":
                raise
            reason = death.reason
        if reason is not None:
            raise self.transport.refuse(number, f"{benchmark.nodeid}: {reason}")
        return worker

    def _started(self, number: int) -> Worker:
        if number in self._workers and self._workers[number].line.is_outdated:
            self.discard(number)
        if number not in self._workers:
            try:
                self._workers[number] = Worker(self.transport.launch(self.start, number))
            except OSError as error:
                raise NoWorker(fault_of(error)) from error
        return self._workers[number]


def why_unlike(entered: messages.Entered, benchmark: TunedBenchmark) -> str | None:
    """Why a machine that has ``entered`` the test cannot judge what is built here; None if it can."""
    here = benchmark.builder
    if entered.target != here.target:
        # As by another processor's `native`: its artifact would be another one.
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
