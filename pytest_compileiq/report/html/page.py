"""The HTML page: one file that holds everything it needs and loads nothing."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_compileiq import __version__, rooms
from pytest_compileiq.outcome import ItemReport, RunReport
from pytest_compileiq.report.claims import headline, located
from pytest_compileiq.report.committed import ChartedArtifact, Key, read_committed
from pytest_compileiq.report.html.charts import interval, interval_domain
from pytest_compileiq.report.html.markup import Html, asset, document, facts, join, tag
from pytest_compileiq.report.html.sections import MAX_RESULTS, artifact_section, badge
from pytest_compileiq.report.terminal import names_by_remedy
from pytest_compileiq.rules.words import interval_text, words_for
from pytest_compileiq.spelling import first_of, quantity
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import write_output
from pytest_compileiq.system.vcs import revision

_MAX_LINES = 30


def write_html(report: RunReport, store: Store, path: Path, *, title: str) -> None:
    """Write the page of ``report`` and its items' artifacts to ``path``, whose directory is created if missing.

    Raises:
        OSError: the file cannot be written.
    """
    committed = read_committed(store, {(item.name, item.target) for item in report.items if item.name and item.target})
    past = rooms.past(store.root.parent)
    parts_of = past.page_parts(store, {item.name for item in report.items}) if past else None
    now = revision(store.root.parent, [store.root.name])
    dirty = f", {store.root.name}/ has changes that are not committed" if now.changed else ""
    environment = {
        "pytest-compileiq": __version__,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "commit": f"{now.commit}{dirty}" if now.commit else now.not_asked,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_output(path, render_page(report, committed, environment, title=title, parts_of=parts_of))


def render_page(
    report: RunReport,
    committed: Mapping[Key, ChartedArtifact],
    environment: Mapping[str, str],
    *,
    title: str,
    parts_of: Callable[[str, str, str], list[Html]] | None = None,  # artifact, target, prefix of ids → more parts
) -> str:
    """The page as text, which depends on the arguments alone. Their texts are untrusted and escaped."""
    # Failed items first, then those that are not proven, then by name.
    items = sorted(
        report.items, key=lambda item: (not item.failed, item.verdict.tone == "good", item.name, item.target)
    )
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(item.verdict for item in items).most_common())
    artifacts = [committed.get((item.name, item.target)) for item in items]
    bounds = [bound for item in items for bound in (item.speedup_low, item.speedup_high)]
    claims = (claim for each in artifacts if each for claim in each.artifact.claims)
    bounds += (bound for claim in claims for bound in (claim.speedup_low, claim.speedup_high))
    domain = interval_domain([bound for bound in bounds if bound is not None])
    idents = [f"artifact-{place}" for place in range(1, len(items) + 1)]
    sections = [
        artifact_section(item, artifact, ident, domain, parts_of(item.name, item.target, ident) if parts_of else [])
        for item, artifact, ident in zip(items, artifacts, idents, strict=True)
    ]
    body = tag(
        "body",
        tag("a", "Skip to the verdicts", href="#verdicts", class_="skip"),
        tag("header", tag("h1", title), tag("p", counts or "No tuned test ran.", class_="counts")),
        tag(
            "main",
            *_unchecked(items),
            tag("section", tag("h2", "Verdicts", id="verdicts", tabindex="-1"), _verdicts(items, idents, domain)),
            *_attention(report),
            tag("section", tag("h2", "Artifacts"), _legend(), *sections),
        ),
        tag("footer", tag("h2", "Made with"), facts(environment.items())),
        tag("script", asset("page.js")),
    )
    return document(title, body)


def _legend() -> Html:
    marks = [
        tag("svg", tag("path", class_=f"dots big {arm}", d="M7 7h0"), viewBox="0 0 14 14", aria_hidden="true")
        for arm in ("baseline", "tuned")
    ]
    text = (
        "A point is a slot: the median of its samples, of runtime@p99 their 99 % quantile. "
        "A box holds the middle half, its whiskers 5 % to 95 %, "
        "its bar the median. Shaded stripes are processes. Samples are those committed with the claim."
    )
    return tag("p", marks[0], " baseline ", marks[1], " tuned. ", text, class_="legend")


def _verdicts(items: Sequence[ItemReport], idents: Sequence[str], domain: tuple[float, float]) -> Html:
    """The table, its filter, and the line that counts the rows shown; the table works without scripts."""
    head = [
        tag("th", tag("button", name, tag("span", "", class_="arrow", aria_hidden="true"), type="button"),
            scope="col", role="columnheader", aria_sort="none")
        for name in ("Artifact", "Target", "Verdict", "Gain", "95 % interval", "Found")
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


def _unchecked(items: Sequence[ItemReport]) -> Iterator[Html]:
    counts = Counter(
        f"{check.name}: {check.detail}" if check.detail else check.name
        for item in items
        for check in item.checks
        if check.status == "not run"
    )
    if counts:
        lines = [f"{count} × {what}" for what, count in counts.most_common()]
        yield tag("section", tag("h2", "Not checked"), _list(lines), class_="unchecked")


def _attention(report: RunReport) -> Iterator[Html]:
    if remedies := names_by_remedy(report.items):
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
