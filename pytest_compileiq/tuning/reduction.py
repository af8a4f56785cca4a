"""The smallest winner: as few controls as do the same, within one budget of loss and a bound on time.

It begins with the few that the search shows to matter: most controls of a winner do nothing, and that a handful does
all of it takes fewer builds and samples to see than that each of the others does none. Controls that change no machine
code go by builds alone. Then delta debugging drops those without effect: exactly, where objectives are counted, and by
sequential paired tests where they are measured. Each set is compared with the winner as it was found, since losses
against the step before would add up. Controls that are not decided in time are tried together, and stay where that
costs more than the budget.

No sample of these enters a claim: the smallest set is proven in other processes, beside the full winner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from pytest_compileiq.errors import BuildError, StoreError
from pytest_compileiq.model import BuildResult, ControlsFile, Objective
from pytest_compileiq.proof.claims import exact_loss, score_loss
from pytest_compileiq.reduction import Loss, Reduction
from pytest_compileiq.rules.comparison import steady_values
from pytest_compileiq.rules.reduction import LEVEL, LOOKS, ddmin, is_within, loss_budget, paired_losses, ridge_gains
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.search.loop import Search
from pytest_compileiq.search.scoring import Scored
from pytest_compileiq.tuning.context import Tuning
from pytest_compileiq.tuning.leave_out import ControlPart, LeaveOuts, Rows
from pytest_compileiq.workers.pool import EvaluationFailed

SHARE_OF_SEARCH = 0.25
RESERVED = 0.05  # of the search's time, in which what stayed undecided, or is stored larger, loses what is idle
GENEROUS = 2.0  # budgets that the few may seem to lose before they are held to one: one block is a rough guess
FLOOR_S = 6.0  # of the time bound, so that short searches can reduce at all
IDLE_S = 6.0  # of that, so that a winner of a short search has nothing idle in it, on a busy machine too
TOGETHER = 0.1  # of the search's time, in which what stayed undecided alone is tried together
TOGETHER_S = 6.0  # of that
AT_ONCE = 8  # parts that are tried for machine code before what is idle among them goes
AIM = 0.5  # of a budget: the smallest of many sets seems better than it is, and the proof holds it to all of it
ENOUGH = LOOKS[0]  # pairs of blocks after which a mean says something
Kept = frozenset[ControlPart]


@dataclass(frozen=True)
class Reduced:
    """One winner in three sizes, and how it became smaller."""

    full: ControlsFile
    lean: ControlsFile  # without the controls that are known to change no machine code
    smallest: ControlsFile  # without those that bring nothing, as far as that was decided
    counts: tuple[int, int, int]  # how many controls each of the three has
    undecided: frozenset[str]  # of the smallest's, by names as ``Attribution.open_knobs`` has them
    budgets: Mapping[str, float]  # each timed metric → the largest loss, a log-ratio or a share of its magnitude
    seconds: float
    search_s: float  # seconds of the search, whose quarter bounds the reduction

    def record(self, losses: Sequence[Loss], kept_larger: str | None) -> Reduction:
        before, lean, after = self.counts
        return Reduction(
            before=before,
            after=after,
            by_code=before - lean,
            by_objective=lean - after,
            undecided=len(self.undecided),
            seconds=round(self.seconds, 1),
            search_seconds=round(self.search_s, 1),
            budgets={metric: round(budget, 6) for metric, budget in self.budgets.items()},
            losses=tuple(losses),
            kept_larger=kept_larger,
        )


class ReductionTrial(LeaveOuts):
    """Compares subsets of the winner's controls with all of them."""

    def __init__(self, tuning: Tuning, search: Search, winner: Scored) -> None:
        super().__init__(tuning, search, winner.controls)
        gains = zip(self.benchmark.objectives, winner.scores, strict=True)  # as the winner was seen to have
        self.budgets = {objective.metric: loss_budget(-score) for objective, score in gains if not objective.exact}
        self.is_stopped = False  # once the winner itself failed, or others compute on the device
        self._verdicts: dict[Kept, bool | None] = {}
        self._sound = {self.key_of(winner.controls)}

    def extend(self, bound_s: float) -> None:
        super().extend(bound_s)
        self._verdicts = {kept: verdict for kept, verdict in self._verdicts.items() if verdict is not None}

    @cached_property
    def reach(self) -> Mapping[ControlPart, int]:
        """Part → the rank of how far its knobs reach: of two that do the same, the wider one is tried first."""
        return {part: self.tuning.width(self.parts.knobs_of(part)) for part in self.parts.all}

    def only(self, kept: Kept) -> ControlsFile | None:
        return self.parts.without(frozenset(self.parts.all) - kept)

    def reduced(self, lean: Kept, smallest: Kept) -> Reduced:
        sizes = self.controls, self.only(lean) or self.controls, self.only(smallest) or self.controls
        before, middle, after = map(self.parts.count, sizes)
        return Reduced(
            *sizes, (before, middle, after), self.undecided(smallest), self.budgets, self.seconds, self.search_s,
        )  # fmt: skip

    def undecided(self, smallest: Kept) -> frozenset[str]:
        """Those of these parts that might bring nothing, each by its first knob; an ACF has the name that is none."""
        rests = {part: smallest - {part} for part in smallest}
        return frozenset(
            "".join(part.knobs[:1])
            for part, rest in rests.items()
            if self.only(rest) is not None and self._verdicts.get(rest) is None
        )

    def expect(self, sets: Sequence[Kept]) -> None:
        if not self.is_over:
            self.build(self.only(kept) for kept in sets if kept not in self._verdicts and not self._is_outside(kept))

    def absent_from_aliases(self, parts: Sequence[ControlPart]) -> list[ControlPart]:
        """Those of ``parts`` that some candidate of the search did without, and had the winner's machine code."""
        aliases = self.search.aliases.get(self.key_of(self.controls), ())
        return [part for part in parts if any(not knobs.keys() & set(part.knobs) for knobs in aliases) and not part.acf]

    def has_same_code(self, kept: Kept, other: Kept) -> bool:
        """Whether these parts alone make the machine code of ``other``, and give its parameters."""
        if self._built(kept) is None:
            return False
        return self.key_of(self.only(kept)) == self.key_of(self.only(other))

    def guess(self, kept: Kept, share: float = 1.0) -> bool:
        """Whether these parts alone seem to lose at most this share of the budget, by counts and one block of each."""
        build, rows = self._built(kept), Rows()
        try:
            if build is None or self._has_lost(build):
                return False
            self.sample(rows, 0, self.only(kept))
            return self._seems_within(rows, share)
        except (EvaluationFailed, StoreError):
            return False

    def holds(self, kept: Kept) -> bool:
        """Whether these parts alone are surely as good as the winner, within their part of the budget, and correct."""
        if kept not in self._verdicts:
            self._verdicts[kept] = self._verdict(kept)
        return self._verdicts[kept] is True

    def _verdict(self, kept: Kept) -> bool | None:
        if self.is_over:
            return None
        build = self._built(kept)
        if build is None:
            return False
        if (key := self.key_of(self.only(kept))) in self._sound:
            return True
        if self.search.why_never(build):
            return False
        try:
            verdict = not self._has_lost(build) and self._measured(kept)
            if verdict:
                self.check(self.only(kept))
        except EvaluationFailed as failure:
            if failure.arm == "baseline" or failure.kind == "disturbed":  # it says nothing about these parts
                self.is_stopped, self.until = True, 0.0
                return None
            return False
        except StoreError:  # samples were lost
            return None
        if verdict:
            self._sound.add(key)
        return verdict

    def _measured(self, kept: Kept) -> bool | None:
        """Sequentially: whether every objective on every workload is within its aim; True without timed ones.

        What is still open in the end, and seems to lose no more than half of it, is taken: the proof decides on more
        samples. What seems to lose more than all of it is given up for another set.
        """
        rows: Rows = {}
        if not self.benchmark.timed_objectives:
            return True
        pairs = 0
        while pairs < LOOKS[-1] and not self.is_over:
            self.sample(rows, pairs, self.only(kept))
            pairs += 1
            if pairs in LOOKS or not self.varies:
                verdicts = [self._compared(objective, rows[objective, workload]) for objective, workload in rows]
                if False in verdicts or (all(verdicts) and (pairs > ENOUGH or not self.varies)):
                    return all(verdicts)
                if pairs >= ENOUGH and not self._seems_within(rows, 1.0):
                    break
        return (pairs >= ENOUGH and self._seems_within(rows, 0.5)) or None

    def _seems_within(self, rows: Rows, share: float) -> bool:
        for (objective, _), own in rows.items():
            losses = paired_losses(own, objective.direction)
            mean = float(losses.mean()) if losses.size else math.inf  # every block was disturbed
            if not mean <= share * AIM * self.budgets[objective.metric]:  # NaN is within none
                return False
        return True

    def _compared(self, objective: Objective, rows: Sequence[SampleRow]) -> bool | None:
        steady = steady_values(rows) if objective.is_score else None
        if steady is not None:
            return score_loss(objective.direction, *steady) <= 0
        losses = paired_losses(rows, objective.direction)
        return is_within(losses, AIM * self.budgets[objective.metric], LEVEL / len(LOOKS))

    def _has_lost(self, build: BuildResult) -> bool:
        benchmark = self.benchmark
        full = benchmark.builds.get(self.controls)
        try:
            return any(
                exact_loss(objective, *(benchmark.value_of(objective.metric, built) for built in (full, build))) > 0
                for objective in benchmark.exact_objectives
            )
        except BuildError:
            return True

    def _built(self, kept: Kept) -> BuildResult | None:
        """The build of these parts; None where the space does not hold them, they do not build or the time is over."""
        controls = self.only(kept)
        if self.is_over or controls is None or self._is_outside(kept):
            return None
        build = self.benchmark.builds.attempt(controls)
        return build if isinstance(build, BuildResult) else None

    def _is_outside(self, kept: Kept) -> bool:
        return self.parts.why_not(frozenset(self.parts.all) - kept) is not None


