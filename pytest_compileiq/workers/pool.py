"""The worker processes of one run: started when first asked, replaced when a candidate ends or poisons them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.errors import NoWorker, fault_of
from pytest_compileiq.model import Arm, ControlsFile, FailureKind, SampleRow, Workload
from pytest_compileiq.rules.calls import CallTimes
from pytest_compileiq.system.files import locked, machine_lock
from pytest_compileiq.system.process import Guard
from pytest_compileiq.timing.registry import lock_name
from pytest_compileiq.timing.sampler import BlockPlan
from pytest_compileiq.workers.tasks import pack_builder, pack_controls
from pytest_compileiq.workers.worker import Worker, WorkerDied


class EvaluationFailed(Exception):
    """An evaluation gave no result: whose fault, which kind, and why, in words."""

    def __init__(self, arm: Arm | None, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.arm: Arm | None = arm
        self.kind: FailureKind = kind
        self.reason = reason


@dataclass
class Pool:
    """Workers by number; worker ``k`` takes the ``k``-th block of every benchmark: imports are paid once.

    Attributes:
        config: the parent's configuration, whose options the workers start from.
        nodeids: the tuned tests that a worker may be asked to enter.
        guard: ends every process of the run with the run.
        build_dir: where the run's builds are.
    """

    config: pytest.Config
    nodeids: Sequence[str]
    guard: Guard
    build_dir: Path
    _workers: dict[int, Worker] = field(default_factory=dict)

    def prepare(self, numbers: range, benchmark: TunedBenchmark) -> None:
        """Start the workers of ``numbers`` side by side and wait for all, so that no start-up disturbs a sample.

        Raises:
            NoWorker: one did not get ready.
        """
        for number in numbers:
            self._started(number)
        for number in numbers:
            self._entered(number, benchmark)

    def check(
        self, number: int, benchmark: TunedBenchmark, controls: ControlsFile | None, workload: Workload
    ) -> Touched:
        """Run the body once in worker ``number``; returns what it touched.

        Raises:
            EvaluationFailed: the body failed, or the worker did not survive it.
            NoWorker: the worker did not get as far.
        """
        task = {"task": "check", "workload": workload.name, "baseline": None, "tuned": pack_controls(controls)}
        return _touched(self._ask(number, benchmark, task))

    def block(
        self,
        number: int,
        benchmark: TunedBenchmark,
        arms: Mapping[Arm, ControlsFile | None],
        workload: Workload,
        plan: BlockPlan,
    ) -> tuple[list[SampleRow], Touched]:
        """Sample one block in worker ``number``; returns its rows and what the tuned arm touched.

        Raises:
            EvaluationFailed: an arm's body failed, or the worker did not survive it.
            NoWorker: the worker did not get as far.
        """
        task = {
            "task": "block", "workload": workload.name, "baseline": pack_controls(arms["baseline"]),
            "tuned": pack_controls(arms["tuned"]),
            "plan": {"outer": plan.outer, "quads": list(plan.quads), "samples": plan.samples},
        }  # fmt: skip
        answer = self._ask_alone(number, benchmark, task)
        rows = [
            SampleRow(
                benchmark.device(metric).name, workload.name, metric, number, slot["quad"], slot["slot"], slot["arm"],
                sample, value, slot["dropped"],
            )
            for metric, slots in answer["slots"].items()
            for slot in slots
            for sample, value in enumerate(slot["values"])
        ]  # fmt: skip
        return rows, _touched(answer)

    def look(
        self, number: int, benchmark: TunedBenchmark, controls: ControlsFile | None, workload: Workload
    ) -> CallTimes | None:
        """Look in worker ``number`` at the call that the body measures; None where it measures none.

        Raises:
            EvaluationFailed: the body failed, or the worker did not survive it.
        """
        task = {"task": "look", "workload": workload.name, "baseline": None, "tuned": pack_controls(controls)}
        times = self._ask_alone(number, benchmark, task)["times"]
        return None if times is None else CallTimes(**times)

    def close(self) -> None:
        """End every worker and whatever they left behind."""
        for worker in self._workers.values():
            worker.dismiss()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self.guard.sweep()

    def _ask_alone(self, number: int, benchmark: TunedBenchmark, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """As ``_ask``, while no process and no user of this machine measures on the devices of the objectives."""
        kinds = sorted({benchmark.device_kind(objective.metric) for objective in benchmark.timed_objectives})
        with ExitStack() as locks:
            for kind in kinds:
                locks.enter_context(locked(machine_lock(f"device {lock_name(kind)}")))
            return self._ask(number, benchmark, task)

    def _ask(self, number: int, benchmark: TunedBenchmark, task: Mapping[str, Any]) -> Mapping[str, Any]:
        worker = self._entered(number, benchmark)
        try:
            answer = worker.ask(task, benchmark.spec.timeout_s)
        except WorkerDied as death:
            self._discard(number)
            kind: FailureKind = "timeout" if death.kind == "timeout" else "wrong" if death.kind == "wrong" else "crash"
            raise EvaluationFailed(None, kind, death.reason) from death
        if answer.get("poisoned"):
            self._discard(number)
            self.guard.sweep(frozenset(one.pid for one in self._workers.values()))
        if not answer["ok"]:
            raise EvaluationFailed(answer["arm"], answer["kind"], answer["reason"])
        return answer

    def _entered(self, number: int, benchmark: TunedBenchmark) -> Worker:
        """Worker ``number`` with the benchmark's fixtures up. No controls were applied yet that could be to blame."""
        worker = self._started(number)
        if worker.inside == benchmark.nodeid:
            return worker
        try:
            worker.leave()
        except WorkerDied:  # of what it had run before, which is judged
            self._discard(number)
            worker = self._started(number)
        try:
            worker.enter(benchmark.nodeid, pack_builder(benchmark.builder))
        except WorkerDied as death:
            self._discard(number)
            raise NoWorker(death.reason) from death
        return worker

    def _started(self, number: int) -> Worker:
        if number not in self._workers:
            extra = {"build_dir": str(self.build_dir)}
            try:
                self._workers[number] = Worker(self.config, self.nodeids, self.guard.environment(), extra)
            except (WorkerDied, OSError) as error:
                raise NoWorker(fault_of(error) if isinstance(error, OSError) else str(error)) from error
        return self._workers[number]

    def _discard(self, number: int) -> None:
        worker = self._workers.pop(number, None)
        if worker is not None:
            worker.kill()


def _touched(answer: Mapping[str, Any]) -> Touched:
    return Touched(frozenset(answer["used"]), frozenset(answer["read"]))
