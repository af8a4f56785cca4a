"""What one candidate is worth: a log-ratio to a neighbouring baseline for each objective, lower is better."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import BuildResult, ControlsFile, Objective, SampleRow
from pytest_compileiq.rules.slots import slot_value
from pytest_compileiq.timing.sampler import plan_block
from pytest_compileiq.workers.pool import EvaluationFailed, Pool

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


@dataclass(frozen=True)
class Scorer:
    """Scores candidates of one benchmark in worker 0; ``random`` tosses the coins of the blocks."""

    pool: Pool
    benchmark: TunedBenchmark
    random: Random

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

        The body first runs with these controls alone: beside the baseline, in buffers that both share, a kernel that
        writes nothing would pass with the baseline's output.

        Raises:
            EvaluationFailed: as ``score``.
        """
        for workload in self.benchmark.timed_workloads:
            self.pool.check(0, self.benchmark, scored.controls, workload)
        rounds = [self._timed(scored.controls).scores for _ in range(ROUNDS)]
        scores = tuple(
            score if objective.exact else statistics.median(taken[objective.metric] for taken in rounds)
            for objective, score in zip(self.benchmark.objectives, scored.scores, strict=True)
        )
        return Scored(scores, scored.controls)

    def _timed(self, controls: ControlsFile) -> _Taken:
        total = sum(workload.weight for workload in self.benchmark.timed_workloads)
        taken = _Taken({objective.metric: 0.0 for objective in self.benchmark.timed_objectives})
        for workload in self.benchmark.timed_workloads:
            plan = plan_block(self.random, quads=QUADS, samples=SAMPLES)
            block = self.pool.block(0, self.benchmark, {"baseline": None, "tuned": controls}, workload, plan)
            taken.rows += block.rows
            taken.read |= block.touched.read
            for metric in taken.scores:
                of_metric = [row for row in block.rows if row.objective == metric]
                taken.scores[metric] += workload.weight / total * log_ratio(of_metric, self.benchmark.direction(metric))
        return taken


@dataclass
class _Taken:
    """Metric → weighted geometric mean over workloads, as a log-ratio; the rows behind it, the parameters read."""

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
    baseline, tuned = (
        slot_value(rows[0].objective, [row.value for row in rows if row.arm == arm]) for arm in ("baseline", "tuned")
    )
    ratio = math.log(tuned / baseline)
    return ratio if direction == "minimize" else -ratio
