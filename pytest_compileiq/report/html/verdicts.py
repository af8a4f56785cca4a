"""The verdicts of a page: badges, the table with its filter, what was not checked, and the remedies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_compileiq.outcome import ItemReport, RunReport
from pytest_compileiq.report.claims import headline, located
from pytest_compileiq.report.html.charts import interval
from pytest_compileiq.report.html.markup import Html, join, tag
from pytest_compileiq.rules.words import interval_text, words_for
from pytest_compileiq.spelling import first_of, quantity

_MAX_LINES = 30
MAX_RESULTS = 30  # per artifact; the table of its claims has them all
_COLUMNS = ("Artifact", "Target", "Verdict", "Gain", "95 % interval", "Found")


def badge(item: ItemReport) -> Html:
    """The verdict as a word and a mark, so that it does not depend on colour."""
    if item.failed:
        kind, mark = "bad", "✗"
    elif item.verdict.tone == "good":
        kind, mark = "good", "✓"
    else:
        kind, mark = ("plain", "○") if item.verdict.tone == "plain" else ("warn", "!")
    return tag("span", tag("span", mark, aria_hidden="true"), " ", item.verdict, class_=f"badge {kind}")


def in_order(items: Sequence[ItemReport]) -> list[ItemReport]:
    """Failed items first, then those that are not proven, then by name."""
    return sorted(items, key=lambda item: (not item.failed, item.verdict.tone == "good", item.name, item.target))


def counted(items: Sequence[ItemReport]) -> str:
    """The items counted by verdict, e.g. ``12 PROVEN, 1 STALE``, the most frequent first."""
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(item.verdict for item in items).most_common())


def verdict_table(items: Sequence[ItemReport], idents: Sequence[str], domain: tuple[float, float]) -> Html:
    """The table, its filter, and the line that counts the rows shown; the table works without scripts."""
    head = [
        tag("th", tag("button", name, tag("span", "", class_="arrow", aria_hidden="true"), type="button"),
            scope="col", role="columnheader", aria_sort="none")
        for name in _COLUMNS
    ]  # fmt: skip
    rows = [_row(item, ident, domain) for item, ident in zip(items, idents, strict=True)]
    label = tag("label", "Filter by any text: name, verdict, target, device, reason", for_="filter")
    field = tag("input", id="filter", type="search", autocomplete="off", spellcheck="false", aria_controls="rows")
    return join([
        tag("div", label, field, class_="filter", hidden=True),
        tag("p", quantity(len(items), "artifact"), id="count", role="status", aria_live="polite"),
        tag("table", tag("caption", "Verdicts; headings sort, names lead to the details"),
            tag("thead", tag("tr", *head, role="row"), role="rowgroup"),
            tag("tbody", *rows, id="rows", role="rowgroup"), class_="verdicts", role="table"),
    ])  # fmt: skip


def _row(item: ItemReport, ident: str, domain: tuple[float, float]) -> Html:
    low, estimate, high = item.speedup_low, item.speedup, item.speedup_high
    if low is None or estimate is None or high is None:
        drawn, key, texts = Html(""), "", [item.message]
    else:
        key, texts = f"{low!r}", [item.evidence, item.message]
        limits = interval_text(low, high, words_for(item.results[0].objective, item.results[0].direction))
        drawn = join([tag("span", limits, class_="limits"), interval(low, estimate, high, domain)])
    texts += [located(result, item.results) for result in item.results[1:MAX_RESULTS]]
    name = tag("th", tag("a", item.name, href=f"#{ident}"), tag("span", item.nodeid, class_="nodeid"),
               scope="row", role="rowheader")  # fmt: skip
    return tag(
        "tr", name, tag("td", item.target, role="cell"), tag("td", badge(item), role="cell"),
        tag("td", headline(item.results, interval=False), role="cell", data_key=key, class_="number"),
        tag("td", drawn, role="cell", data_key=key),
        tag("td", "; ".join(text for text in texts if text), role="cell", class_="found"), role="row",
    )  # fmt: skip


def unchecked(items: Sequence[ItemReport]) -> Iterator[Html]:
    """The section of what was not checked, and why; nothing if everything was."""
    counts = Counter(
        f"{check.name}: {check.detail}" if check.detail else check.name
        for item in items
        for check in item.checks
        if check.status == "not run"
    )
    if counts:
        lines = [f"{count} × {what}" for what, count in counts.most_common()]
        yield tag("section", tag("h2", "Not checked"), _list(lines), class_="unchecked")


def attention(report: RunReport) -> Iterator[Html]:
    """The sections of remedies, of unhealthy files, and of artifacts that no test claims."""
    remedies: dict[str, list[str]] = {}
    for item in report.items:
        if item.remedy:
            remedies.setdefault(item.remedy, []).append(item.name)
    if remedies:
        pairs = [
            tag("div", tag("dt", ", ".join(first_of(names))), tag("dd", tag("code", remedy)))
            for remedy, names in remedies.items()
        ]
        yield tag("section", tag("h2", "Remedy"), tag("dl", *pairs), class_="remedies")
    if report.store_problems:
        yield tag("section", tag("h2", "Unhealthy files"), _list(report.store_problems))
    if report.orphans:
        text = "No test claims them: delete them, or bring the tests back."
        yield tag("section", tag("h2", "Orphans"), tag("p", text), _list(report.orphans))


def _list(lines: Sequence[str]) -> Html:
    return tag("ul", *(tag("li", line) for line in first_of(lines, _MAX_LINES)))
