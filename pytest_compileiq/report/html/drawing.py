"""What every chart is drawn with: a frame that says in words what it shows, axes, labels, points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_compileiq.model import tail_of
from pytest_compileiq.report.html.markup import Html, join, tag
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


WIDTH = 400
LEFT, RIGHT = 52.0, 10.0


@dataclass(frozen=True)
class Chart:
    """The drawing, and a note of what it leaves out; empty if it shows everything."""

    svg: Html
    note: str = ""


def drawing(ident: str, height: int, title: str, description: str, *parts: str) -> Html:
    """A chart ``height`` units high: its parts, and its ``title`` and ``description`` for who does not see them."""
    return tag(
        "svg", tag("title", title, id=f"{ident}-t"), tag("desc", description, id=f"{ident}-d"), *parts,
        class_="chart", viewBox=f"0 0 {WIDTH} {height}", role="img", aria_labelledby=f"{ident}-t",
        aria_describedby=f"{ident}-d",
    )  # fmt: skip


def x_axis(scale: Scale, unit: Unit, name: str, *, y: float) -> Html:
    """A horizontal axis at ``y`` with its ticks, and what it is of."""
    ticks = scale.ticks(5, unit)
    marks = tag("path", class_="axis", d=f"M{scale.start} {y}H{scale.end}" + "".join(
        f"M{pixels(scale(at))} {y}v4" for at, _ in ticks))  # fmt: skip
    texts = [label(scale(at), y + 15, text, "middle") for at, text in ticks]
    return join([marks, *texts, label(WIDTH / 2, y + 29, with_unit(name, unit), "middle")])


def y_axis(scale: Scale, unit: Unit) -> Html:
    """The lines of a grid and their values, at the left."""
    ticks = scale.ticks(3, unit)
    lines = tag("path", class_="grid", d="".join(f"M{LEFT} {pixels(scale(at))}H{WIDTH - RIGHT}" for at, _ in ticks))
    texts = [label(LEFT - 5, scale(at) + 4, f"{text} {unit.name}".rstrip(), "end") for at, text in ticks]
    return join([lines, *texts])


def label(x: float, y: float, text: str, anchor: str) -> Html:
    """Text at a point; ``anchor`` is ``start``, ``middle`` or ``end``."""
    return tag("text", text, x=pixels(x), y=pixels(y), text_anchor=anchor)


def dotted(points: Iterable[tuple[float, float]]) -> str:
    """Points as subpaths of length 0, which line caps make visible: the smallest markup for them."""
    return "".join(f"M{pixels(x)} {pixels(y)}h0" for x, y in points)


def pixels(number: float) -> str:
    """A coordinate, as short as a tenth of a unit allows."""
    return f"{number:.1f}".removesuffix(".0")


def with_unit(name: str, unit: Unit) -> str:
    """``runtime, µs``."""
    return f"{name}, {unit.name}" if unit.name else name
