"""A comparison with the baseline in words: the ratio is never below 1, and a word says which way, as in 1.18x faster.

A gain and a loss thus never look alike, whichever way a metric is better. A time is faster or slower; any other metric
is lower or higher; where the metric is not known, it is better or worse. Where values may be zero or negative no ratio
is shown: the difference is, in the metric's unit, as in lower by 0.32.
"""

from __future__ import annotations

import re

from pytest_compileiq.model import Direction, tail_of

_LEAST = 1e-9  # the smallest speed-up that is shown; a committed one is untrusted, and may be 0
_TIMES = frozenset({"runtime", "compile_time"})
_UUID = re.compile(r"((?:GPU|MIG|CPU)-[0-9a-f]{8})[0-9a-f-]+")
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


def gain_text(gain: float, scale: float | None, words: Words = BETTER_WORSE) -> str:
    """A gain, 1 being none: as a ratio, or where it is in units of ``scale``, by how much: ``lower by 0.32``."""
    if scale is None:
        return ratio_text(gain, words)
    return f"{words[0] if gain >= 1 else words[1]} by {number_text(abs(gain - 1) * scale)}"


def limits_text(low: float, high: float, scale: float | None, words: Words = BETTER_WORSE) -> str:
    """An interval of gains: of ratios, or of differences in the metric's unit, ``0.300 to 0.341``."""
    if scale is None:
        return interval_text(low, high, words)
    if low >= 1 or high <= 1:
        nearer, farther = sorted((abs(low - 1) * scale, abs(high - 1) * scale))
        return f"{number_text(nearer)} to {number_text(farther)}"
    return f"{gain_text(low, scale, words)} to {gain_text(high, scale, words)}"


def scope_text(
    devices: int, another: tuple[float, float] | None, scale: float | None = None, words: Words = BETTER_WORSE
) -> str:
    """Which devices a gain speaks for: ``on these 3 devices``, or for a fleet with the prediction of another one.

    Empty for one device. ``another`` is the prediction interval as gains, None where the devices are too few.
    """
    if devices < 2:
        return ""
    if another is None:
        return f"on these {devices} devices"
    return f"for the fleet ({devices} devices; another one: {limits_text(*another, scale, words)})"


def unit_text(unit: str) -> str:
    """What one specimen of a device is called, for people: ``GPU-1a2b3c4d`` of a UUID."""
    known = _UUID.fullmatch(unit)
    return known[1] if known else unit


def floor_text(gain: float, scale: float | None) -> str:
    """A least gain: ``1.005x``, or how much that is in the metric's unit."""
    return f"{gain:.3f}x" if scale is None else number_text((gain - 1) * scale)


def number_text(value: float) -> str:
    """A value in its own unit, to four digits."""
    return f"{value:.4g}"


def pair_texts(before: float, after: float) -> tuple[str, str]:
    """Two values that are compared exactly, by as many digits as it takes to tell them apart."""
    short = f"{before:.6g}", f"{after:.6g}"
    is_whole = isinstance(before, int) and isinstance(after, int)
    return (repr(before), repr(after)) if is_whole or (short[0] == short[1] and before != after) else short


def change_text(before: float, after: float) -> str:
    """Both values, as in ``0.91 → 0.94``."""
    return " → ".join(pair_texts(before, after))
