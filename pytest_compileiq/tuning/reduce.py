"""The smallest winner: as few controls as do the same, within one budget of loss and a bound on time.

First goes whatever changes no machine code; that takes builds alone. Then delta debugging drops what brings nothing:
exactly, where objectives are counted, and by sequential paired tests where they are measured. Each set is held to the
winner as it was found, since losses against the step before would add up. What is not decided in time stays.

Nothing that is sampled here enters a claim: the smallest set is proven like every finalist, and ``proof.smaller``
compares it there with the one that it was made of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from pytest_compileiq.errors import BuildError, StoreError
from pytest_compileiq.model import BuildResult, ControlsFile, Knobs, Objective, SampleRow
from pytest_compileiq.proof.exact import exact_loss, score_loss
from pytest_compileiq.rules.analysis import steady_values
from pytest_compileiq.rules.reduction import LEVEL, LOOKS, ddmin, is_within, loss_budget, paired_losses
from pytest_compileiq.search.duplicates import key_of
from pytest_compileiq.search.scoring import Scored
from pytest_compileiq.tuning.leave_out import Bench, Part, Parts, Rows
from pytest_compileiq.workers.pool import EvaluationFailed

SHARE_OF_SEARCH = 0.25
RESERVED = 0.05  # of the search's time, in which another finalist that is proven loses what is idle
FLOOR_S = 3.0  # of the time bound, so that short searches can reduce at all
AT_ONCE = 8  # parts that are tried for machine code before what is idle among them goes
Kept = frozenset[Part]
Width = Callable[[Knobs], int]


@dataclass(frozen=True)
class Reduced:
    """One winner in three sizes, and how it became smaller.

    Attributes:
        full: as the search found it.
        lean: without what changes no machine code.
        smallest: without what brings nothing, as far as that was decided; equal to ``lean`` if nothing was.
        counts: how many controls each of these has.
        undecided: how many of the smallest's are kept because it was not decided whether they bring anything.
        budgets: each timed metric → the largest loss, a log-ratio or a share of its magnitude.
        seconds: what it took.
        search_s: what the search took, whose quarter bounds it.
    """

    full: ControlsFile
    lean: ControlsFile
    smallest: ControlsFile
    counts: tuple[int, int, int]
    undecided: int
    budgets: Mapping[str, float]
    seconds: float
    search_s: float


def reduce_winner(bench: Bench, winner: Scored, width: Width = lambda knobs: 0) -> Reduced:
    """Leave out what ``winner`` does not need.

    Args:
        width: how far knobs reach, as a rank: what reaches farther is tried first, so that the narrower one of two
            that do the same stays.

    Raises:
        NoWorker: a worker process did not get ready.
    """
    parts = Parts(bench.benchmark, winner.controls)
    in_order = sorted(parts.all, key=lambda part: -width(parts.knobs_of(part)))
    if (count := parts.count(winner.controls)) > 1:
        bench.progress.say(f"reducing {count} controls")
        bench.prepare()
    trial = _Trial(bench, parts, winner, max((SHARE_OF_SEARCH - RESERVED) * bench.search_s, FLOOR_S))
    screened = _screened(trial, in_order, exactly=not bench.benchmark.timed_objectives)
    smallest = _without_useless(trial, in_order, screened)
    sizes = winner.controls, trial.controls(frozenset(in_order) - screened.idle), trial.controls(smallest)
    return Reduced(
        *sizes,
        counts=(parts.count(sizes[0]), parts.count(sizes[1]), parts.count(sizes[2])),
        undecided=trial.undecided(smallest),
        budgets=trial.budgets,
        seconds=trial.seconds,
        search_s=bench.search_s,
    )


def drop_idle(bench: Bench, controls: ControlsFile, spent_s: float) -> Reduced:
    """``controls`` without what changes no machine code, for a winner that is proven: what is proven stays so.

    Args:
        spent_s: seconds that were spent on another finalist; the time bound is for both.
    """
    parts = Parts(bench.benchmark, controls)
    left_s = max(SHARE_OF_SEARCH * bench.search_s, FLOOR_S) - spent_s
    trial = _Trial(bench, parts, Scored((0.0,) * len(bench.benchmark.objectives), controls), left_s)
    screened = _screened(trial, parts.all, exactly=False)
    lean = trial.controls(screened.kept)
    counts = parts.count(controls), parts.count(lean), parts.count(lean)
    return Reduced(controls, lean, lean, counts, 0, {}, spent_s + trial.seconds, bench.search_s)


@dataclass(frozen=True)
class _Screened:
    """What stays, what was dropped since it changes no machine code, and for each part the set without it."""

    kept: Kept
    idle: Kept = frozenset()
    alone: Mapping[Part, Kept] = field(default_factory=dict)


def _screened(trial: _Trial, in_order: Sequence[Part], *, exactly: bool) -> _Screened:
    """Without the parts that change no machine code: of two that shadow each other, one stays.

    Some parts at a time, so that what is found by then is dropped when the time is over.

    Args:
        exactly: whether builds alone tell what brings nothing, so that it is dropped at once, too.
    """
    everything, alone = frozenset(in_order), dict[Part, Kept]()
    kept = _dropped(trial.has_same_code, everything, trial.absent_from_twins(in_order), trial.expect)
    idle = everything - kept
    others = [part for part in in_order if part in kept]
    for first in range(0, len(others), AT_ONCE):
        tried = {part: kept - {part} for part in others[first : first + AT_ONCE]}
        trial.expect(list(tried.values()))
        alone |= tried
        same = [part for part, rest in tried.items() if trial.has_same_code(rest)]
        left = _dropped(trial.has_same_code, kept, same)
        idle |= kept - left
        kept = left
        if exactly:
            kept = _dropped(trial.holds, kept, [part for part in tried if part in kept and trial.guess(tried[part])])
    return _Screened(kept, idle, alone)


def _without_useless(trial: _Trial, in_order: Sequence[Part], screened: _Screened) -> Kept:
    """Without the parts that bring nothing: those that seem to, together and then by halves, and then each alone."""
    lean = screened.kept
    # A guess is enough to choose what is tried together, and these sets are built already.
    useless = [part for part in in_order if part in lean and trial.guess(screened.alone[part])]
    left = _dropped(trial.holds, lean, useless, trial.expect)
    return frozenset(ddmin([[part] for part in in_order if part in left], trial.holds, expect=trial.expect))


def _dropped(
    holds: Callable[[Kept], bool],
    kept: Kept,
    some: Sequence[Part],
    expect: Callable[[Sequence[Kept]], None] = lambda sets: None,
) -> Kept:
    """``kept`` without those of ``some`` that need not stay."""
    others = kept.difference(some)
    return others.union(ddmin([some], holds, stays=others, expect=expect))


@dataclass
class _Trial:
    """Holds sets of parts to the unreduced winner, until its time is over."""

    bench: Bench
    parts: Parts
    winner: Scored
    bound_s: float
    _started: float = field(default_factory=time.monotonic)
    _verdicts: dict[Kept, bool | None] = field(default_factory=dict)
    _stopped: bool = False

    def __post_init__(self) -> None:
        self._random = Random(self.bench.seed)
        self._until = self._started + self.bound_s

    @property
    def seconds(self) -> float:
        """What it took so far."""
        return time.monotonic() - self._started

    @property
    def is_over(self) -> bool:
        """Whether nothing more is tried."""
        return self._stopped or time.monotonic() >= self._until

    @cached_property
    def budgets(self) -> Mapping[str, float]:
        """Timed metric → the largest loss, by the gain that the play-off saw."""
        gains = zip(self.bench.benchmark.objectives, self.winner.scores, strict=True)
        return {objective.metric: loss_budget(-score) for objective, score in gains if not objective.exact}

    def controls(self, kept: Kept) -> ControlsFile:
        """The winner with these parts alone."""
        return self._controls(kept) or self.winner.controls

    def undecided(self, smallest: Kept) -> int:
        """How many of these parts might bring nothing."""
        others = [rest for part in smallest if self._controls(rest := smallest - {part}) is not None]
        return sum(self._verdicts.get(rest) is None for rest in others)

    def expect(self, sets: Sequence[Kept]) -> None:
        """Build side by side what is asked about next."""
        wanted = [kept for kept in sets if kept not in self._verdicts and self._why_not(kept) is None]
        self.bench.build(map(self._controls, wanted), self._until)

    def absent_from_twins(self, parts: Sequence[Part]) -> list[Part]:
        """Those of ``parts`` that some candidate of the search did without, and had the winner's machine code."""
        benchmark, full = self.bench.benchmark, self.winner.controls
        twins = self.bench.twins.get(key_of(benchmark, full, benchmark.builds.get(full).digest), ())
        return [part for part in parts if any(not knobs.keys() & set(part.knobs) for knobs in twins) and not part.acf]

    def has_same_code(self, kept: Kept) -> bool:
        """Whether these parts alone make the winner's machine code, and give its parameters."""
        build = self._built(kept)
        return build is not None and self._is_same(kept, build)

    def guess(self, kept: Kept) -> bool:
        """Whether these parts alone seem to be as good as the winner: from their counts, and one block of each."""
        build = self._built(kept)
        if build is None:
            return False
        try:
            if self._has_lost(build):
                return False
            rows: Rows = {}
            self._sample(rows, 0, kept)
            losses = [(objective, paired_losses(own, objective.direction)) for (objective, _), own in rows.items()]
            return all(own.size and own.mean() <= self.budgets[objective.metric] for objective, own in losses)
        except (EvaluationFailed, StoreError):
            return False

    def holds(self, kept: Kept) -> bool:
        """Whether these parts alone are surely as good as the winner, within the budget, and correct."""
        if kept not in self._verdicts:
            self._verdicts[kept] = self._verdict(kept)
        return self._verdicts[kept] is True

    def _verdict(self, kept: Kept) -> bool | None:
        if self.is_over:
            return None
        build = self._built(kept)
        if build is None:
            return False
        if self._is_same(kept, build):
            return True
        if self.bench.why_never(build):
            return False
        try:
            verdict = not self._has_lost(build) and self._measured(kept)
            if verdict:
                self.bench.check(self._controls(kept))
        except EvaluationFailed as failure:
            # Neither says anything about these parts: the winner itself failed, or others compute on the device.
            self._stopped = failure.arm == "baseline" or failure.kind == "disturbed"
            return None if self._stopped else False
        except StoreError:  # samples were lost
            return None
        return verdict

    def _measured(self, kept: Kept) -> bool | None:
        """Sequentially: whether every objective on every workload is within its budget; True without timed ones."""
        rows: Rows = {}
        if not self.bench.benchmark.timed_objectives:
            return True
        for number in range(LOOKS[-1]):
            if self.is_over:
                return None
            self._sample(rows, number, kept)
            if number + 1 in LOOKS or not self.bench.varies:
                verdicts = [self._compared(objective, rows[objective, workload]) for objective, workload in rows]
                if all(verdicts) or False in verdicts:
                    return all(verdicts)
        return None

    def _compared(self, objective: Objective, rows: Sequence[SampleRow]) -> bool | None:
        steady = steady_values(rows) if objective.is_score else None
        if steady is not None:
            return score_loss(objective.direction, *steady) <= 0
        losses = paired_losses(rows, objective.direction)
        return is_within(losses, self.budgets[objective.metric], LEVEL / len(LOOKS))

    def _sample(self, rows: Rows, number: int, kept: Kept) -> None:
        self.bench.sample(rows, number, self._random, self.winner.controls, self._controls(kept))

    def _has_lost(self, build: BuildResult) -> bool:
        benchmark = self.bench.benchmark
        full = benchmark.builds.get(self.winner.controls)
        try:
            return any(
                exact_loss(objective, *(benchmark.value_of(objective.metric, built) for built in (full, build))) > 0
                for objective in benchmark.exact_objectives
            )
        except BuildError:
            return True

    def _is_same(self, kept: Kept, build: BuildResult) -> bool:
        benchmark, full = self.bench.benchmark, self.winner.controls
        own = key_of(benchmark, self._controls(kept), build.digest)
        return own == key_of(benchmark, full, benchmark.builds.get(full).digest)

    def _built(self, kept: Kept) -> BuildResult | None:
        """The build of these parts; None where the space does not hold them, they do not build or the time is over."""
        controls = self._controls(kept)
        if self.is_over or controls is None or self._why_not(kept) is not None:
            return None
        build = self.bench.benchmark.builds.attempt(controls)
        return build if isinstance(build, BuildResult) else None

    def _why_not(self, kept: Kept) -> str | None:
        return self.parts.why_not(frozenset(self.parts.all) - kept)

    def _controls(self, kept: Kept) -> ControlsFile | None:
        return self.parts.without(frozenset(self.parts.all) - kept)
