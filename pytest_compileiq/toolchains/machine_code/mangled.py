"""Symbols of C++, read without demangling them: what they are called, and how much they stand for.

Kernels of CUTLASS have symbols of 1500 characters, and GNU's demangler takes none of more than 1024; a stranger's
symbol of 300 can stand for gigabytes. Itanium C++ ABI, section 5.1, "External Names (a.k.a. Mangling)".
"""

from __future__ import annotations

import math
import re
from collections import Counter

from pytest_compileiq.model import sha256_hex

_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")  # to an earlier part of the symbol, or to a template's argument
_EXPANSION = re.compile(r"Dp|sp")
_BEGINNING = re.compile(r"_ZN?K?")
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
    return f"{'::'.join(parts)}#{tag_of(symbol)}" if parts and is_whole else None


def tag_of(name: str) -> str:
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
    expansions = len(_EXPANSION.findall(symbol, _end_of_the_name(symbol)))
    return len(symbol).bit_length() * (1 + expansions) + repeated


def _end_of_the_name(symbol: str) -> int:
    """Where the function's qualified name ends, which is read as it stands: ``transpose`` expands nothing."""
    beginning = _BEGINNING.match(symbol)
    end = beginning.end() if beginning else 0
    while length := _LENGTH.match(symbol, end):
        end = length.end() + int(length[0])
    return end


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
        if opened and opened[-1] == "literal" and symbol[at : at + 1] != "I":
            value = _VALUE_OF_LITERAL.match(symbol, at)
            if value:
                at = value.end()
                opened.pop()
        if not opened:
            return at
    return None
