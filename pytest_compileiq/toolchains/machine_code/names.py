"""Entry functions by the names that people know them by: C++ names without the compiler's mangling."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

import cxxfilt

_BRACKETS = {")": "(", ">": "<"}
_OPERATOR = re.compile(r"\boperator\b")
_BEHIND_PARAMETERS = re.compile(r"(?<=\))(?: const| volatile| &&?| \[[^\]]*\])+$")


def matching(pattern: str, entries: Iterable[str]) -> list[str]:
    """The ``entries`` that ``pattern`` names, sorted.

    Args:
        pattern: as of a shell, ``*`` and ``?``: a symbol, ``_Z6reduceIfLi256EEvPT_``; a qualified name without
            parameters, ``ns::scale`` or ``reduce<float, 256>``; or with them, ``ns::scale(float*, int)``. In a build
            for several architectures, ``scale@sm_90a`` is one entry, and ``scale`` is all of them.
        entries: symbols, in a build for several architectures with ``@sm_90a`` behind them.
    """
    return sorted(entry for entry in entries if any(fnmatchcase(name, pattern) for name in _names(entry)))


def readable(entry: str) -> str:
    """``entry`` as its source spells it, without parameters: ``reduce<float, 256>@sm_90a``; C names are unchanged."""
    symbol, at, architecture = entry.partition("@")
    return without_parameters(demangled(symbol)) + at + architecture


@lru_cache(maxsize=4096)
def demangled(symbol: str) -> str:
    """The C++ declaration of ``symbol``; ``symbol`` itself where it is no C++ name, or no C++ runtime is installed."""
    try:
        declaration: str = cxxfilt.demangle(symbol)
    except cxxfilt.Error:
        return symbol
    return declaration


def without_parameters(declaration: str) -> str:
    """The qualified name of a demangled declaration: ``void f<int>(int*) const`` is ``f<int>``."""
    declaration = _BEHIND_PARAMETERS.sub("", declaration)
    end = _opening(declaration) if declaration.endswith(")") else len(declaration)
    name = declaration[:end]
    operator = _OPERATOR.search(name)  # what follows may hold blanks and brackets of its own
    begin = _last_blank(name[: operator.start()] if operator else name) + 1
    return name[begin:]


def _names(entry: str) -> Iterable[str]:
    symbol, at, architecture = entry.partition("@")
    declaration = demangled(symbol)
    names = {symbol, declaration, without_parameters(declaration)}
    return {*names, *(name + at + architecture for name in names)}


def _opening(declaration: str) -> int:
    """The index of the bracket that the last character closes."""
    depth = 0
    for index in range(len(declaration) - 1, 0, -1):
        depth += (declaration[index] == ")") - (declaration[index] == "(")
        if depth == 0:
            return index
    return len(declaration)


def _last_blank(name: str) -> int:
    """The index of the last blank outside brackets, or -1."""
    depth = 0
    for index in range(len(name) - 1, -1, -1):
        character = name[index]
        depth += (character in _BRACKETS) - (character in _BRACKETS.values())
        if character == " " and depth == 0:
            return index
    return -1
