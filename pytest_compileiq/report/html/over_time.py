"""A line of a history as a part of a page: sentences, and a plot of both arms."""

from __future__ import annotations

from pytest_compileiq.history.lines import Line
from pytest_compileiq.report.history import move_text, summary_of
from pytest_compileiq.report.html.charts import Watched, over_time
from pytest_compileiq.report.html.markup import Html, tag


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
