"""The effect of each stored control: every objective without it, on samples of its own.

The controls that stay were chosen by noise as well as by merit, so neither the search's samples nor the reduction's
can measure it. Blocks go round the processes that the proof has warmed up, one of every leave-out at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

import numpy as np

from pytest_compileiq.errors import BuildError, EnvironmentFault, StoreError
from pytest_compileiq.model import LONGEST_TEXT, BuildResult, ControlsFile, Objective
from pytest_compileiq.proof.claims import Proof, score_of
from pytest_compileiq.reduction import Attribution, Standing, Without
from pytest_compileiq.rules.comparison import effect
from pytest_compileiq.rules.evidence import all_positive, gather
from pytest_compileiq.rules.stats import Floats
from pytest_compileiq.search.scoring import built_key
from pytest_compileiq.tuning.leave_out import WORKERS, Bench, ControlPart, ControlParts, Rows
from pytest_compileiq.workers.pool import EvaluationFailed

SHARE_OF_SEARCH = 0.125
FLOOR_S = 5.0
LEAST_PROCESSES = 4
MOST_PAIRS = 3
_SHORT = 0.8  # of the whole gain: where the parts add up to less, some stand in for each other
LeftOut = tuple[ControlPart, ...]


def attribution_of(bench: Bench, proof: Proof) -> Attribution | None:
    """Measure, or count, the loss without each part of a proven winner; None for a single control or without a worker.

    It takes at most an eighth of the search's time, or five seconds; parts that do not fit in are named.
    """
    controls = proof.winner
    parts = ControlParts(bench.benchmark, controls)
    if not parts.all or parts.count(controls) < 2:
        return None
    bench.progress.say(f"measuring what each of {parts.count(controls)} controls brings")
    try:
        bench.prepare()
        work = _Attribution(bench, parts, controls)
        work.take([(part,) for part in parts.all])
        work.take(work.stand_ins(score_of(bench.benchmark, proof.claims)[0]))
    except EnvironmentFault as error:  # what is proven by now is worth more than this table
        bench.progress.say(f"the effect of each control is unknown: {error}")
        return None
    timed = bench.benchmark.timed_objectives
    return Attribution(
        device=bench.benchmark.device(timed[0].metric).name if timed else None,
        comparisons=work.comparisons,
        seconds=round(time.monotonic() - work.started, 1),
        without=tuple(entry for left_out in work.taken for entry in work.entries(left_out)),
    )


@dataclass
class _Taken:
    controls: ControlsFile | None
    build: BuildResult | None = None
    rows: Rows = field(default_factory=dict)
    failed: Without | None = None


@dataclass
class _Attribution:
    bench: Bench
    parts: ControlParts
    controls: ControlsFile
    started: float = field(default_factory=time.monotonic)
    taken: dict[LeftOut, _Taken] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = Random(self.bench.seed + 2)
        self._until = self.started + max(SHARE_OF_SEARCH * self.bench.search_s, FLOOR_S)

    @property
    def comparisons(self) -> int:
        """How many intervals hold together: of all parts, and of as many pairs as may follow from these."""
        timed = len(self.bench.benchmark.timed_objectives)
        return timed * (len(self.parts.all) + MOST_PAIRS)

    def take(self, several: Sequence[LeftOut]) -> None:
        self.bench.build([self.parts.without(left_out) for left_out in several], self._until)
        self.taken |= {left_out: self._built(left_out) for left_out in several}
        begun = [left_out for left_out in several if self.taken[left_out].failed is None]
        if not self.bench.benchmark.timed_objectives:
            for left_out in begun:
                self._try(left_out, lambda taken: self.bench.check(taken.controls))
            return
        least, most = (LEAST_PROCESSES, WORKERS) if self.bench.varies else (2, 2)
        for left_out in begun:
            for number in range(least):
                self._sample(left_out, number, is_needed=True)
        for number in range(least, most):
            for left_out in begun:
                self._sample(left_out, number, is_needed=False)

    def stand_ins(self, gain: float) -> Sequence[LeftOut]:
        """Pairs of parts of which neither is missed alone, where all that are do not explain the log gain."""
        first = self.bench.benchmark.objectives[0]
        effects = {left_out: self._entry(left_out, first) for left_out in self.taken}
        missed = sum(entry.step for entry in effects.values() if entry.is_resolved)
        unmissed = [left_out[0] for left_out, entry in effects.items() if not entry.is_resolved
                    and entry.standing in ("measured", "exact", "idle")]  # fmt: skip
        if missed >= _SHORT * gain:
            return []
        return [*combinations(unmissed, 2)][:MOST_PAIRS]

    def entries(self, left_out: LeftOut) -> list[Without]:
        """What is recorded of one leave-out: an entry for each objective, or one that says why there is none."""
        failed = self.taken[left_out].failed
        return [failed] if failed else [self._entry(left_out, own) for own in self.bench.benchmark.objectives]

    def _built(self, left_out: LeftOut) -> _Taken:
        benchmark = self.bench.benchmark
        if reason := self.parts.why_not(left_out):
            return _Taken(None, failed=self._without(left_out, "required", reason=reason))
        controls = self.parts.without(left_out)
        if time.monotonic() >= self._until:
            return _Taken(controls, failed=self._without(left_out, "left out"))
        try:
            build = benchmark.builds.get(controls)
            for objective in benchmark.exact_objectives:
                benchmark.value_of(objective.metric, build)
        except BuildError as error:
            return _Taken(controls, failed=self._without(left_out, "required", reason=str(error)))
        if built_key(benchmark, controls) == built_key(benchmark, self.controls):
            return _Taken(controls, build, failed=self._without(left_out, "idle"))
        return _Taken(controls, build)

    def _sample(self, left_out: LeftOut, number: int, *, is_needed: bool) -> None:
        taken = self.taken[left_out]
        if taken.failed is None and time.monotonic() < self._until:
            self._try(
                left_out,
                lambda taken: self.bench.sample(taken.rows, number, self._random, self.controls, taken.controls),
            )
        elif taken.failed is None and is_needed:
            taken.failed = self._without(left_out, "left out")

    def _try(self, left_out: LeftOut, take: Callable[[_Taken], None]) -> None:
        taken = self.taken[left_out]
        try:
            take(taken)
        except EvaluationFailed as failure:
            if failure.arm == "baseline" or failure.kind == "disturbed":  # it says nothing about this leave-out
                self._until = 0.0
                taken.failed = self._without(left_out, "left out", failure.reason)
            else:
                taken.failed = self._without(left_out, "wrong", f"{failure.kind}: {failure.reason}")

    def _entry(self, left_out: LeftOut, objective: Objective) -> Without:
        taken = self.taken[left_out]
        if taken.failed is not None or taken.build is None:
            return taken.failed or self._without(left_out, "left out")
        named = {"objective": objective.metric, "direction": objective.direction}
        benchmark = self.bench.benchmark
        if objective.exact:
            builds = benchmark.builds.get(self.controls), taken.build
            value, value_without = (benchmark.value_of(objective.metric, build) for build in builds)
            return self._without(left_out, "exact", **named, value=value, value_without=value_without)
        try:
            losses, by_share = self._losses(taken.rows, objective)
        except StoreError as error:
            return self._without(left_out, "left out", str(error))
        if losses.size < 2:
            return self._without(left_out, "left out", "the device was disturbed")
        interval = effect(losses.tolist(), self.comparisons)
        return self._without(
            left_out, "measured", **named, by_share=by_share, losses=tuple(losses.tolist()),
            loss=interval.estimate, low=interval.low, high=interval.high,
        )  # fmt: skip

    def _losses(self, rows: Rows, objective: Objective) -> tuple[Floats, bool]:
        """The losses of each process, weighted over workloads as a search's score is; and whether these are shares."""
        weight_of = {workload.name: workload.weight for workload in self.bench.benchmark.timed_workloads}
        own = [(weight_of[workload], samples) for (of, workload), samples in rows.items() if of == objective]
        losses = np.array([-gather(samples, objective.direction).by_quad.mean(axis=1) for _, samples in own])
        mean: Floats = np.average(losses, axis=0, weights=[weight for weight, _ in own])
        return mean[np.isfinite(mean)], not all(all_positive(samples) for _, samples in own)

    def _without(self, left_out: LeftOut, standing: Standing, reason: str | None = None, **numbers: object) -> Without:
        return Without.model_validate(
            {
                "knobs": tuple(name for part in left_out for name in part.knobs),
                "acf": any(part.acf for part in left_out),
                "standing": standing,
                "reason": reason and reason[:LONGEST_TEXT],
                **numbers,
            }
        )
