"""Level shifts of a series, and whose they are: the tuned arm's, the baseline's, both arms', the machine's.

A change point is looked for as Hawkins, Qiu and Kang do ("The changepoint model for statistical process control",
J. Quality Technology 35, 2003): after every run, the split of the runs so far with the largest two-sample statistic is
held to a limit that false alarms reach at a chosen rate; what was found stays found, and the search goes on behind it.
Three things are added for two arms that were measured nested in one process, of which more is known than their times:

- A change has a *shape*: the tuned arm alone, the baseline alone, or both alike. The statistic of a shape is Student's
  t of its arm with the other one as covariate (analysis of covariance, Fisher 1932), which takes out what the arms
  share: it is never less sensitive than the arm by itself, and than the ratio.
- Where something is known to have changed (machine code, compiler, driver), one split is tested and not hundreds, so
  far weaker evidence suffices.
- A run that its neighbours do not bear out is no evidence of a new level (Hampel's identifier; Pearson, "Outliers in
  process modeling and identification", IEEE Trans. Control Systems Technology 10, 2002).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pytest_compileiq.history.records import Observation
from pytest_compileiq.rules.stats import Floats, t_quantile

Shape = Literal["tuned", "baseline", "alike"]
SHAPES: tuple[Shape, ...] = ("tuned", "baseline", "alike")

WINDOW = 120  # runs that a search looks back on
LEAST_BEFORE, LEAST_AFTER = 8, 4  # runs on either side of a split
LEAST_BEFORE_KNOWN, LEAST_AFTER_KNOWN = 5, 3
LEAST_MOVE = 0.005  # of the time: as the gate, which takes no smaller gain for one
LEAST_SPREAD = 0.001  # between runs: what is smaller is the clock's luck
# Two-sided levels of one shape at one split; bench/history.py counts the false alarms that they give together.
LEVEL_ANYWHERE = 1e-7
LEVELS_KNOWN = {3: 1e-5, 5: 6e-5, 10: 2e-5}  # by the runs since the known change
NEAR = 3  # runs: a change found so near to a known one is that one
_LEAST_DRIFT = 10  # runs: what is faster is a step
_HAMPEL_RUNS, _HAMPEL_LIMIT = 5, 3.0
_USUAL, _SD_OF_USUAL = 0.9, 1.645  # nine runs in ten; their median alone would take one of two usual levels for all


@dataclass(frozen=True)
class ChangePoint:
    """One change of level."""

    at: int  # the first run on the new level
    seen: int  # the run after which it was found
    shape: Shape
    drifts: bool = False  # both arms crept there over many runs


def change_points(baseline: Floats, tuned: Floats, known: Collection[int] = ()) -> list[ChangePoint]:
    """Every change of level, oldest first.

    That one is found depends on no later run: analysed anew with more runs, it stays. Where it is and its shape are
    judged by all runs up to the next change, so more runs tell them better; a creep found in pieces becomes one.
    The arms' times are logs, oldest first; before ``known`` runs something is known to have changed.
    """
    changes: list[ChangePoint] = []
    chain = [0]  # the level before a row of steps of both arms that may be one creep, and where each step is
    detected = list(_detected(baseline, tuned, known))
    ends = [0, *(at for at, _ in detected), len(baseline)]
    for (about, seen), before, end in zip(detected, ends, ends[2:], strict=False):
        shape, behind = _told(baseline[before:end], tuned[before:end], about - before, about in known)
        at = before + behind
        if shape != "alike" or at in known:
            chain = [at]
            changes.append(ChangePoint(at, seen, shape))
            continue
        chain.append(at)
        common = (baseline[chain[0] : end] + tuned[chain[0] : end]) / 2
        if not _creeps(common, [step - chain[0] for step in chain[1:]]):
            changes.append(ChangePoint(at, seen, shape))
            continue
        creep = next(change for change in [*changes, ChangePoint(at, seen, shape)] if change.at == chain[1])
        changes = [*(change for change in changes if change.at < chain[1]), replace(creep, drifts=True)]
    return changes


def _detected(baseline: Floats, tuned: Floats, known: Collection[int]) -> Iterator[tuple[int, int]]:
    """Each change's first run, and the run after which it was found."""
    start = 0
    for runs in range(LEAST_BEFORE_KNOWN + LEAST_AFTER_KNOWN, len(baseline) + 1):
        first = max(start, runs - WINDOW)
        inside = [run - first for run in known if first < run < runs]
        at = _newest_change(baseline[first:runs], tuned[first:runs], inside)
        if at is not None:
            start = first + at
            yield start, runs - 1


