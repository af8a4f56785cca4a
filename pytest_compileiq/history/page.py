"""A history as markup: a page of its own, and its part of a run's page; and its sentences in a review."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_compileiq.history.report import (
    COLUMNS,
    MOST_SHOWN,
    rows,
    rows_of,
    shift_text,
    summary,
    summary_of,
    title_of,
)
from pytest_compileiq.history.series import Lifetime, Series, added_series, of_artifact
from pytest_compileiq.report.committed import MAX_CHARTED_CLAIMS
from pytest_compileiq.report.html.charts import (
    ARMS,
    LEFT,
    MAX_POINTS,
    RIGHT,
    WIDTH,
    Chart,
    Scale,
    Unit,
    all_drawable,
    drawing,
    label,
    limits_within,
    percent_off,
    pixels,
    unit_for,
    y_axis,
)
from pytest_compileiq.report.html.markup import MAX_ROWS, Html, document, table, tag
from pytest_compileiq.rules.diff import Change
from pytest_compileiq.spelling import MOST_NAMED, quantity
from pytest_compileiq.store.store import Store


@dataclass(frozen=True)
class Watched:
    """One run of a history: its day, and each arm's value in the metric's unit."""

    day: str
    baseline: float
    tuned: float


def series_parts(line: Series, ident: str) -> list[Html]:
    """The sentences about a line, and its plot; ``ident`` is a prefix of element ids, unique in the page."""
    parts = [tag("p", f"History: {summary_of(line)}")]
    if earlier := [tag("li", shift_text(line, move)) for move in line.moves[:-1]]:
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


def with_history(changes: Sequence[Change], store: Store) -> tuple[Change, ...]:
    """The changes, each with a sentence a line of its artifact."""
    lines = added_series(store, {change.name for change in changes})
    return tuple(
        replace(change, history=tuple(_sentences(of_artifact(lines, change.name, change.target)))) for change in changes
    )


def _sentences(lines: Sequence[Series]) -> Iterator[str]:
    for line in lines[:MOST_NAMED]:
        yield f"{line.newest.objective} on {line.newest.device}, {line.newest.workload}: {summary_of(line)}"
    if len(lines) > MOST_NAMED:
        yield f"and {quantity(len(lines) - MOST_NAMED, 'more line')}: acf history"


def page_parts(store: Store, names: Collection[str]) -> Callable[[str, str, str], list[Html]]:
    """(artifact, target, prefix of ids) → what a page says of its history."""
    lines = added_series(store, names)

    def parts(name: str, target: str, ident: str) -> list[Html]:
        own = of_artifact(lines, name, target)[:MAX_CHARTED_CLAIMS]
        return [part for number, line in enumerate(own) for part in series_parts(line, f"{ident}-{number}h")]

    return parts


_COLUMNS = ("Date", "Baseline", "Tuned", "Ratio", "Verdict", "Compiler", "Driver", "Machine code", "Commit")


def history_page(lines: Sequence[Series], lifetimes: Sequence[Lifetime]) -> str:
    """A page of its own for ``lines``. Their texts are untrusted and escaped."""
    articles = []
    for number, line in enumerate(lines):
        newest = [list(row) for row in rows_of(line, line.observations[-MOST_SHOWN:])]
        articles.append(tag("article", tag("h2", title_of(line)), *series_parts(line, f"line-{number}"),
                            table("The newest runs", _COLUMNS, newest)))  # fmt: skip
    if lifetimes:
        caption = f"The newest {MAX_ROWS} of {len(lifetimes)} proofs" if len(lifetimes) > MAX_ROWS else "Every proof"
        shown = table(caption, [*map(str.capitalize, COLUMNS)], rows(lifetimes)[:MAX_ROWS])
        heading = tag("h2", "How long artifacts hold"), tag("p", summary(lifetimes))
        articles.insert(0, tag("article", *heading, shown))
    title = "Compiler controls over time"
    main = tag("main", *(articles or [tag("p", "Nothing was measured yet.")]))
    return document(title, tag("body", tag("header", tag("h1", title)), main))
