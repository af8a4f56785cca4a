"""Whether a source names what environment options may change: errno, or the flags of floating-point exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ERRNO = re.compile(rb"\b(?:errno|math_errhandling)\b")
_FENV = re.compile(
    rb"\b(?:fenv\.h|cfenv|FENV_ACCESS|fe(?:clear|test|raise|enable|disable|get)except|fe[gs]etexceptflag|fe[gs]etenv"
    rb"|feholdexcept|feupdateenv|_mm_[gs]etcsr|_MM_[GS]ET_EXCEPTION_\w+|ieee_(?:exceptions|arithmetic|features))\b",
    re.IGNORECASE,
)


def named_by(contents: Iterable[bytes]) -> frozenset[str]:
    """The options of the class ``environment`` that change what one of ``contents`` names, if only in a comment."""
    options: set[str] = set()
    for content in contents:
        options |= {"-fno-math-errno"} if _ERRNO.search(content) else set()
        options |= {"-fno-trapping-math"} if _FENV.search(content) else set()
    return frozenset(options)
