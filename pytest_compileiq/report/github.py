"""A run for GitHub: annotations on the tests' lines, and the job summary. Texts in the report are untrusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_compileiq.outcome import ItemReport, RunReport, Verdict
from pytest_compileiq.report.markdown import code, prose
from pytest_compileiq.report.results import located
from pytest_compileiq.report.terminal import headline_text

MOST_ANNOTATIONS = 10  # per level and step: GitHub drops any more
MOST_ROWS = 500
MOST_RESULTS = 9  # per artifact
_REPLAYED = frozenset({Verdict.PROVEN, Verdict.REPLAYED})
_COLUMNS = ("artifact", "verdict", "against the baseline", "found", "not checked in this run")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a tuned test, and the test's place.

    Attributes:
        file: path from the repository's root.
        line: from 1.
        failure: pytest's text of the failure; empty if the test did not fail.
        item: the test's report; None if it came to no verdict.
    """

    nodeid: str
    file: str
    line: int
    failure: str
    item: ItemReport | None


@dataclass(frozen=True)
class _Annotation:
    level: str
    title: str
    message: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = f"file={_property(self.file)},line={self.line}," if self.file else ""
        return f"::{self.level} {where}title={_property(self.title)}::{_data(self.message)}"


def annotation_lines(outcomes: Sequence[Outcome], problems: Sequence[str]) -> Iterator[str]:
    """Workflow commands, one per line: errors for failures, warnings for what decayed or was not checked.

    ``problems`` are those of the store's files, which belong to no test's line.
    """
    annotations = [annotation for outcome in outcomes if (annotation := _annotation(outcome))]
    annotations += [_Annotation("error", "acf: unhealthy file", problem) for problem in problems]
    for level in ("error", "warning"):
        of_level = [annotation for annotation in annotations if annotation.level == level]
        shown = of_level if len(of_level) <= MOST_ANNOTATIONS else of_level[: MOST_ANNOTATIONS - 1]
        yield from map(str, shown)
        if rest := len(of_level) - len(shown):
            yield str(_Annotation(level, "acf", f"{rest} more {level}s: see the job summary"))


def _annotation(outcome: Outcome) -> _Annotation | None:
    item = outcome.item
    title = " ".join((item.name, item.target, item.verdict)) if item else outcome.nodeid
    if outcome.failure:
        text = "\n".join(filter(None, (item.message, item.remedy))) if item and item.failed else outcome.failure
        return _Annotation("error", title, text, outcome.file, outcome.line)
    warnings = _to_know(item) if item else []
    return _Annotation("warning", title, "\n".join(warnings), outcome.file, outcome.line) if warnings else None


def _to_know(item: ItemReport) -> list[str]:
    """The warnings of a test that passed: a lenient verdict, a decayed gain, what was not checked."""
    lenient = [item.message] if item.remedy else []
    notes = item.notes if item.verdict in _REPLAYED else ()
    return [*lenient, *notes, *_unchecked(item)]


def _unchecked(item: ItemReport) -> list[str]:
    return [f"{check.name}: not checked: {check.detail}" for check in item.checks if check.status == "not run"]


def summary_text(report: RunReport) -> str:
    """The job summary as GitHub's Markdown; empty if there is nothing to report."""
    if not (report.items or report.store_problems or report.orphans):
        return ""
    items = sorted(report.items, key=lambda item: (not item.failed, item.name, item.target))
    by_verdict = Counter(item.verdict for item in items)
    counts = ", ".join(f"{count} {prose(verdict)}" for verdict, count in by_verdict.items())
    return "\n".join([f"### Compiler controls: {counts or 'no tuned test ran'}\n", *_table(items), *_rest(report), ""])


def _table(items: Sequence[ItemReport]) -> Iterator[str]:
    if items:
        yield f"| {' | '.join(_COLUMNS)} |"
        yield f"|{' --- |' * len(_COLUMNS)}"
    yield from map(_row, items[:MOST_ROWS])
    if len(items) > MOST_ROWS:
        yield f"\n{len(items) - MOST_ROWS} more do not fit here: see pytest --acf-html."


def _row(item: ItemReport) -> str:
    cells = (
        f"{code(item.name, in_table=True)} {code(item.target, in_table=True)}",
        f"**{prose(item.verdict, in_table=True)}**",
        "; ".join(prose(text, in_table=True) for text in _results(item)),
        "; ".join(prose(text, in_table=True) for text in (item.message, item.remedy, *item.notes) if text),
        "; ".join(prose(text, in_table=True) for text in _unchecked(item)),
    )
    return f"| {' | '.join(cells)} |"


def _results(item: ItemReport) -> list[str]:
    return [headline_text(item), *(located(result, item.results) for result in item.results[1:MOST_RESULTS])]


def _rest(report: RunReport) -> Iterator[str]:
    for label, texts in (("unhealthy", report.store_problems), ("no test claims", report.orphans)):
        yield from (f"\n- **{label}**: {code(text)}" for text in texts)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
