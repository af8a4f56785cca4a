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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from pytest_compileiq.model import ControlsFile, Knobs
from pytest_compileiq.rules.reduction import ddmin, ridge_gains
from pytest_compileiq.search.scoring import Scored
from pytest_compileiq.tuning.leave_out import Bench, ControlPart, ControlParts
from pytest_compileiq.tuning.trial import Kept, ReductionTrial

SHARE_OF_SEARCH = 0.25
RESERVED = 0.05  # of the search's time, in which what stayed undecided, or is stored larger, loses what is idle
GENEROUS = 2.0  # budgets that the few may seem to lose before they are held to one: one block is a rough guess
FLOOR_S = 6.0  # of the time bound, so that short searches can reduce at all
IDLE_S = 6.0  # of that, so that a winner of a short search has nothing idle in it, on a busy machine too
TOGETHER = 0.1  # of the search's time, in which what stayed undecided alone is tried together
TOGETHER_S = 6.0  # of that
AT_ONCE = 8  # parts that are tried for machine code before what is idle among them goes
Width = Callable[[Knobs], int]


@dataclass(frozen=True)
class Reduced:
    """One winner in three sizes, and how it became smaller.

    Attributes:
        lean: without the controls that are known to change no machine code.
        smallest: without those that bring nothing, as far as that was decided; equal to ``lean`` if nothing was.
        counts: how many controls each of the three has.
        undecided: those of the smallest's whose effect is open, by names as ``Attribution.open_knobs`` has them.
        budgets: each timed metric → the largest loss, a log-ratio or a share of its magnitude.
        search_s: seconds of the search, whose quarter bounds the reduction.
    """

    full: ControlsFile
    lean: ControlsFile
    smallest: ControlsFile
    counts: tuple[int, int, int]
    undecided: frozenset[str]
    budgets: Mapping[str, float]
    seconds: float
    search_s: float


def reduce_winner(bench: Bench, winner: Scored, width: Width = lambda knobs: 0) -> Reduced:
    """Leave out what ``winner`` does not need.

    Of two parts that do the same, the one of larger ``width``, the rank of how far knobs reach, is tried first.
    """
    parts = ControlParts(bench.benchmark, winner.controls)
    in_order = sorted(parts.all, key=lambda part: -width(parts.knobs_of(part)))
    if (count := parts.count(winner.controls)) > 1:
        bench.progress.say(f"reducing {count} controls")
        bench.prepare()
    trial = ReductionTrial(bench, parts, winner, max((SHARE_OF_SEARCH - RESERVED) * bench.search_s, FLOOR_S))
    lean = _without_absent(trial, in_order)
    gains = _gains(bench.seen, parts, in_order)
    few = _few(trial, [part for part in in_order if part in lean], gains, width)
    of_few = [part for part in in_order if part in few]
    if bench.benchmark.timed_objectives:
        screened = _screened(trial, of_few)
        smallest = _without_useless(trial, in_order, screened)
    else:
        screened = _counted(trial, sorted(of_few, key=lambda part: (-width(parts.knobs_of(part)), gains[part])))
        smallest = screened.kept
    if few == lean:
        lean -= screened.idle
    seconds = trial.seconds
    if trial.is_over and trial.undecided(smallest):
        last = ReductionTrial(bench, parts, winner, max(RESERVED * bench.search_s, IDLE_S))
        left = _screened(last, [part for part in in_order if part in smallest]).kept
        lean, smallest = left if lean == smallest else lean, left
        seconds += last.seconds
    if trial.undecided(smallest):
        trial = trial.with_more_time(max(TOGETHER * bench.search_s, TOGETHER_S))
        smallest = _without_undecided(trial, in_order, smallest)
        seconds += trial.seconds
    sizes = winner.controls, trial.controls(lean), trial.controls(smallest)
    return Reduced(
        *sizes,
        counts=(parts.count(sizes[0]), parts.count(sizes[1]), parts.count(sizes[2])),
        undecided=trial.undecided(smallest),
        budgets=trial.budgets,
        seconds=seconds,
        search_s=bench.search_s,
    )


