"""What one candidate is worth: a log-ratio to a neighbouring baseline for each objective, lower is better.

A score that is not positive in the baseline is compared by its difference instead: ``rules.comparison.SearchAxis``.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from random import Random

import msgspec

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import Arm, BuildResult, ControlsFile, Objective, Workload, sha256_hex
from pytest_compileiq.rules.comparison import SearchAxis, steady_values
from pytest_compileiq.rules.stopping import QUADS, Noise, Race, Stepping, score_of
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.timing.sampler import plan_block
from pytest_compileiq.toolchains.macros import params_in
from pytest_compileiq.workers.messages import CheckTask
from pytest_compileiq.workers.pool import EvaluationFailed, MeasuredBlock, Pool

SAMPLES = 3


@dataclass(frozen=True)
class Scored:
    """A valid candidate, or with no scores one that failed."""

    scores: tuple[float, ...]
    controls: ControlsFile
    samples: tuple[SampleRow, ...] = ()  # of the timed objectives
    read: frozenset[str] = frozenset()  # parameters
    errors: tuple[float, ...] = ()  # standard errors of the scores; empty where nothing varies, or none is known


@dataclass
class Scorer:
    """Scores candidates of one benchmark in worker 0; ``quads`` were measured in full, in ``quads_s`` seconds."""

    pool: Pool
    benchmark: TunedBenchmark
    random: Random
    quads: int = 0
    quads_s: float = 0.0
    _axes: dict[tuple[str, str], SearchAxis] = field(default_factory=dict)
    _without_ratio: set[str] = field(default_factory=set)
    _has_varied: bool = False
    _noise: dict[tuple[str, str], Noise] = field(default_factory=lambda: defaultdict(Noise))
    _best: dict[tuple[str, str], float] = field(default_factory=dict)  # of those that won their race

    @property
    def varies(self) -> bool:
        """Whether times are taken, or some score was not one number in each arm."""
        return self._has_varied or not self.benchmark.scores_only

    def score(self, controls: ControlsFile, build: BuildResult) -> Scored:
        benchmark = self.benchmark
        try:
            exact = {objective: exact_score(benchmark, objective, build) for objective in benchmark.exact_objectives}
        except BuildError as error:
            raise EvaluationFailed(None, "compile", str(error)) from error
        timed = bool(benchmark.timed_objectives)
        read: frozenset[str] = frozenset()
        for workload in benchmark.checked_workloads if timed else benchmark.spec.workloads:
            read |= self.pool.ask(0, benchmark, CheckTask(workload.name, controls)).read
        blocks = [self._block(controls, workload, QUADS) for workload in benchmark.timed_workloads] if timed else []
        rows = tuple(row for block in blocks for row in block.rows)
        read = read.union(*(block.touched.read for block in blocks))
        scores = self._scores(rows, exact)
        return Scored(scores, controls, rows, read, self.recall(rows))

    def check(self, controls: ControlsFile) -> None:
        """Run the body with these controls alone on every timed workload."""
        # Beside the baseline, in shared buffers, a kernel that writes nothing would pass with the baseline's output.
        for workload in self.benchmark.timed_workloads:
            self.pool.ask(0, self.benchmark, CheckTask(workload.name, controls))

    def round(self, controls: ControlsFile, number: int) -> list[SampleRow]:
        """One further quad on every timed workload, in a block of its own, as quad ``number``."""
        return [
            replace(row, quad=number)
            for workload in self.benchmark.timed_workloads
            for row in self._block(controls, workload, 1).rows
        ]

    def settled(self, scored: Scored, rows: Sequence[SampleRow]) -> Scored:
        """The candidate with its timed objectives by ``rows`` of several rounds alone, each the median of them."""
        exact = {
            objective: score
            for objective, score in zip(self.benchmark.objectives, scored.scores, strict=True)
            if objective.exact
        }
        return Scored(self._scores(rows, exact), scored.controls)

    def recall(self, rows: Sequence[SampleRow]) -> tuple[float, ...]:
        """Learn from the samples of one candidate, of this or an earlier run; returns the standard error of each score.

        The first values of the baseline fix the axes, as they did there. Empty where nothing varies.
        """
        variances = dict.fromkeys((objective.metric for objective in self.benchmark.objectives), 0.0)
        for objective, workload, share in self._parts if rows else ():
            part = objective.metric, workload.name
            quads = _quads(rows, part)
            step = score_of([self._step(objective, workload, quad) for quad in quads])
            if len(quads) == QUADS:
                self._best[part] = min(step, self._best.get(part, 0.0))
            for quad in quads:
                self._noise[part].learn(self._halves(objective, workload, quad))
            variances[objective.metric] += (share * self._noise[part].error(len(quads))) ** 2
            self._has_varied = self._has_varied or steady_values([row for quad in quads for row in quad]) is None
        return tuple(map(math.sqrt, variances.values())) if any(variances.values()) else ()

    def shift(self, objective: Objective, score: float) -> float | None:
        """The difference from the baseline that ``score`` stands for, as a share of its magnitude; positive is higher.

        None where scores are log-ratios: where no value was zero or negative so far.
        """
        axes = [axis for (metric, _), axis in self._axes.items() if metric == objective.metric]
        if objective.metric not in self._without_ratio or not axes:
            return None
        axis = next((axis for axis in axes if not axis.by_ratio), axes[0])
        return axis.shift(score if objective.direction == "minimize" else -score)

    @property
    def _parts(self) -> list[tuple[Objective, Workload, float]]:
        workloads = self.benchmark.timed_workloads
        total = sum(workload.weight for workload in workloads)
        return [
            (objective, workload, workload.weight / total)
            for objective in self.benchmark.timed_objectives
            for workload in workloads
        ]

    def _scores(self, rows: Sequence[SampleRow], exact: Mapping[Objective, float]) -> tuple[float, ...]:
        scores = {**dict.fromkeys(self.benchmark.timed_objectives, 0.0), **exact}
        for objective, workload, share in self._parts:
            quads = _quads(rows, (objective.metric, workload.name))
            scores[objective] += share * score_of([self._step(objective, workload, quad) for quad in quads])
        return tuple(scores[objective] for objective in self.benchmark.objectives)

    def _block(self, controls: ControlsFile, workload: Workload, quads: int) -> MeasuredBlock:
        """One block of at most ``quads``; of scores that have never varied a short one, until they do."""
        arms: Mapping[Arm, ControlsFile | None] = {"baseline": None, "tuned": controls}
        if not self.varies:
            short = plan_block(self.random, quads=1, samples=1, discard=False)
            block = self.pool.block(0, self.benchmark, arms, workload, short)
            if all(steady_values(block.of(objective.metric)) for objective in self.benchmark.timed_objectives):
                return block
            self._has_varied = True
        plan = msgspec.structs.replace(
            plan_block(self.random, quads=quads, samples=SAMPLES), races=self._races(workload)
        )
        begun = time.monotonic()
        block = self.pool.block(0, self.benchmark, arms, workload, plan)
        self.quads += max(row.quad for row in block.rows) + 1
        self.quads_s += time.monotonic() - begun
        return block

    def _races(self, workload: Workload) -> dict[str, Race]:
        return {
            objective.metric: Race(
                self._stepping(objective, workload), self._best.get((objective.metric, workload.name), 0.0)
            )
            for objective in self.benchmark.timed_objectives
            if not objective.is_score or (objective.metric, workload.name) in self._axes
        }

    def _halves(self, objective: Objective, workload: Workload, quad: Sequence[SampleRow]) -> tuple[float, float]:
        """The steps of a quad's first slots of both arms and of its last."""
        slots = [list(rows) for _, rows in groupby(quad, key=lambda row: row.slot)]
        first, last = (self._step(objective, workload, [*one, *other]) for one, other in (slots[:2], slots[2:]))
        return first, last

    def _step(self, objective: Objective, workload: Workload, rows: Sequence[SampleRow]) -> float:
        """From the baseline to the candidate, lower is better; all candidates of a search are on one axis."""
        baseline, tuned = ([row.value for row in rows if row.arm == arm] for arm in ("baseline", "tuned"))
        if objective.is_score:
            if not all(row.value > 0 for row in rows):
                self._without_ratio.add(objective.metric)
            self._axes.setdefault((objective.metric, workload.name), SearchAxis.through(baseline))
        return self._stepping(objective, workload).step(baseline, tuned)

    def _stepping(self, objective: Objective, workload: Workload) -> Stepping:
        axis = self._axes.get((objective.metric, workload.name))
        return Stepping(objective.metric, objective.direction, axis)


