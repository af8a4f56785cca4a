"""What every chart is drawn with: a frame that says in words what it shows, axes, labels, points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_compileiq.report.html.markup import Html, join, tag
from pytest_compileiq.report.html.scale import Scale, Unit

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
