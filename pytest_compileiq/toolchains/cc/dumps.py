"""Reads what compilers write of a source, each with its place.

Of gcc: its statements (``-fdump-tree-gimple``) and operations (``-fdump-rtl-expand``).
Statements have names, directives, attributes and lines; operations have machine modes, which are types without their
names: ``DF`` is double, ``V8SF`` eight floats. Both are GCC's own, documented in its "Internals" manual, and the same
for every processor and every language in front.

Of clang: LLVM IR before any pass, in which each operation says what relaxes it. LLVM Language Reference Manual,
"Fast-Math Flags", "llvm.fmuladd.*" and "llvm.loop" metadata.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from pytest_compileiq.toolchains.cc.floating_point import Flags, FloatingPoint, Where, mode_set_by, stem_of

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
    seen = FloatingPoint()
    products: dict[str, Where] = {}
    sums: set[tuple[str, str]] = set()
    for operations, others, where in _instructions(rtl):
        seen.arithmetic = seen.arithmetic or (where if operations else None)
        seen.complex_arithmetic = seen.complex_arithmetic or (where if "complex" in others else None)
        seen.bits = seen.bits or (where if "bits" in others else None)
        for code, mode in operations:
            if code in _PRODUCTS:
                products.setdefault(mode, where)
            elif code in _SUMS:
                sums.add((code, mode))
    met = {mode: [code for code in _SUMS if (code, mode) in sums] for mode in products}
    seen.products_meet_sums = next((where for mode, where in products.items() if met[mode]), None)
    seen.products_meet_both = next((where for mode, where in products.items() if len(met[mode]) == len(_SUMS)), None)
    return seen


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
    seen = FloatingPoint()
    by_std: dict[str, Where] = {}  # std::cbrt calls __builtin_cbrtf in a header: the project's own line says more
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
            seen.attributes |= {flags: where for flags in waiting if flags not in seen.attributes}
            waiting = []
        if declared := _DECLARED.match(line):
            types[declared[2]] = declared[1]
            seen.complex_arithmetic = seen.complex_arithmetic or (where if _COMPLEX.match(declared[1]) else None)
        elif directive := _DIRECTIVE.search(line):
            seen.reductions |= {text: where for text in _reorders(directive, types) if text not in seen.reductions}
        elif line.startswith(" "):
            for prefix, name in _CALL.findall(line):
                if (stem := stem_of(name)) is not None:
                    known, key = (by_std, stem) if prefix == "std::" else (seen.calls, prefix + name)
                    known.setdefault(key, where)
            seen.bits = seen.bits or (where if _SIGNS.search(line) else None)
            if setter := mode_set_by(line):
                seen.modes.setdefault(setter, where)
    for name, place_of_call in seen.calls.items():
        stem = stem_of(name.removeprefix("__builtin_"))
        if place_of_call.startswith("/") and stem in by_std:
            seen.calls[name] = by_std[stem]
    return seen


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


# clang's emitted text before passes: operations of its own front end, with lines from -gline-tables-only
_IR_OPERATION = re.compile(r"= (f(?:add|sub|mul|div|rem)) ((?:[a-z]+ )*)(?:<\d+ x )?(?:half|bfloat|float|double)\b")
_IR_CALL = re.compile(r"\bcall ((?:[a-z]+ )*)")
_GLOBAL = re.compile(r"@([\w.]+)")
_IR_VARIABLE = re.compile(r"^@([\w.]+) = ", re.MULTILINE)
_LLVM_NAMES = {"maxnum": "fmax", "minnum": "fmin"}
_RELAXING = frozenset({"reassoc", "arcp", "nnan", "ninf", "nsz", "afn", "fast"})
_MAY_FUSE = frozenset({"contract", "fast"})
_AT = re.compile(r"!dbg !(\d+)")
_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(DILocation|DI\w+)\((.*)\)$", re.MULTILINE)
_REORDERS_LOOP = re.compile(r'!"llvm\.loop\.vectorize\.(?:enable", i1 true|width", i32 (?!1\b)\d+)')
_REORDERED_ATOMIC = re.compile(r"atomicrmw f(?:add|sub)|@__kmpc_(?:reduce|atomic_(?:float|cmplx))")
_SIGN = re.compile(r"@llvm\.copysign|= bitcast (?:half|bfloat|float|double) .* to i\d+")


def read_ir(text: str) -> FloatingPoint:
    """The floating point of LLVM IR before any pass; places are those of the lines' debug locations."""
    places = _Places(text)
    seen = FloatingPoint()
    variables = frozenset(_IR_VARIABLE.findall(text))
    for line in text.splitlines():
        if not line.startswith((" ", "@")):
            continue
        where = places.of(line)
        for name in _GLOBAL.findall(line):  # a function's address may be called anywhere, from a table too
            if name in variables:
                continue
            if name.startswith("llvm.fmuladd."):
                seen.arithmetic = seen.arithmetic or where
                seen.products_meet_sums = seen.products_meet_sums or where
            if stem_of(plain := _library_name(name)) is not None:
                seen.calls.setdefault(plain, where)
        flags: Collection[str] = ()
        if operation := _IR_OPERATION.search(line):
            flags = operation[2].split()
            seen.arithmetic = seen.arithmetic or where
            if not _MAY_FUSE.isdisjoint(flags) and operation[1] in ("fmul", "fdiv"):
                seen.products_meet_sums = seen.products_meet_sums or where
        elif call := _IR_CALL.search(line):
            flags = call[1].split()
        for flag in sorted(_RELAXING.intersection(flags)):
            seen.relaxed.setdefault(flag, where)
        if _SIGN.search(line):
            seen.bits = seen.bits or where
        if setter := mode_set_by(line):
            seen.modes.setdefault(setter, where)
        if _REORDERED_ATOMIC.search(line):
            seen.reductions.setdefault("atomic", where)
    if seen.arithmetic and _REORDERS_LOOP.search(text):
        seen.reductions.setdefault("a loop that is to be vectorised", places.source)
    return seen


def _library_name(name: str) -> str:
    """``cosf`` for the intrinsic ``llvm.cos.f32``, and every other name as it is."""
    intrinsic = re.fullmatch(r"llvm\.(\w+)\.(?:v\d+)?f(32|64|80)(?:\.\w+)?", name)
    if intrinsic is None:
        return name
    return _LLVM_NAMES.get(intrinsic[1], intrinsic[1]) + {"32": "f", "64": "", "80": "l"}[intrinsic[2]]


class _Places:
    """The file and line of instructions, from the debug metadata at the end of the text."""

    def __init__(self, text: str) -> None:
        self._nodes = {number: (kind, fields) for number, kind, fields in _NODE.findall(text)}
        named = re.search(r'^source_filename = "([^"]*)"', text, re.MULTILINE)
        self.source = named[1] if named else ""

    def of(self, line: str) -> Where:
        """``file:line`` of an instruction, or the source where it has no line."""
        at = _AT.search(line)
        kind, fields = self._nodes.get(at[1], ("", "")) if at else ("", "")
        number = re.search(r"\bline: (\d+)", fields)
        return f"{self._file(fields)}:{number[1]}" if kind == "DILocation" and number else self.source

    def _file(self, fields: str) -> str:
        scope = re.search(r"\b(?:scope|file): !(\d+)", fields)
        while scope:
            kind, fields = self._nodes.get(scope[1], ("", ""))
            if kind == "DIFile":
                name = re.search(r'filename: "([^"]*)"', fields)
                return name[1] if name else self.source
            scope = re.search(r"\bfile: !(\d+)", fields) or re.search(r"\bscope: !(\d+)", fields)
        return self.source
