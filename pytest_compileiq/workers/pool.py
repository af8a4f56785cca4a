"""What the workers of a run are asked for, and whose fault it is when one does not answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.model import UNIT, Arm, ControlsFile, FailureKind, Launch, LockClocks, Workload
from pytest_compileiq.rules.calls import CallTimes, FirstCalls
from pytest_compileiq.rules.stress import Draw
from pytest_compileiq.samples import ChecksMade, Conditions, SampleRow
from pytest_compileiq.system.timer import Timer
from pytest_compileiq.timing.registry import holds_context
from pytest_compileiq.timing.sampler import BlockPlan
from pytest_compileiq.workers.crew import Crew
from pytest_compileiq.workers.messages import (
    BlockAnswer,
    BlockTask,
    CheckAnswer,
    CheckTask,
    DrawAnswer,
    DrawTask,
    FailureAnswer,
    FirstCallsAnswer,
    FirstCallsTask,
    LookAnswer,
    LookTask,
    Task,
)
from pytest_compileiq.workers.transport import MOST_LOSSES, Connection, WorkerDied

_FAILURES: Mapping[str, FailureKind] = {"timeout": "timeout", "wrong": "wrong", "lost": "lost"}  # the rest: a crash
_Given = TypeVar("_Given")
_Answer = TypeVar("_Answer", CheckAnswer, BlockAnswer, LookAnswer, DrawAnswer, FirstCallsAnswer)


class EvaluationFailed(CompileIQError):
    """An evaluation gave no result: whose fault, which kind, and why, in words."""

    def __init__(self, arm: Arm | None, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.arm: Arm | None = arm
        self.kind: FailureKind = kind
        self.reason = reason


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
    """What a crew of workers measures; worker ``k`` takes the ``k``-th block of every benchmark."""

    crew: Crew  # the workers, which another crew may take the place of between two evaluations
    lock_clocks: LockClocks = None  # where a GPU's clocks are held while it is measured
    timer: Timer = field(default_factory=Timer)  # the time that is waited in between samples
    _launches: dict[tuple[str, str], Launch] = field(default_factory=dict)
    _remarks: dict[str, dict[str, None]] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        """How many devices the workers are spread over: ``number`` lives on ``number % devices``."""
        return self.crew.carrier.devices

    def prepare(self, numbers: range, benchmark: TunedBenchmark) -> None:
        """Start the workers of ``numbers`` side by side and wait for all, so that no start-up disturbs a sample.

        Raises:
            NoWorker: one did not get ready.
        """
        self.crew.prepare(numbers, benchmark)

    def check(
        self, number: int, benchmark: TunedBenchmark, controls: ControlsFile | None, workload: Workload
    ) -> Touched:
        """Run the body once in worker ``number``; returns what it touched.

        Raises:
            EvaluationFailed: the body failed, or the worker did not survive it.
            NoWorker: the worker did not get ready.
        """
        return self._ask(number, benchmark, CheckTask(workload.name, controls), CheckAnswer).touched

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

        Raises:
            EvaluationFailed: an arm's body failed, or the worker did not survive it.
            NoWorker: the worker did not get ready.
        """
        of_all = benchmark.nodeid, workload.name
        if plan.launch is None:
            plan = replace(plan, launch=self._launches.get(of_all), lock_clocks=self.lock_clocks)
        on_gpu = holds_context(benchmark.builder.clock)
        task = BlockTask(workload.name, arms["baseline"], arms["tuned"], plan, on_gpu)
        answer = self._ask_alone(number, benchmark, task, BlockAnswer)
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

    def look(
        self, number: int, benchmark: TunedBenchmark, controls: ControlsFile | None, workload: Workload
    ) -> CallTimes | None:
        """Look in worker ``number`` at the call that the body measures; None where it measures none.

        Raises:
            EvaluationFailed: the body failed, or the worker did not survive it.
            NoWorker: the worker did not get ready.
        """
        return self._ask_alone(number, benchmark, LookTask(workload.name, controls), LookAnswer).times

    def draw(
        self,
        number: int,
        benchmark: TunedBenchmark,
        controls: ControlsFile | None,
        workload: Workload,
        seed: int,
        *,
        bits_promised: bool = False,
    ) -> Draw:
        """Run the body in worker ``number`` with ``seed`` for ``acf.rng``: with ``controls``, and twice the baseline.

        Raises:
            EvaluationFailed: an arm's body failed or the arms differ, or the worker did not survive it.
            NoWorker: the worker did not get ready.
        """
        task = DrawTask(workload.name, controls, seed, bits_promised)
        return self._ask(number, benchmark, task, DrawAnswer).drawn

    def first_calls(
        self, number: int, benchmark: TunedBenchmark, controls: ControlsFile, workload: Workload, seed: int
    ) -> FirstCalls | None:
        """Time in worker ``number`` the first call of a copy of each arm's build; None where that decides nothing.

        Raises:
            EvaluationFailed: the worker did not survive it.
            NoWorker: the worker did not get ready.
        """
        return self._ask(number, benchmark, FirstCallsTask(workload.name, controls, seed), FirstCallsAnswer).calls

    def discard(self, number: int) -> None:
        """End worker ``number`` if there is one; the next of that number is a fresh process."""
        self.crew.discard(number)

    def close(self) -> None:
        """End every worker: what is asked for from now on is done by fresh processes."""
        self.crew.close()

    def _ask_alone(self, number: int, benchmark: TunedBenchmark, task: Task, expected: type[_Answer]) -> _Answer:
        """As ``_ask``, while nobody else measures on the devices of the objectives."""
        kinds = [benchmark.device_kind(objective.metric) for objective in benchmark.timed_objectives]
        return self._ask(number, benchmark, task, expected, kinds)

    def _ask(
        self, number: int, benchmark: TunedBenchmark, task: Task, expected: type[_Answer], kinds: Sequence[str] = ()
    ) -> _Answer:
        with self.crew.entered(number, benchmark, kinds) as worker:
            try:
                _bring_builds(worker.line, benchmark, task)
                answer = worker.ask(task, benchmark.spec.timeout_s)
            except WorkerDied as death:
                self.crew.discard(number)
                raise EvaluationFailed(None, _FAILURES.get(death.kind, "crash"), death.reason) from death
            if isinstance(answer, FailureAnswer):
                if answer.poisoned:
                    self.crew.replace(number)
                raise EvaluationFailed(answer.arm, answer.kind, answer.reason)
            if not isinstance(answer, expected):
                self.crew.discard(number)
                raise EvaluationFailed(None, "crash", f"answered {type(answer).__name__} to a {type(task).__name__}")
            return answer


def _bring_builds(line: Connection, benchmark: TunedBenchmark, task: Task) -> None:
    """See that what the task's arms have built here is there, too: no other machine builds what it measures."""
    if line.shares_files:
        return
    tuned = (task.baseline, task.tuned) if isinstance(task, BlockTask) else (task.controls,)
    for controls in (None, *tuned):
        line.bring(benchmark.builds.made(controls))
