"""Charts as inline SVG: numbers in, markup out. Each also says in words what it shows, for screen readers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_compileiq.model import ARMS, Arm, tail_of
from pytest_compileiq.report.html.markup import Html, join, tag
from pytest_compileiq.rules.comparison import quantile

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
    return join([marks, *texts, label(WIDTH / 2, y + 29, f"{name}, {unit.name}" if unit.name else name, "middle")])


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


MAX_POINTS = 300  # per chart; of more, every n-th slot is drawn, and the note says so
_GOLDEN = 0.6180339887
Block = list[tuple[int, "ChartedSlot"]]  # one process: each slot with its place in the run


@dataclass(frozen=True)
class ChartedSlot:
    """One slot of the measurement; ``value`` is its samples' median, or the claimed tail, in the metric's unit."""

    process: int
    arm: Arm
    value: float
    dropped: bool = False


def distribution(slots: Sequence[ChartedSlot], objective: str, ident: str) -> Chart | None:
    """Each arm's slots as a strip with p5, p25, p50, p75 and p95; None if there is nothing to draw."""
    kept = _kept(slots)
    if not all(map(drawable, kept.values())):
        return None
    scale = Scale(*limits_within(list(kept.values()), tail=0.01), 12, WIDTH - 12)
    unit = _unit(kept, objective)
    drawn = _thinned(slots)
    rows = [
        _strip(arm, sorted(kept[arm]), _kept(drawn)[arm], scale, unit, top=6 + 62 * row) for row, arm in enumerate(ARMS)
    ]
    described = "; ".join(_in_words(arm, sorted(kept[arm]), unit) for arm in ARMS)
    axis = x_axis(scale, unit, objective, y=134)
    svg = drawing(ident, 170, "Distribution of the slots", f"{described}.", *rows, axis)
    return Chart(svg, _left_out(slots, drawn, sum(scale.beyond(values) for values in kept.values())))


def run_order(slots: Sequence[ChartedSlot], objective: str, ident: str) -> Chart | None:
    """Every slot in the order measured, in per cent of its arm's median, with each process's median.

    Each arm has its own panel, so drift shows as a slope however far apart the arms are. Both panels share one scale,
    so their spreads can be compared. None if there is nothing to draw.
    """
    kept = _kept(slots)
    if not all_drawable(kept):
        return None
    middles = {arm: quantile(sorted(kept[arm]), 0.5) for arm in ARMS}
    limits = limits_by_fences([[percent_off(value, middles[arm]) for value in kept[arm]] for arm in ARMS])
    drawn = _thinned(slots)
    unit = _unit(kept, objective)
    places = Scale(0, max(len(drawn) - 1, 1), LEFT + 6, WIDTH - RIGHT - 6)
    blocks = [list(block) for _, block in itertools.groupby(enumerate(drawn), key=lambda pair: pair[1].process)]
    panels, beyond = [], 0
    for row, arm in enumerate(ARMS):
        scale = Scale(*limits, 88 + 94 * row, 22 + 94 * row)
        beyond += scale.beyond([percent_off(value, middles[arm]) for value in kept[arm]])
        panels.append(_panel(arm, blocks, places, scale, middles[arm], unit))
    svg = drawing(
        ident, 206, "Slots in the order they were measured", _drift_in_words(slots, unit), *panels,
        label(WIDTH / 2, 200, f"{len(blocks)} processes, in the order they ran", "middle"),
    )  # fmt: skip
    return Chart(svg, _left_out(slots, drawn, beyond))


def interval(low: float, estimate: float, high: float, domain: tuple[float, float]) -> Html:
    """A speed-up and its interval on a logarithmic axis over ``domain``, which contains 1 and a line there."""
    scale = Scale(math.log(domain[0]), math.log(domain[1]), 6, 154)
    left, middle, right = (pixels(scale(math.log(max(value, domain[0])))) for value in (low, estimate, high))
    x_of_one = pixels(scale(0.0))
    return tag(
        "svg", tag("path", class_="one", d=f"M{x_of_one} 1V21"),
        tag("path", class_="whisker tuned", d=f"M{left} 11H{right}"),
        tag("path", class_="estimate tuned", d=f"M{middle} 3V19"),
        class_="interval", viewBox="0 0 160 22", aria_hidden="true", focusable="false",  # the numbers stand beside it
    )  # fmt: skip


