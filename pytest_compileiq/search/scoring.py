"""What one candidate is worth: a log-ratio to a neighbouring baseline for each objective, lower is better.

A score that is not positive in the baseline is compared by its difference instead: ``rules.analysis.SearchAxis``.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import Arm, BuildResult, ControlsFile, Objective, SampleRow, Workload
from pytest_compileiq.rules.analysis import SearchAxis, steady_values
from pytest_compileiq.rules.slots import slot_value
from pytest_compileiq.timing.sampler import plan_block
from pytest_compileiq.workers.pool import EvaluationFailed, MeasuredBlock, Pool

QUADS = 1
SAMPLES = 3
ROUNDS = 3


@dataclass(frozen=True)
class Scored:
    """A valid candidate: a score for each objective, the raw samples of the timed ones, the parameters it read."""

    scores: tuple[float, ...]
    controls: ControlsFile
    samples: tuple[SampleRow, ...] = ()
    read: frozenset[str] = frozenset()


@dataclass
class Scorer:
    """Scores candidates of one benchmark in worker 0; ``random`` tosses the coins of the blocks.

    Attributes:
        blocks, blocks_s: how many blocks it has measured in full, and the seconds that these took.
    """

    pool: Pool
    benchmark: TunedBenchmark
    random: Random
    blocks: int = 0
    blocks_s: float = 0.0
    _axes: dict[tuple[str, str], SearchAxis] = field(default_factory=dict)
    _without_ratio: set[str] = field(default_factory=set)
    _has_varied: bool = False

    @property
    def varies(self) -> bool:
        """Whether times are taken, or some score was not one number in each arm."""
        return self._has_varied or not self.benchmark.scores_only

    def score(self, controls: ControlsFile, build: BuildResult) -> Scored:
        """Check correctness on every workload, then take every objective.

        Raises:
            EvaluationFailed: the body failed, or the worker did not survive it.
        """
        benchmark = self.benchmark
        try:
            exact = {objective: exact_score(benchmark, objective, build) for objective in benchmark.exact_objectives}
        except BuildError as error:
            raise EvaluationFailed(None, "compile", str(error)) from error
        timed = bool(benchmark.timed_objectives)
        read: frozenset[str] = frozenset()
        for workload in benchmark.checked_workloads if timed else benchmark.spec.workloads:
            read |= self.pool.check(0, benchmark, controls, workload).read
        taken = self._timed(controls) if timed else _Taken()
        scores = tuple(
            exact[objective] if objective.exact else taken.scores[objective.metric]
            for objective in benchmark.objectives
        )
        return Scored(scores, controls, tuple(taken.rows), read | taken.read)

    def settled(self, scored: Scored) -> Scored:
        """The candidate with its timed objectives measured anew, each as the median of several rounds.

        Scores that do not vary take one round.

        The body first runs with these controls alone: beside the baseline, in buffers that both share, a kernel that
        writes nothing would pass with the baseline's output.

        Raises:
            EvaluationFailed: as ``score``.
        """
        for workload in self.benchmark.timed_workloads:
            self.pool.check(0, self.benchmark, scored.controls, workload)
        rounds = [self._timed(scored.controls)]
        if self.varies:
            rounds += [self._timed(scored.controls) for _ in range(1, ROUNDS)]
        scores = tuple(
            score if objective.exact else statistics.median(taken.scores[objective.metric] for taken in rounds)
            for objective, score in zip(self.benchmark.objectives, scored.scores, strict=True)
        )
        return Scored(scores, scored.controls)

    def recall(self, rows: Sequence[SampleRow]) -> None:
        """Learn from what an earlier run took: the first values of the baseline fix the axes, as they did there."""
        for objective in filter(lambda objective: objective.is_score, self.benchmark.timed_objectives):
            for workload in self.benchmark.timed_workloads:
                own = [row for row in rows if (row.objective, row.workload) == (objective.metric, workload.name)]
                if own:
                    self._step(objective, workload, own)
                    self._has_varied = self._has_varied or steady_values(own) is None

    def shift(self, objective: Objective, score: float) -> float | None:
        """The difference from the baseline that ``score`` stands for, as a share of its magnitude; positive is higher.

        None where scores are log-ratios: where no value was zero or negative so far.
        """
        axes = [axis for (metric, _), axis in self._axes.items() if metric == objective.metric]
        if objective.metric not in self._without_ratio or not axes:
            return None
        axis = next((axis for axis in axes if not axis.by_ratio), axes[0])
        return axis.shift(score if objective.direction == "minimize" else -score)

    def _timed(self, controls: ControlsFile) -> _Taken:
        benchmark = self.benchmark
        total = sum(workload.weight for workload in benchmark.timed_workloads)
        taken = _Taken({objective.metric: 0.0 for objective in benchmark.timed_objectives})
        for workload in benchmark.timed_workloads:
            block = self._block(controls, workload)
            taken.rows += block.rows
            taken.read |= block.touched.read
            for objective in benchmark.timed_objectives:
                rows = block.of(objective.metric)
                taken.scores[objective.metric] += workload.weight / total * self._step(objective, workload, rows)
        return taken

    def _block(self, controls: ControlsFile, workload: Workload) -> MeasuredBlock:
        """One block; of scores that have never varied a short one, which is taken again in full once they do."""
        arms: Mapping[Arm, ControlsFile | None] = {"baseline": None, "tuned": controls}
        if not self.varies:
            short = plan_block(self.random, quads=QUADS, samples=1, discard=False)
            block = self.pool.block(0, self.benchmark, arms, workload, short)
            if all(steady_values(block.of(objective.metric)) for objective in self.benchmark.timed_objectives):
                return block
            self._has_varied = True
        begun = time.monotonic()
        block = self.pool.block(
            0, self.benchmark, arms, workload, plan_block(self.random, quads=QUADS, samples=SAMPLES)
        )
        self.blocks, self.blocks_s = self.blocks + 1, self.blocks_s + time.monotonic() - begun
        return block

    def _step(self, objective: Objective, workload: Workload, rows: Sequence[SampleRow]) -> float:
        """From the baseline to the candidate, lower is better; all candidates of a search are on one axis."""
        if not objective.is_score:
            return log_ratio(rows, objective.direction)
        if not all(row.value > 0 for row in rows):
            self._without_ratio.add(objective.metric)
        key = objective.metric, workload.name
        if key not in self._axes:
            self._axes[key] = SearchAxis.through([row.value for row in rows if row.arm == "baseline"])
        baseline, tuned = map(self._axes[key].place, _arm_values(rows))
        return tuned - baseline if objective.direction == "minimize" else baseline - tuned


@dataclass
class _Taken:
    """Metric → the weighted mean over workloads of its log-ratio or difference; the rows behind it, what was read."""

    scores: dict[str, float] = field(default_factory=dict)
    rows: list[SampleRow] = field(default_factory=list)
    read: frozenset[str] = frozenset()


def exact_score(benchmark: TunedBenchmark, objective: Objective, build: BuildResult) -> float:
    """The log-ratio of an exact metric to the baseline's, lower is better; a metric of zero counts as one half.

    Raises:
        BuildError: the build has no such metric, or no such entry function.
    """
    baseline, tuned = (benchmark.value_of(objective.metric, arm) for arm in (benchmark.builds.get(None), build))
    ratio = math.log(max(tuned, 0.5) / max(baseline, 0.5))
    return ratio if objective.direction == "minimize" else -ratio


def log_ratio(rows: Sequence[SampleRow], direction: str) -> float:
    """Log of tuned over baseline, each the median or the tail of its samples; lower is better."""
    baseline, tuned = _arm_values(rows)
    ratio = math.log(tuned / baseline)
    return ratio if direction == "minimize" else -ratio


def _arm_values(rows: Sequence[SampleRow]) -> tuple[float, float]:
    """The baseline's value and the tuned arm's."""
    baseline, tuned = (
        slot_value(rows[0].objective, [row.value for row in rows if row.arm == arm]) for arm in ("baseline", "tuned")
    )
    return baseline, tuned
