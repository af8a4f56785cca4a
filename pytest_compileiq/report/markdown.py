"""GitHub's Markdown: the comment of ``acf diff``, a run's annotations and job summary. Texts are in code spans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_compileiq.outcome import ItemReport, RunReport, Verdict
from pytest_compileiq.report.change import NOT_CHECKED, Fact, counts_text, facts, gain_text, new_classes_text, sure_text
from pytest_compileiq.report.claims import located
from pytest_compileiq.report.terminal import headline_text
from pytest_compileiq.rules.diff import Change
from pytest_compileiq.system.printing import harmless

MOST_CHARACTERS = 60_000  # a comment on GitHub holds 65,536
_MOST_WIDENED = 8_000  # of them for classes gained
_PLAIN = re.compile(r"(?!.*(?:www\.|://))(?:[A-Za-z0-9 ,.;:()%'/+=→-]|(?<=[a-z])_(?=[a-z]))*", re.IGNORECASE)
_COLUMNS = ("", "artifact", "gain over the defaults (95 % interval)", "on", "how sure", "to look at")


def markdown_text(base: str, head: str, changes: Sequence[Change], strays: Sequence[str]) -> str:
    """The comparison as GitHub's Markdown of at most ``MOST_CHARACTERS``; what does not fit is counted."""
    widened = [change for change in changes if change.classes_gained]
    first, told = _fitting(map(_widened, widened), _MOST_WIDENED)
    first += _more(len(widened) - told)
    title = f"{first}\n### Tuned kernels: {counts_text(changes)}\n\n{code(base)} → {code(head)}\n\n".lstrip()
    closing = f"\n{NOT_CHECKED}\n" if changes or strays else ""
    room = MOST_CHARACTERS - len(title) - len(closing) - 400
    table, in_table = _fitting(map(_row, changes), room // 2)
    head_rows = f"| {' | '.join(_COLUMNS)} |\n|{' --- |' * len(_COLUMNS)}\n" if changes else ""
    details, in_details = _fitting(map(_details, changes), room - len(table) - len(head_rows))
    details += _more(len(changes) - min(in_table, in_details))
    outside, in_outside = _fitting((f"- **stray**: {code(path)} belongs to no artifact\n" for path in strays), 2_000)
    details += outside + _more(len(strays) - in_outside)
    return f"{title}{head_rows}{table}\n{details}{closing}"


def code(text: str, *, in_table: bool = False) -> str:
    """``text`` as a code span; in a table a bar becomes an escape, since it would end the cell."""
    text = harmless(text)
    if in_table:
        text = text.replace("|", "\\x7c")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    padding = " " if text[:1] in ("`", " ") or text[-1:] in ("`", " ") else ""
    return f"{fence}{padding}{text or ' '}{padding}{fence}"


def prose(text: str, *, in_table: bool = False) -> str:
    """``text`` unchanged if none of it can be markup, else as a code span."""
    return text if _PLAIN.fullmatch(text) else code(text, in_table=in_table)


def _widened(change: Change) -> str:
    return f"- {code(change.name)} {code(change.target)}: **{prose(new_classes_text(change))}**\n"


def _row(change: Change) -> str:
    claim = (change.lead.new or change.lead.old) if change.lead else None
    loud = [fact for fact in facts(change) if fact.loud]
    cells = (
        f"**{change.kind}**",
        f"{code(change.name, in_table=True)} {code(change.target, in_table=True)}",
        prose("; ".join(filter(None, (gain_text(change), change.judgement))), in_table=True),
        code(f"{claim.device}, {claim.workload}", in_table=True) if claim else "",
        prose(sure_text(claim), in_table=True),
        ", ".join(f"**{fact.label}**" for fact in loud),
    )
    return f"| {' | '.join(cells)} |\n"


def _details(change: Change) -> str:
    shown, folded = ([fact for fact in facts(change) if fact.folded is wanted] for wanted in (False, True))
    lines, body = ([_item(fact, line) for fact in part for line in fact.lines] for part in (shown, folded))
    name = f"#### {code(change.name)} {code(change.target)}: {change.kind}\n\n"
    rest = ["\n<details><summary>what changed</summary>\n\n", *body, "\n</details>\n\n"] if body else ["\n"]
    return "".join([name, *lines, *rest])


def _item(fact: Fact, line: str) -> str:
    return f"- {f'**{fact.label}**' if fact.loud else fact.label}: {prose(line)}\n"


def _fitting(parts: Iterator[str], room: int) -> tuple[str, int]:
    """The parts that fit into ``room`` characters, joined, and their number."""
    kept: list[str] = []
    for part in parts:
        room -= len(part)
        if room < 0:
            break
        kept.append(part)
    return "".join(kept), len(kept)


def _more(count: int) -> str:
    return f"\n{count} more do not fit here: run acf diff.\n\n" if count else ""


MOST_ANNOTATIONS = 10  # per level and step: GitHub drops any more
MOST_ROWS = 500
MOST_RESULTS = 9  # per artifact
_REPLAYED = frozenset({Verdict.PROVEN, Verdict.REPLAYED})
_RUN_COLUMNS = ("artifact", "verdict", "against the baseline", "found", "not checked in this run")


@dataclass(frozen=True)
class TunedTest:
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


def annotation_lines(outcomes: Sequence[TunedTest], problems: Sequence[str]) -> Iterator[str]:
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


def _annotation(outcome: TunedTest) -> _Annotation | None:
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
        yield f"| {' | '.join(_RUN_COLUMNS)} |"
        yield f"|{' --- |' * len(_RUN_COLUMNS)}"
    yield from map(_run_row, items[:MOST_ROWS])
    if len(items) > MOST_ROWS:
        yield f"\n{len(items) - MOST_ROWS} more do not fit here: see pytest --acf-html."


def _run_row(item: ItemReport) -> str:
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