def reduce_winner(tuning: Tuning, search: Search, winner: Scored) -> Reduced:
    """Leave out what ``winner`` does not need."""
    trial = ReductionTrial(tuning, search, winner)
    reach = trial.reach
    in_order = sorted(trial.parts.all, key=lambda part: -reach[part])
    if (count := trial.parts.count(winner.controls)) > 1:
        tuning.progress.say(f"reducing {count} controls")
        trial.prepare()
    trial.start(max((SHARE_OF_SEARCH - RESERVED) * trial.search_s, FLOOR_S))
    lean = _without_absent(trial, in_order)
    gains = _gains(search, trial, in_order)
    few = _few(trial, [part for part in in_order if part in lean], gains)
    of_few = [part for part in in_order if part in few]
    if trial.benchmark.timed_objectives:
        screened = _screened(trial, of_few)
        smallest = _without_useless(trial, in_order, screened)
    else:
        screened = _counted(trial, sorted(of_few, key=lambda part: (-reach[part], gains[part])))
        smallest = screened.kept
    if few == lean:
        lean -= screened.idle
    if trial.is_over and trial.undecided(smallest):
        trial.extend(max(RESERVED * trial.search_s, IDLE_S))
        left = _screened(trial, [part for part in in_order if part in smallest]).kept
        lean, smallest = left if lean == smallest else lean, left
    if not trial.is_stopped and (names := trial.undecided(smallest)):
        trial.extend(max(TOGETHER * trial.search_s, TOGETHER_S))
        open_ = [part for part in in_order if part in smallest and "".join(part.knobs[:1]) in names]
        smallest = _dropped(trial.holds, smallest, open_, trial.expect)
    return trial.reduced(lean, smallest)


