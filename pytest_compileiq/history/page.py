"""The lines of a history on a page: a sentence, a plot of both arms, a table."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_compileiq.history.lifetimes import Lifetime
from pytest_compileiq.history.lifetimes_report import COLUMNS, rows, summary
from pytest_compileiq.history.lines import Line
from pytest_compileiq.history.plot import line_parts
from pytest_compileiq.history.report import MOST_SHOWN, rows_of, title_of
from pytest_compileiq.report.html.markup import tag
from pytest_compileiq.report.html.page import document
from pytest_compileiq.report.html.sections import MAX_ROWS, table

_COLUMNS = ("Date", "Baseline", "Tuned", "Ratio", "Verdict", "Compiler", "Driver", "Machine code", "Commit")


def history_page(lines: Sequence[Line], lifetimes: Sequence[Lifetime]) -> str:
    """A page of its own for ``lines``. Their texts are untrusted and escaped."""
    articles = []
    for number, line in enumerate(lines):
        newest = [list(row) for row in rows_of(line, line.observations[-MOST_SHOWN:])]
        articles.append(tag("article", tag("h2", title_of(line)), *line_parts(line, f"line-{number}"),
                            table("The newest runs", _COLUMNS, newest)))  # fmt: skip
    if lifetimes:
        caption = f"The newest {MAX_ROWS} of {len(lifetimes)} proofs" if len(lifetimes) > MAX_ROWS else "Every proof"
        shown = table(caption, [*map(str.capitalize, COLUMNS)], rows(lifetimes)[:MAX_ROWS])
        heading = tag("h2", "How long artifacts hold"), tag("p", summary(lifetimes))
        articles.insert(0, tag("article", *heading, shown))
    title = "Compiler controls over time"
    main = tag("main", *(articles or [tag("p", "Nothing was measured yet.")]))
    return document(title, tag("body", tag("header", tag("h1", title)), main))