def interval_domain(ratios: Sequence[float]) -> tuple[float, float]:
    """One axis for all intervals of a page; a ratio below 1/20 or above 20 stays at the edge."""
    usable = [min(max(ratio, 0.05), 20.0) for ratio in ratios]
    return min([0.98, *usable]) / 1.02, max([1.05, *usable]) * 1.02


def front(points: Sequence[tuple[float, float, bool]], names: tuple[str, str], ident: str) -> Chart | None:
    """Pareto points as (x, y, is committed), gains in two metrics; None if there is nothing to draw."""
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    if not drawable(xs) or not drawable(ys):
        return None
    times = Unit(1.0, "x")
    across = Scale(*padded(min(xs), max(xs)), LEFT + 8, WIDTH - RIGHT - 8)
    up = Scale(*padded(min(ys), max(ys)), 150, 22)
    series = [
        tag("path", class_=f"dots big {arm}", d=dotted((across(x), up(y)) for x, y, chosen in points if chosen is own))
        for arm, own in (("baseline", False), ("tuned", True))
    ]
    listed = "; ".join(
        f"{times.text(x)}, {times.text(y)}{' (committed)' if chosen else ''}" for x, y, chosen in points[:20]
    )
    title, described = f"Pareto front: {names[1]} against {names[0]}", f"{len(points)} points: {listed}."
    axis = x_axis(across, times, names[0], y=156)
    return _gains(ident, title, described, up, axis, join(series), f"{names[1]}, x")


def convergence(improvements: Sequence[tuple[int, float]], evaluations: int, ident: str) -> Chart | None:
    """The best gain so far after each evaluation, as a step line; None if there is nothing to draw."""
    gains = [1.0, *(gain for _, gain in improvements)]
    if not improvements or not drawable(gains):
        return None
    times = Unit(1.0, "x")
    across = Scale(0, max(evaluations, improvements[-1][0], 1), LEFT, WIDTH - RIGHT - 8)
    up = Scale(*padded(min(gains), max(gains)), 150, 22)
    steps = "".join(f"H{pixels(across(number))}V{pixels(up(gain))}" for number, gain in improvements)
    line = f"M{pixels(across(0))} {pixels(up(1.0))}{steps}H{pixels(across(evaluations))}"
    listed = "; ".join(f"{times.text(gain)} after {number}" for number, gain in improvements[-20:])
    title, described = "Convergence of the search", f"Best gain over the baseline so far: {listed} evaluations."
    axis = x_axis(across, Unit(1.0, ""), "evaluations", y=156)
    path = tag("path", class_="median tuned", d=line)
    return _gains(ident, title, described, up, axis, path, "best gain over the baseline so far")


def _gains(ident: str, title: str, described: str, up: Scale, axis: Html, drawn: Html, name: str) -> Chart:
    parts = y_axis(up, Unit(1.0, "x")), axis, drawn, label(LEFT, 12, name, "start")
    return Chart(drawing(ident, 192, title, described, *parts))


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _strip(
    arm: Arm, ordered: Sequence[float], values: Sequence[float], scale: Scale, unit: Unit, *, top: float
) -> Html:
    p5, p25, p50, p75, p95 = (pixels(scale(quantile(ordered, share))) for share in (0.05, 0.25, 0.5, 0.75, 0.95))
    y = top + 34
    # Jitter by multiples of the golden ratio: spread evenly, and the same on every run.
    dots = dotted((scale(value), y + 13 * ((index * _GOLDEN) % 1) + 2) for index, value in enumerate(values))
    box = f"M{p5} {y - 8}H{p25}M{p75} {y - 8}H{p95}M{p25} {y - 14}H{p75}V{y - 2}H{p25}Z"
    return join([
        tag("path", class_=f"dots small {arm}", d=dots),
        tag("path", class_=f"box {arm}", d=box),
        tag("path", class_=f"median {arm}", d=f"M{p50} {y - 16}V{y}"),
        label(12, top + 12, f"{arm}, median {unit.text(quantile(ordered, 0.5))}", "start"),
    ])  # fmt: skip