def _newest_change(baseline: Floats, tuned: Floats, known: Sequence[int]) -> int | None:
    """The best split of these runs if it is beyond its limit; ``known`` splits have limits of their own."""
    runs = len(baseline)
    if runs < LEAST_BEFORE_KNOWN + LEAST_AFTER_KNOWN:
        return None
    statistics = _statistics(_borne_out(baseline), _borne_out(tuned))
    at = None
    allowed = statistics[:, LEAST_BEFORE : max(0, runs - LEAST_AFTER + 1)]
    if allowed.size and np.max(allowed) >= _limit(runs - 3, LEVEL_ANYWHERE):
        best = LEAST_BEFORE + int(np.argmax(allowed.max(axis=0)))
        near = [split for split in known if abs(split - best) <= NEAR and runs - split >= LEAST_AFTER_KNOWN]
        at = min(near, key=lambda split: abs(split - best), default=best)
    for split in known if at is None else ():
        level = LEVELS_KNOWN.get(runs - split)
        if level is None or split < LEAST_BEFORE_KNOWN:
            continue
        if np.max(statistics[:, split]) >= _limit(runs - 3, level):
            at = split
            break
    return at if at is not None and max(map(abs, steps(baseline, tuned, at))) >= LEAST_MOVE else None


def steps(baseline: Floats, tuned: Floats, at: int) -> tuple[float, float]:
    """By how much the median log time of the baseline and of the tuned arm differ before and from ``at`` on."""
    baseline_step, tuned_step = (float(np.median(arm[at:]) - np.median(arm[:at])) for arm in (baseline, tuned))
    return baseline_step, tuned_step


def _told(baseline: Floats, tuned: Floats, at: int, is_known: bool) -> tuple[Shape, int]:
    """The shape of the change at about ``at``, and the run at which it is, as all these runs tell them."""
    statistics = _statistics(_borne_out(baseline), _borne_out(tuned))
    if not is_known:
        first = max(2, at - NEAR)
        at = first + int(np.argmax(statistics[:, first : min(at + NEAR, len(baseline) - 2) + 1].max(axis=0)))
    return SHAPES[int(np.argmax(statistics[:, at]))], at


# ── statistics ───────────────────────────────────────────────────────────────────────────────────────────────────


def _statistics(baseline: Floats, tuned: Floats) -> Floats:
    return np.stack([np.abs(_by_split(*_axes(baseline, tuned, shape))) for shape in SHAPES])


def _axes(baseline: Floats, tuned: Floats, shape: Shape) -> tuple[Floats, Floats]:
    """What a change of ``shape`` moves, and what it leaves where it is."""
    if shape == "tuned":
        return tuned, baseline
    if shape == "baseline":
        return baseline, tuned
    return (baseline + tuned) / 2, tuned - baseline


def _by_split(moved: Floats, still: Floats) -> Floats:
    """Student's t that ``moved`` differs before and from each run on, given ``still``; runs − 3 degrees of freedom."""
    runs = len(moved)
    y, x = moved - moved.mean(), still - still.mean()
    before = np.arange(2, runs - 1)
    after = runs - before
    weight = before * after / runs
    # Mean behind less mean before each split, of values that add up to 0.
    step_y, step_x = (-sums / after - sums / before for sums in (np.cumsum(values)[before - 1] for values in (y, x)))
    within_yy = float(y @ y) - weight * step_y**2
    within_xy = float(y @ x) - weight * step_y * step_x
    within_xx = np.maximum(float(x @ x) - weight * step_x**2, (runs - 2) * 1e-12)
    slope = within_xy / within_xx
    variance = np.maximum((within_yy - slope * within_xy) / (runs - 3), LEAST_SPREAD**2)
    t = np.zeros(runs)  # where a side has fewer than two runs
    t[2 : runs - 1] = (step_y - slope * step_x) / np.sqrt(variance * (1 / weight + step_x**2 / within_xx))
    return t


@lru_cache(maxsize=1024)
def _limit(degrees: int, level: float) -> float:
    return t_quantile(degrees, level / 2)


def _borne_out(values: Floats) -> Floats:
    """``values``, each moved to within three standard deviations of the median of the five runs around it."""
    half = _HAMPEL_RUNS // 2
    middles = np.median(sliding_window_view(values, _HAMPEL_RUNS), axis=1)
    around = np.concatenate([np.full(half, middles[0]), middles, np.full(half, middles[-1])])
    spread = max(float(np.quantile(np.abs(values - around), _USUAL)) / _SD_OF_USUAL, LEAST_SPREAD)
    return np.clip(values, around - _HAMPEL_LIMIT * spread, around + _HAMPEL_LIMIT * spread)