def drop_idle(bench: Bench, controls: ControlsFile, spent_s: float) -> Reduced:
    """A proven winner without the controls that change no machine code, in the time that ``spent_s`` leaves."""
    parts = ControlParts(bench.benchmark, controls)
    left_s = max(SHARE_OF_SEARCH * bench.search_s - spent_s, IDLE_S)
    trial = ReductionTrial(bench, parts, Scored((0.0,) * len(bench.benchmark.objectives), controls), left_s)
    kept = _without_absent(trial, parts.all)
    screened = _screened(trial, [part for part in parts.all if part in kept])
    lean = trial.controls(kept - screened.idle)
    counts = parts.count(controls), parts.count(lean), parts.count(lean)
    return Reduced(controls, lean, lean, counts, frozenset(), {}, spent_s + trial.seconds, bench.search_s)


def _without_absent(trial: ReductionTrial, in_order: Sequence[ControlPart]) -> Kept:
    """Without the parts that the search saw to change no machine code, which takes next to no builds."""
    everything = frozenset(in_order)
    absent = trial.absent_from_aliases(in_order)
    return _dropped(lambda some: trial.has_same_code(some, everything), everything, absent, trial.expect)


def _few(
    trial: ReductionTrial, in_order: Sequence[ControlPart], gains: Mapping[ControlPart, float], width: Width
) -> Kept:
    """As few parts as surely do what all do, of those that the search saw to matter most; all where none do.

    What reaches farther than the rest is left out first, where that can be. Where all is counted, a part that brings a
    single byte has to stay: then most sets of few are too small, and it begins with the largest.
    """
    kept = frozenset(in_order)
    reach = {part: width(trial.parts.knobs_of(part)) for part in in_order}
    for rank in sorted({*reach.values()}, reverse=True)[:-1]:
        narrower = frozenset(part for part in kept if reach[part] != rank)
        if trial.guess(narrower) and trial.holds(narrower):
            kept = narrower
    by_gain = sorted(kept, key=lambda part: (not part.acf, -gains[part], in_order.index(part)))
    prefixes = [frozenset(by_gain[: 2**power]) for power in range(len(by_gain).bit_length()) if 2**power < len(by_gain)]
    if not trial.bench.benchmark.timed_objectives:
        return [kept, *takewhile(trial.holds, reversed(prefixes))][-1]
    trial.expect(prefixes)
    return next((few for few in prefixes if trial.guess(few, GENEROUS) and trial.holds(few)), kept)


def _gains(
    seen: Sequence[tuple[Knobs, float]], parts: ControlParts, of: Sequence[ControlPart]
) -> Mapping[ControlPart, float]:
    """How much better the search's candidates were with each part as the winner has it: a log-ratio, by regression."""
    wanted = [parts.knobs_of(part).items() for part in of]
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

    kept, idle = everything, Kept()
    for first in range(0, len(in_order), AT_ONCE):
        tried = {part: kept - {part} for part in in_order[first : first + AT_ONCE]}
        trial.expect(list(tried.values()))
        alone |= tried
        same = [part for part, rest in tried.items() if has_same_code(rest)]
        left = _dropped(has_same_code, kept, same)
        idle |= kept - left
        kept = left
    return _Screened(kept, idle, alone)


def _without_useless(trial: ReductionTrial, in_order: Sequence[ControlPart], screened: _Screened) -> Kept:
    """Without the parts that bring nothing: those that seem to, together and then by halves, and then each alone."""
    lean = screened.kept
    # A guess is enough to choose what is tried together, and these sets are built already.
    useless = [part for part in in_order if part in lean and trial.guess(screened.alone[part])]
    left = _dropped(trial.holds, lean, useless, trial.expect)
    return frozenset(ddmin([[part] for part in in_order if part in left], trial.holds, expect=trial.expect))


def _without_undecided(trial: ReductionTrial, in_order: Sequence[ControlPart], kept: Kept) -> Kept:
    names = trial.undecided(kept)
    open_ = [part for part in in_order if part in kept and "".join(part.knobs[:1]) in names]
    return _dropped(trial.holds, kept, open_, trial.expect)


def _dropped(
    holds: Callable[[Kept], bool],
    kept: Kept,
    some: Sequence[ControlPart],
    expect: Callable[[Sequence[Kept]], None] = lambda sets: None,
) -> Kept:
    others = kept.difference(some)
    return others.union(ddmin([some], holds, stays=others, expect=expect))
