"""Reads the Makefile rules that compilers write for ``-M``."""

from __future__ import annotations

import re


def prerequisites(rules: str) -> set[str]:
    """The files that the rules depend on, without the quoting of GNU cpp."""
    names: set[str] = set()
    for rule in rules.replace("\\\n", " ").splitlines():
        words = re.findall(r"(?:\\[ #]|[^\s])+", rule.partition(": ")[2])
        names |= {re.sub(r"\\([ #])", r"\1", word).replace("$$", "$") for word in words}
    return names
