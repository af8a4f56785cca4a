"""Entry functions by the names that people know them by: C++ and Fortran names without the compiler's mangling."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from pytest_compileiq.spelling import did_you_mean, first_of

_BRACKETS = {")": "(", ">": "<"}
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")  # to an earlier part of the symbol, or to a template's argument
_EXPANSION = re.compile(r"Dp|sp")
_BEGINNING = re.compile(r"_ZN?K?")
_LENGTH = re.compile(r"\d{1,9}")  # of the identifier behind it
_LONGEST_BITS = 20  # a name of a million parts
_OPERATOR = re.compile(r"\boperator\b")
_OF_A_MODULE = re.compile(r"__(\w+)_MOD_(\w+)")  # gfortran's, which debuggers show as module::procedure
_BEHIND_PARAMETERS = re.compile(r"(?<=\))(?: const| volatile| &&?| \[[^\]]*\])+$")


def matching(pattern: str, entries: Iterable[str]) -> list[str]:
    """The ``entries`` that ``pattern`` names, sorted.

    Args:
        pattern: as of a shell, ``*`` and ``?``: a symbol, ``_Z6reduceIfLi256EEvPT_``; a qualified name without
            parameters, ``ns::scale``, ``reduce<float, 256>`` or Fortran's ``module::procedure``; or with them,
            ``ns::scale(float*, int)``. What is a name as it stands is no pattern: ``operator*`` is one function. In a
            build for several architectures, ``scale@sm_90a`` is one entry, and ``scale`` is all of them.
        entries: symbols, in a build for several architectures with ``@sm_90a`` behind them.
    """
    names = {entry: _names(entry) for entry in entries}
    wanted = pattern.replace("[", "[[]")  # a bracket is C++'s own
    return sorted(entry for entry in names if pattern in names[entry]) or sorted(
        entry for entry in names if any(fnmatchcase(name, wanted) for name in names[entry])
    )


def listed(entries: Iterable[str], most: int | None = None) -> str:
    """``b, c, and 3 more``: ``entries`` as their sources spell them, sorted; a constructor has several and one name."""
    return ", ".join(first_of(sorted(set(map(readable, entries))), most))


def meant(pattern: str, entries: Iterable[str]) -> str:
    """`` (did you mean 'ns::scale'?)``: what is close to ``pattern`` among the names of ``entries``, or nothing."""
    names = {name for entry in entries for name in (entry, readable(entry))}
    return did_you_mean(pattern, names | {name.partition("@")[0] for name in names})


def readable(entry: str) -> str:
    """``entry`` as its source spells it, without parameters: ``reduce<float, 256>@sm_90a``; C names are unchanged."""
    symbol, at, architecture = entry.partition("@")
    return without_parameters(demangled(symbol)) + at + architecture


def demangled(symbol: str) -> str:
    """The ``declaration`` of a symbol that an artifact of somebody else's may hold.

    ``symbol`` itself where that could become very long: 300 characters can stand for gigabytes.
    """
    if _bits(symbol) > _LONGEST_BITS:
        return symbol
    return declaration(symbol)


@lru_cache(maxsize=4096)
def declaration(symbol: str) -> str:
    """The C++ declaration of ``symbol``, which a compiler here wrote, or ``module::procedure``; else ``symbol`` itself.

    Without a C++ runtime on the machine, all C++ names stay symbols.
    """
    if of_a_module := _OF_A_MODULE.fullmatch(symbol):
        return "::".join(of_a_module.groups())
    if not symbol.startswith("_Z"):
        return symbol
    import cxxfilt  # it runs ldconfig when it is imported

    try:
        demangled: str = cxxfilt.demangle(symbol)
    except cxxfilt.Error:
        return symbol
    return demangled


def without_parameters(declaration: str) -> str:
    """The qualified name of a demangled declaration: ``void f<int>(int*) const`` is ``f<int>``."""
    declaration = _BEHIND_PARAMETERS.sub("", declaration)
    end = _opening(declaration) if declaration.endswith(")") else len(declaration)
    name = declaration[:end]
    operator = _OPERATOR.search(name)  # what follows may hold blanks and brackets of its own
    begin = _last_blank(name[: operator.start()] if operator else name) + 1
    return name[begin:]


def _bits(symbol: str) -> float:
    """A bound on the parts that ``symbol`` stands for, as a logarithm to base 2.

    A pack expansion repeats its pattern once for each part of a pack. An earlier part holds only references to parts
    before it, so that n references to one part make at most n + 1 times as many of what it holds. References to
    arguments of a template start again, once for each declaration (``Z``) in the symbol.
    """
    references = Counter(_REFERENCE.findall(symbol))
    rounds = 1 + symbol.count("Z") * any(text.startswith("T") for text in references)
    repeated = sum(rounds * math.log2(1 + count / rounds) for count in references.values())
    expansions = len(_EXPANSION.findall(symbol, _end_of_the_name(symbol)))
    return len(symbol).bit_length() * (1 + expansions) + repeated


def _end_of_the_name(symbol: str) -> int:
    """Where the function's qualified name ends, which is read as it stands: ``transpose`` expands nothing."""
    beginning = _BEGINNING.match(symbol)
    end = beginning.end() if beginning else 0
    while length := _LENGTH.match(symbol, end):
        end = length.end() + int(length[0])
    return end


def _names(entry: str) -> set[str]:
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
