"""Entry functions by the names that people know them by: C++ and Fortran names without the compiler's mangling.

Kernels of CUTLASS have symbols of 1500 characters, and GNU's demangler takes none of more than 1024; a stranger's
symbol of 300 can stand for gigabytes. Itanium C++ ABI, section 5.1, "External Names (a.k.a. Mangling)".
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.spelling import did_you_mean, first_of
from pytest_compileiq.system.process import run

_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")  # to an earlier part of the symbol, or to a template's argument
_EXPANSION = re.compile(r"Dp|sp")
_QUALIFIED = re.compile(r"_ZN?K?")
_LENGTH = re.compile(r"\d{1,9}")  # of the identifier behind it
_PREFIX = re.compile(r"_Z(?P<nested>N[rVK]*[RO]?)?(?P<std>St)?")
_PART = re.compile(r"L?(?P<length>[1-9]\d{0,8})")
_TAG = re.compile(r"B(?P<length>[1-9]\d{0,8})")
_ANONYMOUS = "_GLOBAL__N_1"
_STRUCTOR = re.compile(r"C[1-5]|D[0-5]")
# Within template arguments: what begins something that an ``E`` ends, and what holds digits that are no length.
_TOKEN = re.compile(
    r"(?P<value>L(?:[a-z]|D[a-z])[n0-9a-f_]*E)"  # a number: ``Li128E``
    r"|(?P<literal>L)(?!_Z)"  # a value of a type with a name: ``LN2ns5styleE2E``
    r"|(?P<opening>L_Z|D[tT]|U[lt]|[NIJXF])"
    r"|(?P<closing>E)"
    r"|(?P<reference>[ST][0-9A-Z]*_|S[a-z])"
    r"|(?P<length>\d{1,9})"
    r"|(?P<plain>A\d*_|fp[rVK]*\d*_|D[a-z]|[A-Za-z_])"
)
_VALUE_OF_LITERAL = re.compile(r"n?\d*E")


def outline(symbol: str) -> str | None:
    """``ns::Kernel<…>#3fa2c1``: the function of ``symbol`` without its templates' arguments.

    A digest of the symbol stands for them, so that two functions have two outlines. None where the function has no name
    of its own, as a lambda has none, or the symbol is not one of C++. Takes time in proportion to the symbol.
    """
    beginning = _PREFIX.match(symbol)
    if beginning is None:
        return None
    parts, at = ["std"] if beginning["std"] else [], beginning.end()
    while part := _PART.match(symbol, at):
        at = part.end() + int(part["length"])
        name = symbol[part.end() : at]
        while tag := _TAG.match(symbol, at):
            at = tag.end() + int(tag["length"])
        end = _end_of_arguments(symbol, at) if symbol[at : at + 1] == "I" else at
        if end is None:
            return None
        parts.append("(anonymous namespace)" if name == _ANONYMOUS else name + "<…>" * (end > at))
        at = end
        if not beginning["nested"]:
            break
    if parts and (structor := _STRUCTOR.match(symbol, at)):
        at = structor.end()
        parts.append("~" * (structor[0][0] == "D") + parts[-1].removesuffix("<…>"))
    is_whole = at <= len(symbol) and (not beginning["nested"] or symbol[at : at + 1] == "E")
    return f"{'::'.join(parts)}#{_tag(symbol)}" if parts and is_whole else None


def _tag(name: str) -> str:
    """Six digits that tell names apart of which only a part is shown."""
    return sha256_hex(name.encode(errors="surrogateescape"))[:6]


def expansion_bits(symbol: str) -> float:
    """A bound on the parts that ``symbol`` stands for, as a logarithm to base 2.

    A pack expansion repeats its pattern once for each part of a pack. An earlier part holds only references to parts
    before it, so that n references to one part make at most n + 1 times as many of what it holds. References to
    arguments of a template start again, once for each declaration (``Z``) in the symbol.
    """
    references = Counter(_REFERENCE.findall(symbol))
    rounds = 1 + symbol.count("Z") * any(text.startswith("T") for text in references)
    repeated = sum(rounds * math.log2(1 + count / rounds) for count in references.values())
    # The function's qualified name is read as it stands: transpose expands nothing.
    beginning = _QUALIFIED.match(symbol)
    end = beginning.end() if beginning else 0
    while length := _LENGTH.match(symbol, end):
        end = length.end() + int(length[0])
    return len(symbol).bit_length() * (1 + len(_EXPANSION.findall(symbol, end))) + repeated


def _end_of_arguments(symbol: str, begin: int) -> int | None:
    """Where the template arguments that begin with the ``I`` at ``begin`` end; None where they do not."""
    at, opened = begin, list[str]()
    while token := _TOKEN.match(symbol, at):
        kind, at = token.lastgroup, token.end()
        if kind in ("opening", "literal"):
            opened.append(kind)
            continue
        if kind == "length":
            at += int(token[0])
        if kind == "closing":
            opened.pop()
        is_literal = opened and opened[-1] == "literal" and symbol[at : at + 1] != "I"
        if is_literal and (value := _VALUE_OF_LITERAL.match(symbol, at)):
            at = value.end()
            opened.pop()
        if not opened:
            return at
    return None


_LONGEST_BITS = 20  # a name of a million parts
_LONGEST_SHOWN, _DEEPEST = 120, 8  # characters; of template arguments within each other
_MOST_OF_THE_RUNTIME = 1024  # characters of a symbol: libiberty's limit of recursion
_MOST_OF_A_COMMAND = 100_000
_OPERATOR = re.compile(r"\boperator\b")
_OF_A_MODULE = re.compile(r"__(\w+)_MOD_(\w+)")  # gfortran's, which debuggers show as module::procedure
_BETWEEN_BRACKETS = re.compile(r"> (?=>)")
_STATIC = re.compile(r"__nv_static_(\d{1,4})_")  # of what is private to a file of relocatable device code
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
    names = {entry: set(map(_closed, _names(entry))) for entry in entries}
    pattern = _closed(pattern)
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
    """``entry`` as its source spells it, without parameters: ``reduce<float, 256>@sm_90a``; C names are unchanged.

    What is long is shortened, and ends in a digest of the whole name: ``cutlass::Kernel<cutlass::Gemm<…>>#3fa2c1``.
    """
    symbol, at, architecture = entry.partition("@")
    return _shortened(without_parameters(demangled(symbol))) + at + architecture


def demangled(symbol: str) -> str:
    """The ``declaration`` of a symbol that an artifact of somebody else's may hold; its ``outline`` if very long."""
    if renamed := _STATIC.match(symbol):  # __nv_static_, the length of the module id, that, and the symbol
        symbol = symbol[renamed.end() + int(renamed[1]) + 1 :] or symbol
    if expansion_bits(symbol) > _LONGEST_BITS:
        return outline(symbol) or symbol
    return declaration(symbol)


