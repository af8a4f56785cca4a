"""Markup that is escaped by construction: text enters a page only through ``tag``, which escapes it."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from importlib import resources

from pytest_compileiq.system.printing import visible

MAX_ROWS = 60  # per table; an artifact may hold a megabyte of them
_VOID = frozenset({"meta", "input"})


class Html(str):
    """Text that is markup already; any other string is escaped where it enters a page."""

    __slots__ = ()


def escape(text: str) -> Html:
    """``text`` as content or attribute value; control, bidi and surrogate characters are shown as escapes."""
    return text if isinstance(text, Html) else Html(html.escape(visible(text, keep="\n\t")))


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Html:
    """One element. ``class_`` is class, ``aria_label`` is aria-label; True is a bare attribute, None and False none."""
    opening = f"<{name}"
    for key, value in attributes.items():
        if value is not None and value is not False:
            opening += f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
    opening += ">"
    return Html(opening) if name in _VOID else Html(f"{opening}{join(children)}</{name}>")


def join(parts: Iterable[str], separator: str = "") -> Html:
    """The parts in order, each escaped unless it is markup."""
    return Html(separator.join(map(escape, parts)))


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """A table whose first cells head their rows, in its own scrolling region; rows beyond 60 are counted."""
    head = tag("tr", *(tag("th", column, scope="col") for column in columns))
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows[:MAX_ROWS]
    ]
    more = f" ({len(rows) - MAX_ROWS} more are not shown: acf show tells all)" if len(rows) > MAX_ROWS else ""
    content = tag("table", tag("caption", caption + more), tag("thead", head), tag("tbody", *body))
    return tag("div", content, class_="scroll", role="region", aria_label=caption, tabindex="0")


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """A list of terms and their texts; pairs without a text are left out."""
    return tag("dl", *(tag("div", tag("dt", term), tag("dd", text)) for term, text in pairs if text))


def document(title: str, body: Html) -> str:
    """A whole page of one ``body``."""
    script, style = asset("page.js"), asset("page.css")
    # The policy forbids every request, and all scripts and styles but these two: even a text that got past the
    # escaping could neither run nor send anything.
    policy = (
        f"default-src 'none'; script-src '{_sha256(script)}'; style-src '{_sha256(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", style),
    )
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


def asset(name: str) -> Html:
    """A file beside this module: the page's script or its style."""
    return Html(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _sha256(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