# ── drift ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _creeps(values: Floats, steps_at: Sequence[int]) -> bool:
    """Whether a level, a slope of at least ten runs and another level fit ``values`` better than steps do.

    By Schwarz's criterion (Annals of Statistics 6, 1978): a slope takes four numbers, n steps take 2n + 1.
    """
    values = _borne_out(values)
    runs, places = len(values), np.arange(len(values))
    stride, y = max(1, runs // 40), values - values.mean()
    crept = np.inf  # the least sum of squares that a slope leaves unexplained
    for begin in range(0, runs - _LEAST_DRIFT, stride):
        for end in range(begin + _LEAST_DRIFT, runs + stride, stride):
            ramp = np.clip(places, begin, end) - begin
            x = ramp - ramp.mean()
            crept = min(crept, float(y @ y) - float(y @ x) ** 2 / float(x @ x))
    stepped = sum(float(((piece - piece.mean()) ** 2).sum()) for piece in np.split(values, steps_at))
    spared = (2 * len(steps_at) + 1 - 4) * np.log(runs)
    return bool(runs * np.log(stepped / crept) + spared > 0)


Cause = Literal["tuned", "baseline", "both", "machine"]
_LARGEST_STEP = 20.0
_SURROUNDINGS = ("compiler", "driver", "machine")
_CODE = {"baseline_code": "the baseline's machine code", "tuned_code": "the tuned machine code"}


@dataclass(frozen=True)
class Shift:
    """One change of level, and its cause."""

    at: int  # the first run on the new level
    seen: int  # the run after which it was found
    cause: Cause
    drifts: bool  # both arms crept there over many runs
    baseline: float  # share of its value: 0.03 is 3 % more
    tuned: float
    known: tuple[str, ...]  # other changes with that run, in words

    @property
    def alarms(self) -> bool:
        """Whether the gain itself may have moved: code moved it, or one arm alone."""
        return self.cause != "machine" or abs(self.tuned - self.baseline) >= LEAST_MOVE * 2


def shifts_of(runs: Sequence[Observation]) -> list[Shift]:
    """Every shift, oldest first; what is found after a run depends on no later one."""
    if not runs:
        return []
    baseline, tuned = (np.log([getattr(run, arm) for run in runs]) for arm in ("baseline", "tuned"))
    changes = change_points(baseline, tuned, [at for at in range(1, len(runs)) if _is_event(runs, at)])
    begins = [0, *(change.at for change in changes)]
    ends = [*(change.at for change in changes[1:]), len(runs)]
    shifts = []
    for change, begin, end in zip(changes, begins, ends, strict=False):
        by = steps(baseline[begin:end], tuned[begin:end], change.at - begin)
        before, after = runs[change.at - 1], runs[change.at]
        moved = before.baseline_code != after.baseline_code, before.tuned_code != after.tuned_code
        cause, known = _cause(change.shape, *moved, by), tuple(_differences(before, after))
        shifts.append(Shift(change.at, change.seen, cause, change.drifts, share_of(by[0]), share_of(by[1]), known))
    return shifts


def share_of(step: float) -> float:
    """A step of a logarithm as a share: 0.03 is 3 % more; steps that no time makes stay finite."""
    return math.expm1(min(step, _LARGEST_STEP))


def _cause(shape: Shape, baseline_changed: bool, tuned_changed: bool, by: tuple[float, float]) -> Cause:
    """Whose doing a change is: code that is the same as before takes another time on another machine only."""
    if baseline_changed and tuned_changed:
        less, more = sorted(map(abs, by))
        return "both" if shape == "alike" or less > max(LEAST_MOVE, more / 3) else shape
    if shape == "tuned" and tuned_changed:
        return "tuned"
    if shape == "baseline" and baseline_changed:
        return "baseline"
    return "machine"


def _is_event(runs: Sequence[Observation], at: int) -> bool:
    """Whether something changed with run ``at``: machine code, or surroundings that had been the same for five runs.

    Runners that come and go change at every second run, and tell nothing.
    """
    before, after = runs[at - 1], runs[at]
    if any(getattr(before, code) != getattr(after, code) for code in _CODE):
        return True
    lately = runs[max(0, at - LEAST_BEFORE_KNOWN) : at]
    return any(
        {getattr(run, what) for run in lately} == {getattr(before, what)} != {getattr(after, what)}
        for what in _SURROUNDINGS
    )


def _differences(before: Observation, after: Observation) -> Iterator[str]:
    for code, name in _CODE.items():
        if getattr(before, code) != getattr(after, code):
            yield f"{name} changed"
    for what in _SURROUNDINGS:
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            yield f"{what} {old or 'unknown'} → {new or 'unknown'}"
