"""What a source does with floating point that a compiler may be free to round in another way. Values alone.

A compiler may change the last bit of functions of the maths library that no library rounds correctly.
gcc folds a call of constants with MPFR, which rounds correctly, clang with the library of the machine that compiles,
and both write ``pow(x, 2.0)`` as ``x * x``. Which arguments are constants depends on inlining and unrolling, so that
equal calls give different bits in two builds. Functions that are exact by definition (``sqrt``, ``fma``, ``floor``,
``fmod``) are not here. ``fmax`` and ``fmin`` are: which zero they give of 0.0 and -0.0 is left open. GCC manual, "Other
Built-in Functions Provided by GCC"; glibc manual, "Known Maximum Errors in Math Functions"; C11, F.10.9.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
_COMPLEX = (
    "cabs", "cacos", "cacosh", "carg", "casin", "casinh", "catan", "catanh", "ccos", "ccosh", "cexp", "clog", "csin",
    "csinh", "csqrt", "ctan", "ctanh",
)  # fmt: skip
_CALLS: Mapping[str, tuple[str, Sequence[str]]] = {  # stem → (parameters, arguments of each call that is tried)
    **dict.fromkeys(_UNARY, ("T", ["(T)0.7"])),
    **dict.fromkeys(_COMPLEX, ("_Complex T", ["(T)0.7"])),
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