def _panel(arm: Arm, blocks: Sequence[Block], places: Scale, scale: Scale, middle: float, unit: Unit) -> Html:
    """One arm's slots in run order; every second process is shaded."""
    bands, medians, dots, lost = "", "", [], []
    for number, block in enumerate(blocks):
        left, right = pixels(places(block[0][0] - 0.5)), pixels(places(block[-1][0] + 0.5))
        if number % 2:
            bands += f"M{left} {pixels(scale.end)}H{right}V{pixels(scale.start)}H{left}Z"
        own = [
            (places(index), scale(percent_off(slot.value, middle)), slot) for index, slot in block if slot.arm == arm
        ]
        dots += [(x, y) for x, y, slot in own if not slot.dropped]
        lost += [(x, y) for x, y, slot in own if slot.dropped]
        if ordered := sorted(slot.value for _, _, slot in own if not slot.dropped):
            medians += f"M{left} {pixels(scale(percent_off(quantile(ordered, 0.5), middle)))}H{right}"
    return join([
        tag("path", class_="band", d=bands), y_axis(scale, Unit(1.0, "%")),
        tag("path", class_=f"dots {arm}", d=dotted(dots)), tag("path", class_="lost", d=dotted(lost)),
        tag("path", class_=f"median {arm}", d=medians),
        label(LEFT, scale.end - 6, f"{arm}, against its median of {unit.text(middle)}", "start"),
    ])  # fmt: skip


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_words(arm: Arm, ordered: Sequence[float], unit: Unit) -> str:
    p5, p50, p95 = (unit.text(quantile(ordered, share)) for share in (0.05, 0.5, 0.95))
    return f"{arm}: median {p50}, 5 % to 95 % from {p5} to {p95}, {len(ordered)} slots"


def _drift_in_words(slots: Sequence[ChartedSlot], unit: Unit) -> str:
    """Each arm's median in the first and in the last process."""
    ends = []
    for arm in ARMS:
        first, last = (
            sorted(slot.value for slot in slots if slot.process == process and _is(slot, arm))
            for process in (slots[0].process, slots[-1].process)
        )
        if first and last:
            middles = unit.text(quantile(first, 0.5)), unit.text(quantile(last, 0.5))
            ends.append(f"{arm}: median {middles[0]} in the first process, {middles[1]} in the last")
    return f"{'; '.join(ends)}."


def _left_out(slots: Sequence[ChartedSlot], drawn: Sequence[ChartedSlot], beyond: int) -> str:
    dropped = sum(slot.dropped for slot in slots)
    parts = [
        f"{beyond} beyond the axis, drawn at its edge" if beyond else "",
        f"{dropped} dropped" if dropped else "",
        f"{len(drawn)} of {len(slots)} slots drawn" if len(drawn) < len(slots) else "",
    ]
    return "; ".join(part for part in parts if part)


def _unit(kept: dict[Arm, list[float]], objective: str) -> Unit:
    return unit_for(objective, quantile(sorted(kept["tuned"]), 0.5))


def _kept(slots: Sequence[ChartedSlot]) -> dict[Arm, list[float]]:
    return {arm: [slot.value for slot in slots if _is(slot, arm)] for arm in ARMS}


def all_drawable(kept: dict[Arm, list[float]]) -> bool:
    """Whether a chart can show these values as shares of each other."""
    return all(drawable(values) and min(values) > 1 / DRAWABLE for values in kept.values())


def _is(slot: ChartedSlot, arm: Arm) -> bool:
    return slot.arm == arm and not slot.dropped


def _thinned(slots: Sequence[ChartedSlot]) -> Sequence[ChartedSlot]:
    stride = math.ceil(len(slots) / MAX_POINTS)
    return slots[:: stride | 1]  # odd: an even stride could pick the same arm of every quad
