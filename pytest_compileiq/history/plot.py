"""A line of a history as a part of a page: sentences, and a plot of both arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_compileiq.history.lines import Line
from pytest_compileiq.history.report import move_text, summary_of
from pytest_compileiq.report.html.charts import ARMS, MAX_POINTS, all_drawable
from pytest_compileiq.report.html.drawing import (
    LEFT,
    RIGHT,
    WIDTH,
    Chart,
    Scale,
    Unit,
    drawing,
    label,
    limits_within,
    percent_off,
    pixels,
    unit_for,
    y_axis,
)
from pytest_compileiq.report.html.markup import Html, tag
from pytest_compileiq.spelling import quantity


@dataclass(frozen=True)
class Watched:
    """One run of a history: its day, and each arm's value in the metric's unit."""

    day: str
    baseline: float
    tuned: float


def line_parts(line: Line, ident: str) -> list[Html]:
    """The sentences about a line, and its plot; ``ident`` is a prefix of element ids, unique in the page."""
    parts = [tag("p", f"History: {summary_of(line)}")]
    if earlier := [tag("li", move_text(line, move)) for move in line.moves[:-1]]:
        parts.append(tag("ul", *earlier, class_="notes", aria_label="Earlier moves"))
    watched = [Watched(each.date[:10], each.baseline, each.tuned) for each in line.observations]
    if chart := over_time(watched, [move.at for move in line.moves], line.newest.objective, ident):
        note = f" ({chart.note})" if chart.note else ""
        parts.append(tag("div", tag("figure", tag("figcaption", f"Over time{note}"), chart.svg), class_="figures"))
    return parts


def over_time(runs: Sequence[Watched], moved_at: Sequence[int], objective: str, ident: str) -> Chart | None:
    """Each arm over the runs, in per cent of its first one, a bar at each move; None if there is nothing to draw."""
    drawn = runs[-MAX_POINTS:]
    arms = {arm: [getattr(run, arm) for run in drawn] for arm in ARMS}
    if len(drawn) < 2 or not all_drawable(arms):
        return None
    percent = {arm: [percent_off(value, values[0]) for value in values] for arm, values in arms.items()}
    places = Scale(0, len(drawn) - 1, LEFT + 6, WIDTH - RIGHT - 6)
    up = Scale(*limits_within(list(percent.values()), tail=0.0), 132, 22)
    bars = "".join(
        f"M{pixels(places(at))} 22V132" for at in (at - len(runs) + len(drawn) for at in moved_at) if at >= 0
    )
    parts = [tag("path", class_="axis", d=bars)] if bars else []
    for arm, values in percent.items():
        steps = "L".join(f"{pixels(places(at))} {pixels(up(value))}" for at, value in enumerate(values))
        parts.append(tag("path", class_=f"median {arm}", d=f"M{steps}"))
    unit = unit_for(objective, arms["tuned"][-1])
    ends = "; ".join(
        f"{arm}: {unit.text(values[0])} at first, {unit.text(values[-1])} now" for arm, values in arms.items()
    )
    moves = quantity(len(moved_at), "move")
    svg = drawing(
        ident, 168, "Both arms over time", f"{ends}; {moves}.", y_axis(up, Unit(1.0, "%")), *parts,
        label(LEFT, 12, f"{objective}, against the first run", "start"),
        label(LEFT, 150, drawn[0].day, "start"), label(WIDTH - RIGHT, 150, drawn[-1].day, "end"),
    )  # fmt: skip
    return Chart(svg, f"the last {len(drawn)} of {len(runs)} runs" if len(drawn) < len(runs) else "")
