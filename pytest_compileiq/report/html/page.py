"""The HTML page: one file that holds everything it needs and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path

from pytest_compileiq import __version__, rooms
from pytest_compileiq.outcome import ItemReport, RunReport
from pytest_compileiq.report.committed import ChartedArtifact, Key, read_committed
from pytest_compileiq.report.html.charts import interval_domain
from pytest_compileiq.report.html.markup import Html, tag
from pytest_compileiq.report.html.sections import artifact_section, facts
from pytest_compileiq.report.html.verdicts import attention, counted, in_order, unchecked, verdict_table
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import write_output
from pytest_compileiq.system.vcs import revision


def write_html(report: RunReport, store: Store, path: Path, *, title: str) -> None:
    """Write the page of ``report`` and its items' artifacts to ``path``, whose directory is created if missing.

    Raises:
        OSError: the file cannot be written.
    """
    committed = read_committed(store, {(item.name, item.target) for item in report.items if item.name and item.target})
    past = rooms.past(store.root.parent)
    parts_of = _nothing if past is None else past.page_parts(store, {item.name for item in report.items})
    page = render_page(report, committed, environment_of(store.root), title=title, parts_of=parts_of)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_output(path, page)


def environment_of(root: Path) -> dict[str, str]:
    """The page's origin: versions, system, and the commit, with a note if ``root`` differs from it."""
    now = revision(root.parent, [root.name])
    dirty = f", {root.name}/ has changes that are not committed" if now.changed else ""
    return {
        "pytest-compileiq": __version__,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "commit": f"{now.commit}{dirty}" if now.commit else now.not_asked,
    }


def _nothing(_name: str, _target: str, _ident: str) -> list[Html]:
    return []


def render_page(
    report: RunReport,
    committed: Mapping[Key, ChartedArtifact],
    environment: Mapping[str, str],
    *,
    title: str,
    parts_of: Callable[[str, str, str], list[Html]] = _nothing,
) -> str:
    """The page as text, which depends on the arguments alone. Their texts are untrusted and escaped.

    Args:
        parts_of: (artifact, target, prefix of ids) → more to say of it.
    """
    items = in_order(report.items)
    idents = [f"artifact-{place}" for place in range(1, len(items) + 1)]
    domain = interval_domain([ratio for item in items for ratio in _ratios(item, committed)])
    sections = [
        artifact_section(
            item, committed.get((item.name, item.target)), ident, domain, parts_of(item.name, item.target, ident)
        )
        for item, ident in zip(items, idents, strict=True)
    ]
    body = tag(
        "body",
        tag("a", "Skip to the verdicts", href="#verdicts", class_="skip"),
        tag("header", tag("h1", title), tag("p", counted(items) or "No tuned test ran.", class_="counts")),
        tag(
            "main",
            *unchecked(items),
            tag("section", tag("h2", "Verdicts", id="verdicts", tabindex="-1"), verdict_table(items, idents, domain)),
            *attention(report),
            tag("section", tag("h2", "Artifacts"), _legend(), *sections),
        ),
        tag("footer", tag("h2", "Made with"), facts(environment.items())),
        tag("script", _asset("page.js")),
    )
    return document(title, body)


def document(title: str, body: Html) -> str:
    """A whole page of one ``body``."""
    return f'<!doctype html>\n<html lang="en">{_head(title)}{body}</html>\n'


def _ratios(item: ItemReport, committed: Mapping[Key, ChartedArtifact]) -> list[float]:
    entry = committed.get((item.name, item.target))
    claims = entry.artifact.claims if entry else ()
    bounds = [item.speedup_low, item.speedup_high]
    bounds += [bound for claim in claims for bound in (claim.speedup_low, claim.speedup_high)]
    return [bound for bound in bounds if bound is not None]


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


def _head(title: str) -> Html:
    # The policy forbids every request, and all scripts and styles but these two: even a text that got past the
    # escaping could neither run nor send anything.
    policy = (
        f"default-src 'none'; script-src '{_hash(_asset('page.js'))}'; style-src '{_hash(_asset('page.css'))}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", _asset("page.css")),
    )


def _asset(name: str) -> Html:
    return Html(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
