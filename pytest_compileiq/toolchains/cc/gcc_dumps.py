"""Reads what gcc writes of a source: its statements (``-fdump-tree-gimple``) and operations (``-fdump-rtl-expand``).

Statements have names, directives, attributes and lines; operations have machine modes, which are types without their
names: ``DF`` is double, ``V8SF`` eight floats. Both are GCC's own, documented in its "Internals" manual, and the same
for every processor and every language in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pytest_compileiq.toolchains.cc.floating_point import Flags, FloatingPoint, Where, stem_of
from pytest_compileiq.toolchains.cc.floating_point_environment import mode_set_by

_OPERATION = re.compile(
    r"^\((?P<insn>\w*insn) "
    r"|\((?P<code>plus|minus|mult|div|sqrt|fma):(?:V\d+)?(?P<mode>[HSDTB]F)\b"
    r"|\(subreg:[SDT]I \((?P<bits>reg)\S*:[HSDT]F "
    r"|:(?P<complex>[HSDXT]C)\b"
    r'|"(?P<file>[^"\n]+)":(?P<line>\d+):\d+',
    re.MULTILINE,
)
_PRODUCTS, _SUMS = frozenset({"mult", "div"}), frozenset({"plus", "minus"})  # x / 2 becomes x * 0.5

_PLACE = re.compile(r"\[([^\[\]]+):(\d+):\d+\] ")
_CALL = re.compile(r"(?<![\w.:])(std::|__builtin_)?(\w+?)(?:<[^()]*>)? \(")
_SIGNS = re.compile(r"\b(?:__builtin_|std::)?(?:signbit|copysign)[fl]?\d* \(")
_COMPLEX = re.compile(r"(?:const )?(?:__complex__|_Complex|complex)\b(?! int)")
_DECLARED = re.compile(r"^\s+([\w ()=]+?) ([\w.]+);$")
_DIRECTIVE = re.compile(r"#pragma (omp|acc) ([^\n]*)")
_REDUCTION = re.compile(r"reduction\((?:\w+,)?([^:()]+):([^()\s]*)")
_INTEGER = re.compile(
    r"(?:(?:const|volatile|signed|unsigned|char|short|int|long|_Bool|bool|__int128|s?size_t|(?:bit)?sizetype|"
    r"u?int\d+_t|(?:integer|logical)\(kind=\d+\))(?: |$))+"
)
_BITWISE = frozenset({"&", "|", "^", "&&", "||"})
_ATTRIBUTE = re.compile(r"\b(optimize|target|target_clones) \(((?:\"[^\"]*\"|[\d, ])*)\)")

_OPERANDS = re.compile(r"^\s+(?!\.(?:string|asci[iz]|file|ident)\b)\S+\s+(.+)", re.MULTILINE)
_SYMBOL = re.compile(r"(?<![\w.$%@])[A-Za-z_]\w*")
_VARIABLE = re.compile(r"^\s+\.(?:type\s+(\w+),\s*[@%]object|comm\s+(\w+),)", re.MULTILINE)
_MADE_BY_GCC = frozenset({"sincos", "sincosf", "sincosl"})  # of a sine and a cosine, where it optimises


def read_operations(rtl: str) -> FloatingPoint:
    """The operations of a ``-fdump-rtl-expand``, each with the line that it comes from."""
    arithmetic: Where | None = None
    complex_arithmetic: Where | None = None
    bits: Where | None = None
    products: dict[str, Where] = {}
    sums: set[tuple[str, str]] = set()
    for operations, others, where in _instructions(rtl):
        arithmetic = arithmetic or (where if operations else None)
        complex_arithmetic = complex_arithmetic or (where if "complex" in others else None)
        bits = bits or (where if "bits" in others else None)
        for code, mode in operations:
            if code in _PRODUCTS:
                products.setdefault(mode, where)
            elif code in _SUMS:
                sums.add((code, mode))
    met = {mode: [code for code in _SUMS if (code, mode) in sums] for mode in products}
    return FloatingPoint(
        arithmetic=arithmetic,
        products_meet_sums=next((where for mode, where in products.items() if met[mode]), None),
        products_meet_both=next((where for mode, where in products.items() if len(met[mode]) == len(_SUMS)), None),
        complex_arithmetic=complex_arithmetic,
        bits=bits,
    )


def _instructions(rtl: str) -> Iterator[tuple[list[tuple[str, str]], set[str], Where]]:
    """(each operation and its mode, ``bits`` where they are read and ``complex``, where) of each instruction."""
    operations: list[tuple[str, str]] = []
    others: set[str] = set()
    where = ""
    for found in _OPERATION.finditer(rtl):
        if found["insn"]:
            yield operations, others, where
            operations, others, where = [], set(), ""
        elif found["code"]:
            operations.append((found["code"], found["mode"]))
        elif found["file"]:
            where = f"{found['file']}:{found['line']}"
        else:
            others.add(str(found.lastgroup))
    yield operations, others, where


def library_symbols(assembly: str) -> list[str]:
    """The functions of the maths library that assembly names, by their address too, sorted."""
    variables = {name for names in _VARIABLE.findall(assembly) for name in names}
    names = {name for operands in _OPERANDS.findall(assembly) for name in _SYMBOL.findall(operands)}
    return sorted(name for name in names - variables - _MADE_BY_GCC if stem_of(name) is not None)


def read_statements(gimple: str) -> FloatingPoint:
    """The calls, directives and attributes of a ``-fdump-tree-gimple-lineno``."""
    calls: dict[str, Where] = {}
    by_std: dict[str, Where] = {}  # std::cbrt calls __builtin_cbrtf in a header: the project's own line says more
    complex_arithmetic: Where | None = None
    reductions: dict[str, Where] = {}
    modes: dict[str, Where] = {}
    bits: Where | None = None
    attributes: dict[Flags, Where] = {}
    waiting: list[Flags] = []
    types: dict[str, str] = {}  # of the function's variables
    where = ""
    for line in gimple.splitlines():
        place = _PLACE.search(line)
        where = f"{place[1]}:{place[2]}" if place else where
        if not line.startswith(" "):
            types = {} if line == "}" else types
            waiting += _flags(line)
        if place:
            attributes |= {flags: where for flags in waiting if flags not in attributes}
            waiting = []
        if declared := _DECLARED.match(line):
            types[declared[2]] = declared[1]
            complex_arithmetic = complex_arithmetic or (where if _COMPLEX.match(declared[1]) else None)
        elif directive := _DIRECTIVE.search(line):
            reductions |= {text: where for text in _reorders(directive, types) if text not in reductions}
        elif line.startswith(" "):
            for prefix, name in _CALL.findall(line):
                if (stem := stem_of(name)) is not None:
                    known, key = (by_std, stem) if prefix == "std::" else (calls, prefix + name)
                    known.setdefault(key, where)
            bits = bits or (where if _SIGNS.search(line) else None)
            if setter := mode_set_by(line):
                modes.setdefault(setter, where)
    for name, place_of_call in calls.items():
        stem = stem_of(name.removeprefix("__builtin_"))
        if place_of_call.startswith("/") and stem in by_std:
            calls[name] = by_std[stem]
    return FloatingPoint(
        calls=calls,
        complex_arithmetic=complex_arithmetic,
        reductions=reductions,
        modes=modes,
        bits=bits,
        attributes=attributes,
    )


def _reorders(directive: re.Match[str], types: Mapping[str, str]) -> Iterator[str]:
    """What of a directive lets values be combined in another order; nothing if all of them are integers."""
    kind, text = directive.groups()
    if text.startswith("atomic"):
        yield f"{kind} atomic"
    for operator, variable in _REDUCTION.findall(text):
        if operator.strip() not in _BITWISE and not _INTEGER.fullmatch(types.get(variable, "?")):
            yield f"{kind} reduction({operator.strip()}:{variable})"


def _flags(line: str) -> Iterator[Flags]:
    """The flags that the attributes of a function add: ``optimize ("fast-math", 3)`` is ``-ffast-math -O3``."""
    for attribute, arguments in _ATTRIBUTE.findall(line):
        words = [word for text in re.findall(r'"([^"]*)"|(\d+)', arguments) for word in "".join(text).split(",")]
        written = tuple(_as_flag(attribute, word.strip()) for word in words if word.strip() not in ("", "default"))
        if attribute == "target_clones":
            yield from ((flag,) for flag in written)
        elif written:
            yield written


def _as_flag(attribute: str, word: str) -> str:
    if word.startswith("-"):
        return word
    if attribute == "optimize":
        return f"-O{word}" if word.isdecimal() else f"-{'' if word.startswith('O') else 'f'}{word}"
    return f"-m{word}"
