"""The terminal summary: one line per artifact, what was not checked, then the remedies.

Failures that pytest has printed already are counted, and not printed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_compileiq.outcome import ItemReport, RunReport, Verdict
from pytest_compileiq.report.claims import headline, located
from pytest_compileiq.report.progress import night_lines
from pytest_compileiq.spelling import first_of, quantity

Line = tuple[str, dict[str, bool]]
_MOST_RESULTS = 8  # per artifact, beyond its headline
_NOT_KEPT = "builds that are not kept: acf cache says why"


def summary_lines(report: RunReport, *, failures_shown: bool) -> Iterator[Line]:
    """Lines with pytest's markup.

    Args:
        failures_shown: pytest has printed the tests' failures, with their remedies.
    """
    items = sorted(report.items, key=lambda item: item.name)
    # A wrong answer fails with the test's own exception, which does not have this report's text.
    untold = [item for item in items if not (failures_shown and item.failed and item.verdict != Verdict.WRONG)]
    width = max((len(item.name) for item in untold), default=0)
    for item in untold:
        yield from _item_lines(item, width)
    if report.night is not None:
        yield from ((line, {}) for line in night_lines(report.night))
    if items:
        yield _count_line(items), {}
    for remedy, names in names_by_remedy(untold).items():
        yield f"{', '.join(first_of(names))}: {remedy}", {}
    for problem in report.store_problems:
        yield f"unhealthy: {problem}", {"red": True}
    if report.orphans:
        orphans = ", ".join(report.orphans)
        yield f"orphaned, no test claims them: {orphans}; delete them, or bring the tests back", {"yellow": True}


def _item_lines(item: ItemReport, width: int) -> Iterator[Line]:
    parts = [f"{item.name:<{width}}", item.target, f"{item.verdict:<9}", headline_text(item) or item.message]
    colour = "red" if item.failed else "green" if item.verdict.tone == "good" else "yellow"
    yield "  ".join(part for part in parts if part).rstrip(), {colour: True}
    for result in item.results[1 : 1 + _MOST_RESULTS]:
        yield f"    {located(result, item.results)}", {"yellow": True} if result.standing == "worse" else {}
    if (more := len(item.results) - 1 - _MOST_RESULTS) > 0:
        yield f"    and {quantity(more, 'more claim')}: acf show {item.name}", {}
    if item.verdict == Verdict.KEPT and item.results:
        yield f"    {item.message}", {}
    yield from ((f"    {note}", {"light": True}) for note in item.notes)
    yield from ((f"    wrote {path}", {}) for path in item.wrote)


def headline_text(item: ItemReport) -> str:
    """The leading result and its evidence."""
    if not item.results:
        return ""
    lead = item.results[0]
    when = "recorded: " if item.verdict in (Verdict.REPLAYED, Verdict.KEPT) and lead.evidence else ""
    return f"{when}{headline(item.results)}  {lead.evidence}".rstrip()


def _count_line(items: Sequence[ItemReport]) -> str:
    counts = Counter(item.verdict.lower() for item in items)
    told = [", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))]
    checks = [check for item in items for check in item.checks]
    unchecked = Counter(f"{check.name} not checked: {check.detail}" for check in checks if check.status == "not run")
    told += (f"{count} × {what}" for what, count in sorted(unchecked.items()))
    if cached := [check.detail for check in checks if check.status == "cached"]:
        when = cached[0] if len(set(cached)) == 1 else "same inputs as earlier builds"
        told.append(f"{len(cached)} × {when}, not built again: --acf-check=rebuild")
    if made := sum(any(check.status == "not kept" for check in item.checks) for item in items):
        told.append(f"{made} × {_NOT_KEPT}")
    return "; ".join(told)


def names_by_remedy(items: Iterable[ItemReport]) -> dict[str, list[str]]:
    """Remedy → the names of the items that it resolves."""
    remedies: dict[str, list[str]] = {}
    for item in items:
        if item.remedy:
            remedies.setdefault(item.remedy, []).append(item.name)
    return remedies
