"""A comparison with the baseline in words: the ratio is never below 1, and a word says which way, as in 1.18x faster.

A gain and a loss thus never look alike, whichever way a metric is better. A time is faster or slower; any other metric
is lower or higher; where the metric is not known, it is better or worse.
"""

from __future__ import annotations

from pytest_compileiq.model import Direction, tail_of

_LEAST = 1e-9  # the smallest speed-up that is shown; a committed one is untrusted, and may be 0
_TIMES = frozenset({"runtime", "compile_time"})
Words = tuple[str, str]  # what a gain is called, and what a loss is
BETTER_WORSE: Words = ("better", "worse")


def words_for(metric: str, direction: Direction) -> Words:
    """What a metric's gain and its loss are called."""
    if tail_of(metric)[0] in _TIMES:
        return "faster", "slower"
    return ("lower", "higher") if direction == "minimize" else ("higher", "lower")


def ratio_text(speedup: float, words: Words = BETTER_WORSE) -> str:
    """``1.181x faster`` or ``1.101x slower``, of a speed-up that is above 1 where the metric is better."""
    speedup = max(speedup, _LEAST)
    return f"{speedup:.3f}x {words[0]}" if speedup >= 1 else f"{1 / speedup:.3f}x {words[1]}"


def interval_text(low: float, high: float, words: Words = BETTER_WORSE) -> str:
    """``1.020 to 1.036``, of an interval of speed-ups; one that contains 1 has a word at each end."""
    low, high = max(low, _LEAST), max(high, _LEAST)
    if low >= 1:
        return f"{low:.3f} to {high:.3f}"
    if high <= 1:
        return f"{1 / high:.3f} to {1 / low:.3f}"
    return f"{ratio_text(low, words)} to {ratio_text(high, words)}"
