"""The effect of each stored control: every objective without it, on samples of its own.

The controls that stay were chosen by noise as well as by merit, so neither the search's samples nor the reduction's
can measure it. Blocks go round the processes that the proof has warmed up, one of every leave-out at a time.
"""

from __future__ import annotations

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
from pytest_compileiq.search.loop import Search
from pytest_compileiq.tuning.context import Tuning
from pytest_compileiq.tuning.leave_out import WORKERS, ControlPart, LeaveOuts, Rows
from pytest_compileiq.workers.pool import EvaluationFailed

SHARE_OF_SEARCH = 0.125
FLOOR_S = 5.0
LEAST_PROCESSES = 4
MOST_PAIRS = 3
_SHORT = 0.8  # of the whole gain: where the parts add up to less, some stand in for each other
LeftOut = tuple[ControlPart, ...]


def attribution_of(tuning: Tuning, search: Search, proof: Proof) -> Attribution | None:
    """Measure, or count, the loss without each part of a proven winner; None for a single control or without a worker.

    It takes at most an eighth of the search's time, or five seconds; parts that do not fit in are named.
    """
    work = _Attribution(tuning, search, proof.winner)
    parts, benchmark = work.parts, tuning.benchmark
    if not parts.all or (count := parts.count(proof.winner)) < 2:
        return None
    tuning.progress.say(f"measuring what each of {count} controls brings")
    try:
        work.prepare()
        work.start(max(SHARE_OF_SEARCH * work.search_s, FLOOR_S))
        work.take([(part,) for part in parts.all])
        work.take(work.stand_ins(score_of(benchmark, proof.claims)[0]))
    except EnvironmentFault as error:  # what is proven by now is worth more than this table
        tuning.progress.say(f"the effect of each control is unknown: {error}")
        return None
    timed = benchmark.timed_objectives
    return Attribution(
        device=benchmark.device(timed[0].metric).name if timed else None,
        comparisons=work.comparisons,
        seconds=round(work.seconds, 1),
        without=tuple(entry for left_out in work.taken for entry in work.entries(left_out)),
    )


@dataclass
class _Taken:
    """One leave-out: its build and samples, or ``failed``, the entry that says why there are none."""

    controls: ControlsFile | None
    build: BuildResult | None = None
    rows: Rows = field(default_factory=dict)
    failed: Without | None = None


class _Attribution(LeaveOuts):
    def __init__(self, tuning: Tuning, search: Search, controls: ControlsFile) -> None:
        super().__init__(tuning, search, controls)
        self.random = Random(tuning.seed + 2)
        self.taken: dict[LeftOut, _Taken] = {}

    @property
    def comparisons(self) -> int:
        """How many intervals hold together: of all parts, and of as many pairs as may follow from these."""
        return len(self.benchmark.timed_objectives) * (len(self.parts.all) + MOST_PAIRS)

    def take(self, several: Sequence[LeftOut]) -> None:
        self.build(map(self.parts.without, several))
        self.taken |= {left_out: self._built(left_out) for left_out in several}
        begun = [left_out for left_out in several if self.taken[left_out].failed is None]
        if not self.benchmark.timed_objectives:
            for left_out in begun:
                self._try(left_out, lambda taken: self.check(taken.controls))
            return
        least, most = (LEAST_PROCESSES, WORKERS) if self.varies else (2, 2)
        for left_out in begun:
            for number in range(least):
                self._sample(left_out, number, is_needed=True)
        for number in range(least, most):
            for left_out in begun:
                self._sample(left_out, number, is_needed=False)

    def stand_ins(self, gain: float) -> Sequence[LeftOut]:
        """Pairs of parts of which neither is missed alone, where all that are do not explain the log gain."""
        first = self.benchmark.objectives[0]
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
        return [failed] if failed else [self._entry(left_out, own) for own in self.benchmark.objectives]

    def _built(self, left_out: LeftOut) -> _Taken:
        benchmark = self.benchmark
        if reason := self.parts.why_not(left_out):
            return _Taken(None, failed=self._without(left_out, "required", reason))
        controls = self.parts.without(left_out)
        if self.is_over:
            return _Taken(controls, failed=self._without(left_out, "left out"))
        try:
            build = benchmark.builds.get(controls)
            for objective in benchmark.exact_objectives:
                benchmark.value_of(objective.metric, build)
        except BuildError as error:
            return _Taken(controls, failed=self._without(left_out, "required", str(error)))
        is_idle = self.key_of(controls) == self.key_of(self.controls)
        return _Taken(controls, build, failed=self._without(left_out, "idle") if is_idle else None)

    def _sample(self, left_out: LeftOut, number: int, *, is_needed: bool) -> None:
        taken = self.taken[left_out]
        if taken.failed is None and not self.is_over:
            self._try(left_out, lambda taken: self.sample(taken.rows, number, taken.controls))
        elif taken.failed is None and is_needed:
            taken.failed = self._without(left_out, "left out")

    def _try(self, left_out: LeftOut, take: Callable[[_Taken], None]) -> None:
        taken = self.taken[left_out]
        try:
            take(taken)
        except EvaluationFailed as failure:
            if failure.arm == "baseline" or failure.kind == "disturbed":  # it says nothing about this leave-out
                self.until = 0.0
                taken.failed = self._without(left_out, "left out", failure.reason)
            else:
                taken.failed = self._without(left_out, "wrong", f"{failure.kind}: {failure.reason}")

    def _entry(self, left_out: LeftOut, objective: Objective) -> Without:
        taken = self.taken[left_out]
        if taken.failed is not None or taken.build is None:
            return taken.failed or self._without(left_out, "left out")
        named = {"objective": objective.metric, "direction": objective.direction}
        if objective.exact:
            builds = self.benchmark.builds.get(self.controls), taken.build
            value, value_without = (self.benchmark.value_of(objective.metric, build) for build in builds)
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
        weight_of = {workload.name: workload.weight for workload in self.benchmark.timed_workloads}
        own = [(weight_of[workload], samples) for (of, workload), samples in rows.items() if of == objective]
        losses = np.array([-gather(samples, objective.direction).by_quad.mean(axis=1) for _, samples in own])
        mean: Floats = np.average(losses, axis=0, weights=[weight for weight, _ in own])
        return mean[np.isfinite(mean)], not all(all_positive(samples) for _, samples in own)

    def _without(self, left_out: LeftOut, standing: Standing, reason: str | None = None, **numbers: object) -> Without:
        names, acf = tuple(name for part in left_out for name in part.knobs), any(part.acf for part in left_out)
        cut = reason and reason[:LONGEST_TEXT]
        return Without.model_validate({"knobs": names, "acf": acf, "standing": standing, "reason": cut, **numbers})