@lru_cache(maxsize=4096)
def declaration(symbol: str) -> str:
    """The C++ declaration of ``symbol``, which a compiler here wrote, or ``module::procedure``; else ``symbol`` itself.

    Without a demangler for it, as without a C++ runtime on the machine, it is the ``outline``.
    """
    if of_a_module := _OF_A_MODULE.fullmatch(symbol):
        return "::".join(of_a_module.groups())
    if not symbol.startswith("_Z"):
        return symbol
    import cxxfilt  # it runs ldconfig when it is imported

    try:
        demangled: str = cxxfilt.demangle(symbol)
    except (cxxfilt.Error, UnicodeError):
        return _by_binutils(symbol) or outline(symbol) or symbol
    return demangled


def _by_binutils(symbol: str) -> str | None:
    """The declaration of a symbol that is too long for the C++ runtime, by the program that has the same demangler."""
    if not _MOST_OF_THE_RUNTIME < len(symbol) <= _MOST_OF_A_COMMAND:
        return None
    try:
        answer = run(["c++filt", "--no-recurse-limit", symbol], timeout_s=10)
    except EnvironmentFault:
        return None
    declaration = answer.output.strip()
    return declaration if answer.returncode == 0 and declaration != symbol else None


def without_parameters(declaration: str) -> str:
    """The qualified name of a demangled declaration: ``void f<int>(int*) const`` is ``f<int>``."""
    declaration = _BEHIND_PARAMETERS.sub("", declaration)
    end = _opening(declaration) if declaration.endswith(")") else len(declaration)
    name = declaration[:end]
    operator = _OPERATOR.search(name)  # what follows may hold blanks and brackets of its own
    depth = 0
    for index in range((operator.start() if operator else end) - 1, -1, -1):
        depth += (name[index] in ")>") - (name[index] in "(<")
        if name[index] == " " and depth == 0:
            return name[index + 1 :]
    return name


def _closed(name: str) -> str:
    """``name`` without blanks between closing brackets, which sources since C++11 need not have."""
    return _BETWEEN_BRACKETS.sub(">", name)


def _names(entry: str) -> set[str]:
    symbol, at, architecture = entry.partition("@")
    declaration = demangled(symbol)
    names = {symbol, declaration, without_parameters(declaration), readable(symbol)}
    return {*names, *(name + at + architecture for name in names)}


def _shortened(name: str) -> str:
    """``name`` with as much of its templates' arguments as leaves it readable."""
    if len(name) <= _LONGEST_SHOWN:
        return name
    shorter = (elided for depth in range(_DEEPEST, -1, -1) if len(elided := _elided(name, depth)) <= _LONGEST_SHOWN)
    return f"{next(shorter, name[:_LONGEST_SHOWN] + '…')}#{_tag(name)}"


def _elided(name: str, deepest: int) -> str:
    """``name`` without the template arguments that lie deeper than ``deepest``."""
    kept, depth = [], 0
    for character in name:
        depth -= character == ">"
        if depth <= deepest:
            kept.append(character)
        depth += character == "<"
        if character == "<" and depth == deepest + 1:
            kept.append("…")
    return "".join(kept)


def _opening(declaration: str) -> int:
    """The index of the bracket that the last character closes."""
    depth = 0
    for index in range(len(declaration) - 1, 0, -1):
        depth += (declaration[index] == ")") - (declaration[index] == "(")
        if depth == 0:
            return index
    return len(declaration)
