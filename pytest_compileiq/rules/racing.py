"""How long a candidate of a search is measured: on, if after its first quad it looks better than the best so far.

The rule is that of a challenger: procedure ``Intensify`` of SMAC (Hutter, Hoos and Leyton-Brown, "Sequential
Model-Based Optimization for General Algorithm Configuration", LION 5, 2011, section 2), after FocusedILS (Hutter, Hoos,
Leyton-Brown and Stützle, J. Artif. Intell. Res. 36, 2009, section 4.2). A challenger is rejected once it is behind the
incumbent; else it is measured as long as an incumbent was, and takes its place if it is still ahead. Most are rejected
after the first quad; who looks best by luck is not, and is measured until the luck has gone. ``bench/racing.py`` has
the figures, and decision 19 those of the rules that lost.
"""

from __future__ import annotations

import math
import statistics
from bisect import insort
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from pytest_compileiq.model import Direction
from pytest_compileiq.rules.comparison import SearchAxis
from pytest_compileiq.rules.slots import slot_value

FIRST_QUADS, QUADS = 1, 4  # of a candidate that is rejected, and of one that is not
_NORMAL = 1.4826  # a normal distribution's standard deviation for one median absolute deviation
_MEDIAN = math.sqrt(math.pi / 2)  # the standard error of a median of many for one of their mean


class Stepping(Struct, frozen=True):
    """How a search takes the step from the baseline to a candidate in one metric: lower is better.

    Attributes:
        axis: what places the values of a score; None where the step is a log-ratio, of times.
    """

    metric: str
    direction: Direction
    axis: SearchAxis | None = None

    def step(self, baseline: Sequence[float], tuned: Sequence[float]) -> float:
        """Between the medians, or the tails, of both arms' samples."""
        before, after = (slot_value(self.metric, values) for values in (baseline, tuned))
        up = math.log(after / before) if self.axis is None else self.axis.place(after) - self.axis.place(before)
        return up if self.direction == "minimize" else -up


class Race(Struct, frozen=True):
    """A challenge in one metric: the first quads have to bring more than ``best``, the incumbent's step."""

    stepping: Stepping
    best: float

    def is_lost(self, baseline: Sequence[float], tuned: Sequence[float]) -> bool:
        """Whether the challenger is behind after its first quads; what is no time of anything decides nothing."""
        if self.stepping.axis is None and min(*baseline, *tuned) <= 0:
            return False
        return self.stepping.step(baseline, tuned) >= self.best


def score_of(steps: Sequence[float]) -> float:
    """One score from a step for each quad: their median, since a quad may be far off."""
    return statistics.median(steps)


class Noise(Struct):
    """How much quads of one search vary, by what the two halves of each quad differ.

    A slot of each arm is half a quad; the mean of two halves is off by half their difference. The scale is that of a
    normal distribution with the same median: the few quads that somebody disturbed do not widen it.
    """

    _differences: list[float] = msgspec.field(default_factory=list)

    def learn(self, halves: tuple[float, float]) -> None:
        """Take in the steps of a quad's two halves."""
        insort(self._differences, abs(halves[0] - halves[1]) / 2)

    def error(self, quads: int) -> float:
        """The standard error of the score of so many quads, in the unit of a step."""
        scale = _NORMAL * statistics.median(self._differences)
        return scale / math.sqrt(quads) * (1.0 if quads < 3 else _MEDIAN)
