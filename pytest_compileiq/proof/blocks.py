"""The blocks of a proof: finalists sampled in the same fresh processes, by the gate's plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import msgspec

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.claim import ConditionsTable
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.model import Arm, ControlsFile
from pytest_compileiq.proof.claims import Finalist
from pytest_compileiq.rules.gate import LOOKS, PROCESS_EVERY_S, QUADS, SAMPLES
from pytest_compileiq.timing.checked import CHECKED_CALLS
from pytest_compileiq.timing.sampler import BlockPlan, plan_block
from pytest_compileiq.workers.pool import EvaluationFailed, Pool, asked_again


@dataclass(frozen=True)
class Deal:
    """One process of a proof, for one block: permuted blocks (Matts and Lachin, Controlled Clinical Trials 9, 1988)."""

    seed: int
    number: int
    devices: int = 1  # how many the processes are spread over: each has a design of its own
    of: str = ""  # the block, so that the blocks of one process are dealt apart

    def half(self, what: str) -> bool:
        """Whether the process is among the half of its eight that are dealt ``what``."""
        turn, device = divmod(self.number, self.devices)
        eight, place = divmod(turn, LOOKS[0])
        dealt = [True, False] * (LOOKS[0] // 2)
        Random(f"{self.seed} {self.of} {what} {device} {eight}").shuffle(dealt)
        return dealt[place]


class Unprovable(TuneFailed):
    """The baseline itself failed while it was measured, or others disturb every measurement."""


def plan_of(benchmark: TunedBenchmark, random: Random, deal: Deal, claimed: ConditionsTable | None = None) -> BlockPlan:
    """The gate's plan for one block, in the process of ``deal``; on a GPU as ``claimed``, where it is."""
    # A compilation is long and steady: a median of several is not worth several times the wait.
    samples = 1 if {objective.metric for objective in benchmark.timed_objectives} == {"compile_time"} else SAMPLES
    # In every second process: what is wrong in every n-th call shows in the first, what is by chance in some.
    calls = CHECKED_CALLS if deal.half("checks") else 0
    plan = plan_block(random, quads=QUADS, samples=samples, checked_calls=calls, starts=True)
    plan = msgspec.structs.replace(plan, outer="tuned" if deal.half("outer") else "baseline")
    if claimed is not None:
        plan = msgspec.structs.replace(plan, launch=claimed.launch, lock_clocks=claimed.locked_mhz)
    return plan


@dataclass
class Blocks:
    """Takes blocks of finalists in the same processes; ``is_short``: one quad of single samples, compared exactly."""

    pool: Pool
    benchmark: TunedBenchmark
    against: ControlsFile | None
    seed: int
    is_short: bool = False

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def take(self, numbers: range, finalists: Sequence[Finalist], *, after: float = 0.0) -> float:
        """Sample ``finalists`` in the processes ``numbers``, ``after`` a time of its timer; returns the start."""
        timer = self.pool.timer
        self.pool.prepare(numbers, self.benchmark)
        timer.wait_until(after)
        begun = timer.now()
        for number in numbers if self.is_short else timer.spaced(numbers, PROCESS_EVERY_S):
            for finalist in self._random.sample(finalists, len(finalists)):
                self._take(number, finalist)
        for finalist in finalists:
            finalist.leave_out_lost()
        return begun

    def _take(self, number: int, finalist: Finalist) -> None:
        for workload in self.benchmark.timed_workloads:
            if finalist.out:
                return
            try:
                arms: Mapping[Arm, ControlsFile | None] = {"baseline": self.against, "tuned": finalist.controls}
                of = f"{finalist.controls.key if finalist.controls else ''} {workload.name}"
                if self.is_short:
                    plan = plan_block(self._random, quads=1, samples=1, discard=False)
                else:
                    plan = plan_of(self.benchmark, self._random, Deal(self.seed, number, self.pool.devices, of))
                finalist.take(
                    workload, asked_again(partial(self.pool.block, number, self.benchmark, arms, workload, plan))
                )
            except EvaluationFailed as failure:
                if failure.arm == "baseline":
                    raise Unprovable(
                        f"the baseline failed while it was measured ({failure.kind}): {failure.reason}"
                    ) from failure
                if failure.kind == "disturbed":
                    raise Unprovable(f"nothing can be proven while {failure.reason}") from failure
                finalist.out = f"failed in the proof ({failure.kind}): {failure.reason}"
