"""Whether a source names what environment options may change, errno or exception flags, or sets a rounding mode."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ERRNO = re.compile(rb"\b(?:errno|math_errhandling)\b")
_FENV = re.compile(
    rb"\b(?:fenv\.h|cfenv|FENV_ACCESS|fe(?:clear|test|raise|enable|disable|get)except|fe[gs]etexceptflag|fe[gs]etenv"
    rb"|feholdexcept|feupdateenv|_mm_[gs]etcsr|_MM_[GS]ET_EXCEPTION_\w+|ieee_(?:exceptions|arithmetic|features))\b",
    re.IGNORECASE,
)
# What compilers write of it: calls, intrinsics and instructions that write a control register.
_SETS_MODE = re.compile(
    r"\b(?:fesetround|fesetenv|feupdateenv|_mm_setcsr|ieee_set_(?:rounding|underflow)_mode|ieee_set_(?:modes|status))\b"
    r"|\b(?:ldmxcsr|fldcw|fldenv|fpcr)\b"
)


def mode_set_by(line: str) -> str | None:
    """What in a line of a compiler's own text sets how operations round, or whether they flush denormals to zero."""
    setter = _SETS_MODE.search(line)
    return setter[0] if setter else None


def named_by(contents: Iterable[bytes]) -> frozenset[str]:
    """The options of the class ``environment`` that change what one of ``contents`` names, if only in a comment."""
    options: set[str] = set()
    for content in contents:
        options |= {"-fno-math-errno"} if _ERRNO.search(content) else set()
        options |= {"-fno-trapping-math"} if _FENV.search(content) else set()
    return frozenset(options)