def _quads(rows: Sequence[SampleRow], part: tuple[str, str]) -> list[list[SampleRow]]:
    own = (row for row in rows if (row.objective, row.workload) == part)
    return [list(quad) for _, quad in groupby(own, key=lambda row: row.quad)]


def exact_score(benchmark: TunedBenchmark, objective: Objective, build: BuildResult) -> float:
    """The log-ratio of an exact metric to the baseline's, lower is better; a metric of zero counts as one half."""
    baseline, tuned = (benchmark.value_of(objective.metric, arm) for arm in (benchmark.builds.get(None), build))
    ratio = math.log(max(tuned, 0.5) / max(baseline, 0.5))
    return ratio if objective.direction == "minimize" else -ratio


Key = tuple[str, tuple[tuple[str, object], ...]]


def key_of(benchmark: TunedBenchmark, controls: ControlsFile | None, digest: str) -> Key:
    """Equal for equal machine code and equal parameters, the baseline's (None) included.

    Where the time to compile is an objective, only equal controls are one: equal machine code may take unequal times.
    """
    params = tuple(sorted(params_in(benchmark.builder, controls.knobs if controls else {}).items()))
    compiling = any(objective.metric == "compile_time" for objective in benchmark.objectives)
    return (controls.key if compiling and controls else digest), params


def name_of(key: Key) -> str:
    """A short name of the key, for those who only need to know which keys are equal."""
    return sha256_hex(repr(key).encode())[:16]


def built_key(benchmark: TunedBenchmark, controls: ControlsFile | None) -> Key:
    """The key of controls that build."""
    return key_of(benchmark, controls, benchmark.builds.get(controls).digest)
