"""GitHub's Markdown: the comment of ``acf diff``, a run's annotations and job summary. Texts are in code spans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_compileiq.outcome import ItemReport, RunReport, TunedTest, Verdict
from pytest_compileiq.report.change import NOT_CHECKED, counts_text, facts, gain_text, new_classes_text, sure_text
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
    lines = (
        f"- {code(change.name)} {code(change.target)}: **{prose(new_classes_text(change))}**\n" for change in widened
    )
    first, told = _fitting(lines, _MOST_WIDENED)
    first += _more(len(widened) - told)
    title = f"{first}\n### Tuned kernels: {counts_text(changes)}\n\n{code(base)} → {code(head)}\n\n".lstrip()
    closing = f"\n{NOT_CHECKED}\n" if changes or strays else ""
    room = MOST_CHARACTERS - len(title) - len(closing) - 400
    table, in_table = _fitting(map(_row, changes), room // 2)
    head_rows = _table_head(_COLUMNS) if changes else ""
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


def _row(change: Change) -> str:
    claim = (change.lead.new or change.lead.old) if change.lead else None
    return _table_row(
        f"**{change.kind}**",
        f"{code(change.name, in_table=True)} {code(change.target, in_table=True)}",
        prose("; ".join(filter(None, (gain_text(change), change.judgement))), in_table=True),
        code(f"{claim.device}, {claim.workload}", in_table=True) if claim else "",
        prose(sure_text(claim), in_table=True),
        ", ".join(f"**{fact.label}**" for fact in facts(change) if fact.loud),
    )


def _table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _table_head(columns: Sequence[str]) -> str:
    return f"{_table_row(*columns)}|{' --- |' * len(columns)}\n"


def _details(change: Change) -> str:
    shown, folded = "", ""
    for fact in facts(change):
        label = f"**{fact.label}**" if fact.loud else fact.label
        items = "".join(f"- {label}: {prose(line)}\n" for line in fact.lines)
        shown, folded = (shown, folded + items) if fact.folded else (shown + items, folded)
    rest = f"\n<details><summary>what changed</summary>\n\n{folded}\n</details>\n\n" if folded else "\n"
    return f"#### {code(change.name)} {code(change.target)}: {change.kind}\n\n{shown}{rest}"


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


def annotation_lines(tests: Sequence[TunedTest], problems: Sequence[str]) -> Iterator[str]:
    """Workflow commands, one per line: errors for failures, warnings for decay and for what was not checked.

    ``problems`` are those of the store's files, which belong to no test's line.
    """
    found: dict[str, list[str]] = {"error": [], "warning": []}
    for test in tests:
        item = test.item
        title = " ".join((item.name, item.target, item.verdict)) if item else test.nodeid
        level, text = "warning", "\n".join(_warnings(item)) if item else ""
        if test.failure:
            said = (item.message, item.remedy) if item and item.failed else (test.failure,)
            level, text = "error", "\n".join(filter(None, said))
        if text or test.failure:
            where = f"file={_property(test.file)},line={test.line}," if test.file else ""
            found[level].append(_annotation(level, title, text, where))
    found["error"] += (_annotation("error", "acf: unhealthy file", problem) for problem in problems)
    for level, lines in found.items():
        shown = lines if len(lines) <= MOST_ANNOTATIONS else lines[: MOST_ANNOTATIONS - 1]
        yield from shown
        if rest := len(lines) - len(shown):
            yield _annotation(level, "acf", f"{rest} more {level}s: see the job summary")


def _annotation(level: str, title: str, message: str, where: str = "") -> str:
    return f"::{level} {where}title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _warnings(item: ItemReport) -> list[str]:
    """The warnings of a test that passed: a lenient verdict, a decayed gain, checks that did not run."""
    lenient = [item.message] if item.remedy else []
    return [*lenient, *(item.notes if item.verdict in _REPLAYED else ()), *_unchecked(item)]


def _unchecked(item: ItemReport) -> list[str]:
    return [f"{check.name}: not checked: {check.detail}" for check in item.checks if check.status == "not run"]


def summary_text(report: RunReport) -> str:
    """The job summary as GitHub's Markdown; empty if there is nothing to report."""
    if not (report.items or report.store_problems or report.orphans):
        return ""
    items = sorted(report.items, key=lambda item: (not item.failed, item.name, item.target))
    by_verdict = Counter(item.verdict for item in items)
    counts = ", ".join(f"{count} {prose(verdict)}" for verdict, count in by_verdict.items())
    text = f"### Compiler controls: {counts or 'no tuned test ran'}\n\n"
    if items:
        text += _table_head(_RUN_COLUMNS)
    for item in items[:MOST_ROWS]:
        results = (headline_text(item), *(located(each, item.results) for each in item.results[1:MOST_RESULTS]))
        found = filter(None, (item.message, item.remedy, *item.notes))
        text += _table_row(
            f"{code(item.name, in_table=True)} {code(item.target, in_table=True)}",
            f"**{prose(item.verdict, in_table=True)}**",
            *("; ".join(prose(each, in_table=True) for each in texts) for texts in (results, found, _unchecked(item))),
        )
    if len(items) > MOST_ROWS:
        text += f"\n{len(items) - MOST_ROWS} more do not fit here: see pytest --acf-html.\n"
    for label, texts in (("unhealthy", report.store_problems), ("no test claims", report.orphans)):
        text += "".join(f"\n- **{label}**: {code(each)}\n" for each in texts)
    return text
