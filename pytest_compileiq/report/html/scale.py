"""Axes and units of charts: values to pixels, round ticks, SI prefixes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_compileiq.model import tail_of
from pytest_compileiq.rules.slots import quantile

DRAWABLE = 1e100  # beyond it a span, a sum or a square may overflow
_UNITS = {"runtime": "s", "compile_time": "s", "energy": "J"}
_PREFIXES = ((1e-9, "n"), (1e-6, "µ"), (1e-3, "m"), (1.0, ""))
_STEPS = (1.0, 2.0, 5.0, 10.0)
_PADDING = 0.06


@dataclass(frozen=True)
class Unit:
    """A unit of ``size`` base units, e.g. 1e-6 and µs: ``value / size`` is the number to show."""

    size: float
    name: str

    def text(self, value: float) -> str:
        """Four significant digits and the unit."""
        return f"{value / self.size:.4g} {self.name}".rstrip()


def unit_for(objective: str, magnitude: float) -> Unit:
    """The SI unit in which ``magnitude`` is at least 1; no unit for an objective that has none."""
    measured, _ = tail_of(objective)
    if measured not in _UNITS:
        return Unit(1.0, "")
    size, prefix = next(
        ((size, prefix) for size, prefix in reversed(_PREFIXES) if abs(magnitude) >= size), _PREFIXES[0]
    )
    return Unit(size, prefix + _UNITS[measured])


@dataclass(frozen=True)
class Scale:
    """A linear axis from ``low`` to ``high`` onto pixels ``start`` to ``end``; values beyond it stay at the edge."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of ``value``."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def beyond(self, values: Sequence[float]) -> int:
        """The number of values that lie beyond the axis."""
        return sum(not self.low <= value <= self.high for value in values)

    def ticks(self, wanted: int, unit: Unit) -> list[tuple[float, str]]:
        """About ``wanted`` round values within the axis, each with its text in ``unit``."""
        low, high = self.low / unit.size, self.high / unit.size
        rough = (high - low) / wanted
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in _STEPS if power * factor >= rough * 0.999)
        decimals = max(0, -math.floor(math.log10(step)))
        first = math.ceil(low / step)
        numbers = [(first + index) * step for index in range(2 * wanted) if (first + index) * step <= high]
        is_plain = 1e-9 < step < 1e6
        return [(tick * unit.size, f"{tick:.{decimals}f}" if is_plain else f"{tick:.4g}") for tick in numbers]


def drawable(values: Sequence[float]) -> bool:
    """Whether a chart can show these values."""
    return bool(values) and all(abs(value) < DRAWABLE for value in values)


def limits_within(groups: Sequence[Sequence[float]], *, tail: float) -> tuple[float, float]:
    """Limits that hold each group except a share of ``tail`` at either end, whose outliers could squeeze the rest."""
    ordered = [sorted(group) for group in groups]
    low = min(quantile(group, tail) for group in ordered)
    high = max(quantile(group, 1 - tail) for group in ordered)
    return padded(low, high)


def limits_by_fences(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Limits that hold each group up to its far fences, 3 times the interquartile range away (Tukey 1977, 2D)."""
    lows, highs = [], []
    for group in map(sorted, groups):
        first, third = quantile(group, 0.25), quantile(group, 0.75)
        reach = 3 * (third - first) or math.inf
        lows.append(max(group[0], first - reach))
        highs.append(min(group[-1], third + reach))
    return padded(min(lows), max(highs))


def padded(low: float, high: float) -> tuple[float, float]:
    """Limits with room at both ends, and never equal."""
    room = max((high - low) * _PADDING, max(abs(low), abs(high)) * 1e-6, 1e-30)
    return low - room, high + room


def percent_off(value: float, middle: float) -> float:
    """By how many per cent ``value`` is above ``middle``."""
    return 100 * (value - middle) / middle
