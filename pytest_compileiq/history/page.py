"""A history as markup: a page of its own, and its part of a run's page; and its sentences in a review."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

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
from pytest_compileiq.model import ARMS
from pytest_compileiq.report.committed import MAX_CHARTED_CLAIMS
from pytest_compileiq.report.html.charts import (
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
from pytest_compileiq.report.html.sections import figures
from pytest_compileiq.rules.diff import Change
from pytest_compileiq.spelling import MOST_NAMED, quantity
from pytest_compileiq.store.store import Store


def series_parts(line: Series, ident: str) -> list[Html]:
    """The sentences about a series, and its plot; ``ident`` is a prefix of element ids, unique in the page."""
    parts = [tag("p", f"History: {summary_of(line)}")]
    if earlier := [tag("li", shift_text(line, shift)) for shift in line.shifts[:-1]]:
        parts.append(tag("ul", *earlier, class_="notes", aria_label="Earlier moves"))
    if chart := over_time(line, ident):
        parts.append(figures((chart, "Over time")))
    return parts


def over_time(line: Series, ident: str) -> Chart | None:
    """Each arm over the runs, in per cent of its first one, a bar at each shift; None if there is nothing to draw."""
    runs, objective = line.observations, line.newest.objective
    drawn = runs[-MAX_POINTS:]
    arms = {arm: [getattr(run, arm) for run in drawn] for arm in ARMS}
    if len(drawn) < 2 or not all_drawable(arms):
        return None
    percent = {arm: [percent_off(value, values[0]) for value in values] for arm, values in arms.items()}
    places = Scale(0, len(drawn) - 1, LEFT + 6, WIDTH - RIGHT - 6)
    up = Scale(*limits_within(list(percent.values()), tail=0.0), 132, 22)
    hidden = len(runs) - len(drawn)
    bars = "".join(f"M{pixels(places(each.at - hidden))} 22V132" for each in line.shifts if each.at >= hidden)
    parts = [tag("path", class_="axis", d=bars)] if bars else []
    for arm, values in percent.items():
        steps = "L".join(f"{pixels(places(at))} {pixels(up(value))}" for at, value in enumerate(values))
        parts.append(tag("path", class_=f"median {arm}", d=f"M{steps}"))
    unit = unit_for(objective, arms["tuned"][-1])
    ends = "; ".join(
        f"{arm}: {unit.text(values[0])} at first, {unit.text(values[-1])} now" for arm, values in arms.items()
    )
    moves = quantity(len(line.shifts), "move")
    svg = drawing(
        ident, 168, "Both arms over time", f"{ends}; {moves}.", y_axis(up, Unit(1.0, "%")), *parts,
        label(LEFT, 12, f"{objective}, against the first run", "start"),
        label(LEFT, 150, drawn[0].date[:10], "start"), label(WIDTH - RIGHT, 150, drawn[-1].date[:10], "end"),
    )  # fmt: skip
    return Chart(svg, f"the last {len(drawn)} of {len(runs)} runs" if len(drawn) < len(runs) else "")


def with_history(changes: Sequence[Change], store: Store) -> tuple[Change, ...]:
    """The changes, each with a sentence for every series of its artifact."""
    lines = added_series(store, {change.name for change in changes})
    reviewed = []
    for change in changes:
        own = of_artifact(lines, change.name, change.target)
        told = [f"{each.newest.objective} on {each.newest.device}, {each.newest.workload}: {summary_of(each)}"
                for each in own[:MOST_NAMED]]  # fmt: skip
        if len(own) > MOST_NAMED:
            told.append(f"and {quantity(len(own) - MOST_NAMED, 'more line')}: acf history")
        reviewed.append(replace(change, history=tuple(told)))
    return tuple(reviewed)


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