def drop_idle(tuning: Tuning, search: Search, controls: ControlsFile, reduced: Reduced) -> Reduced:
    """Proven ``controls`` without those that change no machine code, in the time that ``reduced`` left."""
    trial = ReductionTrial(tuning, search, Scored((0.0,) * len(tuning.benchmark.objectives), controls))
    trial.start(max(SHARE_OF_SEARCH * trial.search_s - reduced.seconds, IDLE_S))
    kept = _without_absent(trial, trial.parts.all)
    screened = _screened(trial, [part for part in trial.parts.all if part in kept])
    left = trial.reduced(kept - screened.idle, kept - screened.idle)
    seconds = reduced.seconds + left.seconds
    return replace(left, undecided=frozenset(), budgets=reduced.budgets, seconds=seconds)


def _without_absent(trial: ReductionTrial, in_order: Sequence[ControlPart]) -> Kept:
    """Without the parts that the search saw to change no machine code, which takes next to no builds."""
    everything = frozenset(in_order)
    absent = trial.absent_from_aliases(in_order)
    return _dropped(lambda some: trial.has_same_code(some, everything), everything, absent, trial.expect)


def _few(trial: ReductionTrial, in_order: Sequence[ControlPart], gains: Mapping[ControlPart, float]) -> Kept:
    """As few parts as surely do what all do, of those that the search saw to matter most; all where none do.

    What reaches farther than the rest is left out first, where that can be. Where all is counted, a part that brings a
    single byte has to stay: then most sets of few are too small, and it begins with the largest.
    """
    kept = frozenset(in_order)
    for rank in sorted({trial.reach[part] for part in in_order}, reverse=True)[:-1]:
        narrower = frozenset(part for part in kept if trial.reach[part] != rank)
        if trial.guess(narrower) and trial.holds(narrower):
            kept = narrower
    by_gain = sorted(kept, key=lambda part: (not part.acf, -gains[part], in_order.index(part)))
    prefixes = [frozenset(by_gain[: 2**power]) for power in range(len(by_gain).bit_length()) if 2**power < len(by_gain)]
    if not trial.benchmark.timed_objectives:
        return [kept, *takewhile(trial.holds, reversed(prefixes))][-1]
    trial.expect(prefixes)
    return next((few for few in prefixes if trial.guess(few, GENEROUS) and trial.holds(few)), kept)


