"""``acf diff`` for a pull request. Texts of artifacts are in code spans, where nothing is markup, mention or link."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_compileiq.report.change import NOT_CHECKED, Fact, counts_text, facts, gain_text, new_classes_text, sure_text
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
