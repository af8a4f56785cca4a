"""Two arms compared as ratio or difference: the value of a slot, the axis, and what one left-out control loses.

A ratio of numbers of which one may be zero or negative means nothing. Where such a value turns up, the arms are
compared by their difference instead, as a share of the baseline's magnitude, so that thresholds keep their meaning: to
first order both are the same number. What one analysis calls a step on its axis is called a gain everywhere else: 1 is
none, 1.005 is better by half a per cent of the baseline, whichever analysis it comes from.

Which analysis it is depends on all values of both arms together, never on which arm a value belongs to. So under equal
arms the choice is the same however the arms are exchanged within quads, and the randomisation test, which conditions on
the values, keeps its level (Lehmann and Romano, Testing Statistical Hypotheses, 2005, section 15.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from pytest_compileiq.errors import ClaimMismatch
from pytest_compileiq.model import Direction, tail_of
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.spelling import quantity

if TYPE_CHECKING:
    from pytest_compileiq.reduction import Attribution  # heavy: pydantic, and a worker imports this module
    from pytest_compileiq.rules.stats import Floats, Interval


Value = TypeVar("Value", "float", "Floats")


class Analysis(Struct, frozen=True):
    """One way of comparing: by logarithms, or where ``scale`` is given by differences in units of it.

    ``scale`` is a magnitude of the baseline, in the metric's unit; None where the values are positive.
    """

    scale: float | None = None

    def axis(self, values: Floats, direction: Direction) -> Floats:
        """Where differences of ``values`` are taken, signed so that lower is better."""
        import numpy as np  # heavy, and not needed to read a claim

        sign = 1.0 if direction == "minimize" else -1.0
        return sign * (np.log(values) if self.scale is None else values / self.scale)

    def gain(self, step: float) -> float:
        """A step on the axis as a gain: 1 is none, more is better."""
        return math.exp(step) if self.scale is None else 1 + step

    def step(self, gain: float) -> float:
        """The inverse of ``gain``."""
        return math.log(gain) if self.scale is None else gain - 1

    def step_of_share(self, share: float) -> float:
        """The step of a gain of 1 + ``share``, exact where the share is small."""
        return math.log1p(share) if self.scale is None else share


BY_RATIO = Analysis()
ERROR = 0.05  # of all intervals of a table together
_TOLERANCE = 1e-6
_ALL_BUT_ZERO = 1e-9  # of the other arm's magnitude
_LOG_DOWN_TO = 1e-3  # of the baseline's magnitude
_LARGEST_STEP = 60.0  # its exponential is 1e26


def slot_value(metric: str, values: Sequence[float]) -> float:
    """The median of ``values``, or the quantile that ``metric`` names: ``runtime@p99``."""
    return quantile(sorted(values), tail_of(metric)[1])


def samples_needed(metric: str, at_least: int) -> int:
    """How many samples a slot needs so that one of them is expected in the tail."""
    share = tail_of(metric)[1]
    return max(at_least, round(1 / (1 - share))) if share > 0.5 else at_least


def quantile(ordered: Sequence[Value], share: float) -> Value:
    """The quantile of sorted numbers or, place by place, arrays (Hyndman and Fan 1996, number 7; numpy's default)."""
    position = share * (len(ordered) - 1)
    index = int(position)
    following = ordered[min(index + 1, len(ordered) - 1)]
    return ordered[index] + (position - index) * (following - ordered[index])


def magnitude(baseline: Floats, tuned: Floats) -> float:
    """The scale of differences: the mean of |value| over the baseline, or the tuned arm's where that is all but zero.

    Values are in the metric's unit; NaN are left out.
    """
    import numpy as np

    kept = [np.abs(values[np.isfinite(values)]) for values in (baseline, tuned)]
    own, other = (float(values.mean()) if values.size else 0.0 for values in kept)
    return own if own > _ALL_BUT_ZERO * other else other or 1.0


def steady_values(rows: Sequence[SampleRow]) -> tuple[float, float] | None:
    """The baseline's and the tuned arm's value where every sample of an arm is one and the same number, else None."""
    baseline, tuned = ({row.value for row in rows if row.arm == arm} for arm in ("baseline", "tuned"))
    if len(baseline) != 1 or len(tuned) != 1 or any(row.dropped for row in rows):
        return None
    return baseline.pop(), tuned.pop()


class SearchAxis(Struct, frozen=True):
    """The axis on which a search compares a score of all its candidates, fixed by the baseline's first values.

    Logarithms where these are positive. Where a candidate then comes near zero or below, the axis goes on with the same
    slope and bends away from the logarithm's pole, so that it still tells any two values apart.
    """

    scale: float  # the mean magnitude of these values, in the metric's unit
    by_ratio: bool  # whether they are positive

    @classmethod
    def through(cls, baseline: Sequence[float]) -> SearchAxis:
        """The axis for a baseline that begins with these values."""
        return cls(sum(map(abs, baseline)) / len(baseline) or 1.0, min(baseline) > 0)

    def place(self, value: float) -> float:
        """Where ``value`` lies: differences of places are what a search minimises or maximises."""
        share = value / self.scale
        if not self.by_ratio:
            return share
        if share >= _LOG_DOWN_TO:
            return math.log(share)
        return math.log(_LOG_DOWN_TO) - math.log1p((_LOG_DOWN_TO - share) / _LOG_DOWN_TO)

    def shift(self, step: float) -> float:
        """The difference in units of the scale that a step from the baseline stands for; positive is higher."""
        if not self.by_ratio:
            return step
        if step >= math.log(_LOG_DOWN_TO):
            return math.expm1(min(step, _LARGEST_STEP))
        return _LOG_DOWN_TO - _LOG_DOWN_TO * math.expm1(min(math.log(_LOG_DOWN_TO) - step, _LARGEST_STEP)) - 1


def effect(losses: Sequence[float], comparisons: int) -> Interval:
    """The mean of one loss a process, with an interval that holds simultaneously with ``comparisons`` in all.

    Bonferroni's inequality, whatever they have in common (Dunn, J. American Statistical Association 56, 1961).
    """
    import numpy as np  # heavy, and exact tables do without

    from pytest_compileiq.rules.stats import paired_interval

    return paired_interval(np.array(losses), ERROR / 2 / comparisons)


def recompute_attribution(attribution: Attribution) -> None:
    """Repeat every interval from the recorded losses.

    Raises:
        ClaimMismatch: one of them differs by more than 1e-6, or fewer comparisons are corrected for than there are.
    """
    measured = [entry for entry in attribution.without if entry.standing == "measured"]
    if len(measured) > attribution.comparisons:
        raise ClaimMismatch(
            f"the attribution corrects for {attribution.comparisons} comparisons, and holds {len(measured)}"
        )
    for entry in measured:
        name = " ".join((*entry.knobs, *(["the ACF"] if entry.acf else [])))
        if len(entry.losses) < 2:
            raise ClaimMismatch(
                f"the attribution of {name:.200} has losses of {quantity(len(entry.losses), 'process')}"
            )
        interval = effect(entry.losses, attribution.comparisons)
        recorded = (entry.loss, entry.low, entry.high)
        for said, computed in zip(recorded, (interval.estimate, interval.low, interval.high), strict=True):
            if said is None or not math.isclose(said, computed, rel_tol=_TOLERANCE, abs_tol=1e-9):
                raise ClaimMismatch(
                    f"the attribution of {name:.200} says {said!r}, and its losses of each process give {computed!r}"
                )