def _gains(search: Search, trial: ReductionTrial, of: Sequence[ControlPart]) -> Mapping[ControlPart, float]:
    """How much better the search's candidates were with each part as the winner has it: a log-ratio, by regression."""
    seen = [(knobs, sum(each.scores)) for key, each in search.scored.items() for knobs in search.aliases.get(key, ())]
    wanted = [trial.parts.knobs_of(part).items() for part in of]
    present = np.array([[own <= knobs.items() for own in wanted] for knobs, _ in seen], dtype=float)
    if not present.size:
        return dict.fromkeys(of, 0.0)
    return dict(zip(of, ridge_gains(present, np.array([score for _, score in seen])), strict=True))


@dataclass(frozen=True)
class _Screened:
    """What stays, what was dropped since it changes no machine code, and for each part the set without it."""

    kept: Kept
    idle: Kept = frozenset()
    alone: Mapping[ControlPart, Kept] = field(default_factory=dict)


def _counted(trial: ReductionTrial, least_first: Sequence[ControlPart]) -> _Screened:
    """Without the parts that bring nothing, by builds alone: many at once, and by halves where that is too much."""
    current, idle = frozenset(least_first), Kept()

    def holds(rest: Kept) -> bool:
        nonlocal current, idle
        if not trial.holds(rest):
            return False
        if trial.has_same_code(rest, current):
            idle |= current - rest
        current = rest
        return True

    return _Screened(_dropped(holds, current, least_first, trial.expect), idle)


def _screened(trial: ReductionTrial, in_order: Sequence[ControlPart]) -> _Screened:
    """Without the parts that change no machine code: of two that shadow each other, one stays.

    Some parts at a time, so that what is found by then is dropped when the time is over.
    """
    everything, alone = frozenset(in_order), dict[ControlPart, Kept]()

    def has_same_code(some: Kept) -> bool:
        return trial.has_same_code(some, everything)

    kept = everything
    for first in range(0, len(in_order), AT_ONCE):
        tried = {part: kept - {part} for part in in_order[first : first + AT_ONCE]}
        trial.expect(list(tried.values()))
        alone |= tried
        kept = _dropped(has_same_code, kept, [part for part, rest in tried.items() if has_same_code(rest)])
    return _Screened(kept, everything - kept, alone)


def _without_useless(trial: ReductionTrial, in_order: Sequence[ControlPart], screened: _Screened) -> Kept:
    """Without the parts that bring nothing: those that seem to, together and then by halves, and then each alone."""
    lean = screened.kept
    # A guess is enough to choose what is tried together, and these sets are built already.
    useless = [part for part in in_order if part in lean and trial.guess(screened.alone[part])]
    left = _dropped(trial.holds, lean, useless, trial.expect)
    return frozenset(ddmin([[part] for part in in_order if part in left], trial.holds, expect=trial.expect))


def _dropped(
    holds: Callable[[Kept], bool],
    kept: Kept,
    some: Sequence[ControlPart],
    expect: Callable[[Sequence[Kept]], None] = lambda sets: None,
) -> Kept:
    others = kept.difference(some)
    return others.union(ddmin([some], holds, stays=others, expect=expect))
