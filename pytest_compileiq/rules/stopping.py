"""When a search stops measuring a candidate, and when it stops because it can judge none.

A candidate is measured on if after its first quad it looks better than the best so far. The rule is that of a
challenger: procedure ``Intensify`` of SMAC (Hutter, Hoos and Leyton-Brown, "Sequential Model-Based Optimization for
General Algorithm Configuration", LION 5, 2011, section 2), after FocusedILS (Hutter, Hoos, Leyton-Brown and Stützle, J.
Artif. Intell. Res. 36, 2009, section 4.2). A challenger is rejected once it is behind the incumbent; else it is
measured as long as an incumbent was, and takes its place if it is still ahead. Most are rejected after the first quad;
who looks best by luck is not, and is measured until the luck has gone. ``bench/racing.py`` has the figures, and
decision 19 those of the rules that lost.
"""

from __future__ import annotations

import math
import statistics
from bisect import insort
from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec import Struct

from pytest_compileiq.model import Direction, FailureKind
from pytest_compileiq.rules.comparison import SearchAxis, slot_value
from pytest_compileiq.spelling import nearest, quantity

FIRST_QUADS, QUADS = 1, 4  # of a candidate that is rejected, and of one that is not
_NORMAL = 1.4826  # a normal distribution's standard deviation for one median absolute deviation
_MEDIAN = math.sqrt(math.pi / 2)  # the standard error of a median of many for one of their mean


class Stepping(Struct, frozen=True):
    """How a search takes the step from the baseline to a candidate in one metric: lower is better.

    ``axis`` places the values of a score; None where the step is a log-ratio, of times.
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


# ── whether a search has judged enough ───────────────────────────────────────────────────────────────────────────

NEIGHBOUR: FailureKind = "neighbour"
NEARLY_ALL = 7 / 8
# Of searches in which 60 % are void, 0.6 ** 8 = 1.7 % are stopped by the first, and 1.3 % by the other.
FEW = 8  # candidates that are all void before a search is stopped
FEWEST = 16  # candidates before NEARLY_ALL applies
NONE_OF = 32  # candidates before a search that could measure none of them is stopped; FEW where all ran out of time
READ_BY_NOBODY = 8  # bodies that have run before a search is stopped because none of them read a knob


def why_unjudged(
    measured: int,
    valid: int,
    invalid: Mapping[str, int],
    first_reason: Mapping[str, str],
    remedy: str,
    *,
    at_the_end: bool,
) -> str | None:
    """Why the search says nothing about its controls; None where it may go on, or may be settled.

    A void candidate was never measured: it changes functions that the test does not look at. Where nearly all are void,
    the few others say nothing about what these controls can do. Where none was measured, neither do fewer candidates
    that have the baseline's code than failed.

    Args:
        measured: candidates that were measured, each machine code once.
        valid: evaluations with scores, repeated machine code included.
        invalid, first_reason: kind of failure → number of candidates, and the reason of the first.
        remedy: what to do about void candidates.
        at_the_end: the budget is spent, so that small numbers have to do.
    """
    tried = measured + sum(invalid.values())
    void = invalid.get(NEIGHBOUR, 0)
    if void and void >= NEARLY_ALL * tried and (at_the_end or tried >= (FEW if void == tried else FEWEST)):
        why = first_reason[NEIGHBOUR]
        return f"{void} of {tried} candidates were not measured, since their controls {why}: {remedy}"
    enough = FEW if invalid.get("timeout") == tried else NONE_OF
    if measured or valid >= max(1, sum(invalid.values())) or not (at_the_end or tried >= enough):
        return None
    reasons = invalid_text(invalid, first_reason) or "the engine proposed none"
    return f"none of {quantity(tried, 'candidate')} could be measured: {reasons}"


def invalid_text(invalid: Mapping[str, int], first_reason: Mapping[str, str]) -> str:
    """How many candidates failed in each way, with the reason of the first."""
    return "; ".join(f"{count} × {kind}: {first_reason[kind]}" for kind, count in sorted(invalid.items()))


def unread_knobs(offered: Collection[str], read: Collection[str], taken: Collection[str] | None) -> tuple[str, ...]:
    """The parameters that bodies were ``offered``, none ``read``, and the toolchain does not take; sorted.

    Where the toolchain does not say what it takes (None), nothing is known.
    """
    known = offered if taken is None else {*read, *taken}
    return tuple(sorted(knob for knob in offered if knob not in known and not knob.startswith("-")))


def unread_text(knobs: Sequence[str], read: Collection[str] = ()) -> str:
    """The sentence for parameters ``knobs`` that nothing reads; a name that is ``read`` instead may be misspelt."""
    names = ", ".join(map(repr, knobs))
    what, was, them = ("knob", "was", "it") if len(knobs) == 1 else ("knobs", "were", "them")
    misspelt = [f"{other!r} for {knob!r}" for knob in knobs if (other := nearest(knob, set(read)))]
    instead = f" (it reads {', '.join(misspelt)}?)" if misspelt else ""
    return (
        f"{what} {names} {was} never read, neither by the test's body (acf.params){instead} nor by the toolchain: "
        f"read {them} there, or take {them} out of space="
    )
