"""Markup that is escaped by construction: text enters a page only through ``tag``, which escapes it."""

from __future__ import annotations

import html
from collections.abc import Iterable

from pytest_compileiq.system.printing import visible

_VOID = frozenset({"meta", "input"})


class Html(str):
    """Text that is markup already; any other string is escaped where it enters a page."""

    __slots__ = ()


def escape(text: str) -> Html:
    """``text`` as content or attribute value; control, bidi and surrogate characters are shown as escapes."""
    return text if isinstance(text, Html) else Html(html.escape(visible(text, keep="\n\t")))


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Html:
    """One element. ``class_`` is class, ``aria_label`` is aria-label; True is a bare attribute, None and False none."""
    opening = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(opening) if name in _VOID else Html(f"{opening}{join(children)}</{name}>")


def join(parts: Iterable[str], separator: str = "") -> Html:
    """The parts in order, each escaped unless it is markup."""
    return Html(separator.join(map(escape, parts)))


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
