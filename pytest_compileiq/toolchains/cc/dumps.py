"""What a source does with floating point that may be rounded in another way, read from what compilers write of it.

A compiler may change the last bit of functions of the maths library that no library rounds correctly. gcc
folds a call of constants with MPFR, which rounds correctly, clang with the library of the machine that compiles, and
both write ``pow(x, 2.0)`` as ``x * x``. Which arguments are constants depends on inlining and unrolling, so that
equal calls give different bits in two builds. Functions that are exact by definition (``sqrt``, ``fma``, ``floor``,
``fmod``) are not here. ``fmax`` and ``fmin`` are: which zero they give of 0.0 and -0.0 is left open. GCC manual, "Other
Built-in Functions Provided by GCC"; glibc manual, "Known Maximum Errors in Math Functions"; C11, F.10.9.2.

Of gcc are read: its statements (``-fdump-tree-gimple``) and operations (``-fdump-rtl-expand``).
Statements have names, directives, attributes and lines; operations have machine modes, which are types without their
names: ``DF`` is double, ``V8SF`` eight floats. Both are GCC's own, documented in its "Internals" manual, and the same
for every processor and every language in front.

Of clang is read LLVM IR before any pass, in which each operation says what relaxes it. LLVM Language Reference Manual,
"Fast-Math Flags", "llvm.fmuladd.*" and "llvm.loop" metadata.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

Where = str  # file:line
Flags = tuple[str, ...]


@dataclass
class FloatingPoint:
    """What one source does with floating point; each with the first place where it does.

    Attributes:
        arithmetic: float and double are added, multiplied, divided, or a root is taken.
        products_meet_sums: a type is both multiplied and added, so that the two may become one operation.
        products_meet_both: a type is multiplied, added and subtracted.
        calls: function of the maths library, as the compiler names it → the first call.
        complex_arithmetic: complex numbers are multiplied or divided.
        reductions: a directive asks for, or allows, another order of summation.
        modes: what sets how operations round, or whether they flush denormals to zero.
        bits: the bits of a computed value are read as an integer, or its sign is.
        attributes: the flags that an attribute or a pragma adds for some functions.
        relaxed: what single operations are relaxed by, in the compiler's words.
    """

    arithmetic: Where | None = None
    products_meet_sums: Where | None = None
    products_meet_both: Where | None = None
    calls: dict[str, Where] = field(default_factory=dict)
    complex_arithmetic: Where | None = None
    reductions: dict[str, Where] = field(default_factory=dict)
    modes: dict[str, Where] = field(default_factory=dict)
    bits: Where | None = None
    attributes: dict[Flags, Where] = field(default_factory=dict)
    relaxed: dict[str, Where] = field(default_factory=dict)

    @property
    def is_absent(self) -> bool:
        return not (self.arithmetic or self.calls or self.complex_arithmetic or self.modes)


def united(first: FloatingPoint, second: FloatingPoint) -> FloatingPoint:
    """What either has; where both have something, the place of the first."""
    merged: dict[str, Any] = {}
    for each in fields(FloatingPoint):
        here, there = getattr(first, each.name), getattr(second, each.name)
        merged[each.name] = {**there, **here} if isinstance(here, dict) else here or there
    return FloatingPoint(**merged)


_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "cospi", "erf", "erfc", "exp", "exp10",
    "exp2", "expm1", "gamma", "j0", "j1", "lgamma", "log", "log10", "log1p", "log2", "pow10", "sin", "sinh", "sinpi",
    "tan", "tanh", "tanpi", "tgamma", "y0", "y1",
)  # fmt: skip
_COMPLEX_FUNCTIONS = (
    "cabs", "cacos", "cacosh", "carg", "casin", "casinh", "catan", "catanh", "ccos", "ccosh", "cexp", "clog", "csin",
    "csinh", "csqrt", "ctan", "ctanh",
)  # fmt: skip
_CALLS: Mapping[str, tuple[str, Sequence[str]]] = {  # stem → (parameters, arguments of each call that is tried)
    **dict.fromkeys(_UNARY, ("T", ["(T)0.7"])),
    **dict.fromkeys(_COMPLEX_FUNCTIONS, ("_Complex T", ["(T)0.7"])),
    **dict.fromkeys(("atan2", "hypot", "fmax", "fmin"), ("T, T", ["(T)0.7, (T)1.3"])),
    "acosh": ("T", ["(T)1.7"]),
    "cpow": ("_Complex T, _Complex T", ["(T)0.7, (T)1.3"]),
    "jn": ("int, T", ["3, (T)0.7"]),
    "yn": ("int, T", ["3, (T)0.7"]),
    "pow": ("T, T", ["(T)0.7, (T)1.3", "x, (T)2"]),
    "powi": ("T, int", ["(T)0.7, 7", "x, 7"]),
    "sincos": ("T, T *, T *", ["(T)0.7, &x, &x"]),
}
_TYPES = {"": "double", "f": "float", "l": "long double"}
_VOID, _REAL = frozenset({"sincos"}), frozenset({"cabs", "carg"})
_BUILTIN = "__builtin_"
_TRIED = "tried"


def stem_of(name: str) -> str | None:
    """``cbrt`` of ``cbrtf``; None of a function that is no inexact one of the maths library."""
    if name in _CALLS:
        return name
    return name[:-1] if name[-1:] in ("f", "l") and name[:-1] in _CALLS else None


def calls_to_try(names: Sequence[str]) -> str:
    """A program in C or C++ that calls each of ``names`` with constants, for ``replaced_calls``."""
    lines = []
    for number, name in enumerate(names):
        plain = name.removeprefix(_BUILTIN)
        stem = stem_of(plain) or plain
        real = _TYPES[plain.removeprefix(stem)]
        parameters, each = _CALLS[stem]
        result = f"_Complex {real}" if "_Complex" in parameters and stem not in _REAL else real
        if not name.startswith(_BUILTIN):
            returned = "void" if stem in _VOID else result
            lines.append(f"{returned} {name}({_typed(parameters, real)});")
        for index, arguments in enumerate(each):
            call = f"{name}({_typed(arguments, real)})"
            body = f"{call}; return x;" if stem in _VOID else f"return {call};"
            lines.append(f"{result} {_TRIED}_{number}_{index}({real} x) {{ {body} }}")
    text = "\n".join(lines)
    return f'#ifdef __cplusplus\nextern "C" {{\n#endif\n{text}\n#ifdef __cplusplus\n}}\n#endif\n'


def _typed(text: str, real: str) -> str:
    return re.sub(r"\bT\b", real, text)


def replaced_calls(names: Sequence[str], assembly: str) -> list[str]:
    """Those of ``names`` whose calls in ``calls_to_try`` the compiler did not keep."""
    bodies = re.split(rf"^_?{_TRIED}_(\d+)_\d+:", assembly, flags=re.MULTILINE)
    replaced = set()
    for number, body in zip(bodies[1::2], bodies[2::2], strict=True):
        plain = names[int(number)].removeprefix(_BUILTIN)
        symbol = r"__powi[sdxt]f2" if plain.startswith("powi") else re.escape(plain)
        if not re.search(rf"(?<![\w.]){symbol}\b", body):
            replaced.add(names[int(number)])
    return [name for name in names if name in replaced]


# What compilers write of it: calls, intrinsics and instructions that write a control register.
_SETS_MODE = re.compile(
    r"\b(?:fesetround|fesetenv|feupdateenv|_mm_setcsr|ieee_set_(?:rounding|underflow)_mode|ieee_set_(?:modes|status))\b"
    r"|\b(?:ldmxcsr|fldcw|fldenv|fpcr)\b"
)


def mode_set_by(line: str) -> str | None:
    """What in a line of a compiler's own text sets how operations round, or whether they flush denormals to zero."""
    setter = _SETS_MODE.search(line)
    return setter[0] if setter else None


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
