"""Reads what clang writes of a source before any optimisation, in which each operation says what relaxes it.

LLVM Language Reference Manual, "Fast-Math Flags", "llvm.fmuladd.*" and "llvm.loop" metadata.
"""

from __future__ import annotations

import re

from pytest_compileiq.toolchains.cc.floating_point import FloatingPoint, Where, stem_of
from pytest_compileiq.toolchains.cc.floating_point_environment import mode_set_by

# clang's emitted text before passes: operations of its own front end, with lines from -gline-tables-only
_OPERATION = re.compile(r"= (f(?:add|sub|mul|div|rem)) ((?:[a-z]+ )*)(?:<\d+ x )?(?:half|bfloat|float|double)\b")
_CALL = re.compile(r"\bcall ((?:[a-z]+ )*)")
_GLOBAL = re.compile(r"@([\w.]+)")
_VARIABLE = re.compile(r"^@([\w.]+) = ", re.MULTILINE)
_LLVM_NAMES = {"maxnum": "fmax", "minnum": "fmin"}
_RELAXING = frozenset({"reassoc", "arcp", "nnan", "ninf", "nsz", "afn", "fast"})
_MAY_FUSE = frozenset({"contract", "fast"})
_AT = re.compile(r"!dbg !(\d+)")
_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(DILocation|DI\w+)\((.*)\)$", re.MULTILINE)
_REORDERS_LOOP = re.compile(r'!"llvm\.loop\.vectorize\.(?:enable", i1 true|width", i32 (?!1\b)\d+)')
_REORDERED_ATOMIC = re.compile(r"atomicrmw f(?:add|sub)|@__kmpc_(?:reduce|atomic_(?:float|cmplx))")
_SIGN = re.compile(r"@llvm\.copysign|= bitcast (?:half|bfloat|float|double) .* to i\d+")


def read_ir(text: str) -> FloatingPoint:
    """The floating point of LLVM IR; places are those of the lines' debug locations."""
    places = _Places(text)
    seen = _Seen()
    variables = frozenset(_VARIABLE.findall(text))
    for line in text.splitlines():
        if not line.startswith((" ", "@")):
            continue
        where = places.of(line)
        for name in _GLOBAL.findall(line):  # a function's address may be called anywhere, from a table too
            if name not in variables:
                seen.note_function(name, where)
        if operation := _OPERATION.search(line):
            seen.note_operation(operation[1], frozenset(operation[2].split()), where)
        elif call := _CALL.search(line):
            seen.note_relaxed(frozenset(call[1].split()), where)
        if _SIGN.search(line):
            seen.bits = seen.bits or where
        if setter := mode_set_by(line):
            seen.modes.setdefault(setter, where)
        if _REORDERED_ATOMIC.search(line):
            seen.reductions.setdefault("atomic", where)
    if seen.arithmetic and _REORDERS_LOOP.search(text):
        seen.reductions.setdefault("a loop that is to be vectorised", places.source)
    return FloatingPoint(
        arithmetic=seen.arithmetic,
        products_meet_sums=seen.fused,
        calls=seen.calls,
        reductions=seen.reductions,
        modes=seen.modes,
        bits=seen.bits,
        relaxed=seen.relaxed,
    )


class _Seen:
    """What was met so far, each with its first place."""

    def __init__(self) -> None:
        self.arithmetic: Where | None = None
        self.fused: Where | None = None
        self.bits: Where | None = None
        self.calls: dict[str, Where] = {}
        self.reductions: dict[str, Where] = {}
        self.modes: dict[str, Where] = {}
        self.relaxed: dict[str, Where] = {}

    def note_operation(self, code: str, flags: frozenset[str], where: Where) -> None:
        self.arithmetic = self.arithmetic or where
        if flags & _MAY_FUSE and code in ("fmul", "fdiv"):
            self.fused = self.fused or where
        self.note_relaxed(flags, where)

    def note_function(self, name: str, where: Where) -> None:
        if name.startswith("llvm.fmuladd."):
            self.arithmetic = self.arithmetic or where
            self.fused = self.fused or where
        if stem_of(plain := _library_name(name)) is not None:
            self.calls.setdefault(plain, where)

    def note_relaxed(self, flags: frozenset[str], where: Where) -> None:
        for flag in sorted(flags & _RELAXING):
            self.relaxed.setdefault(flag, where)


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
