"""How far two contents of one memory are apart, without numpy, which a program need not have."""

from __future__ import annotations

import math
from array import array

_FLOATS = {"<f4": "f", "<f8": "d", "<c8": "f", "<c16": "d"}  # as numpy spells them → as array does


def relative_difference(got: bytes, wanted: bytes, dtype: str) -> float:
    """The largest difference of two values, over the largest magnitude that is wanted; 0 where every bit is the same.

    Infinite where the values are no floats, or one alone is NaN or infinite.
    """
    if got == wanted:
        return 0.0
    code = _FLOATS.get(dtype)
    if code is None or len(got) != len(wanted) or len(got) % array(code).itemsize:
        return math.inf
    largest = scale = 0.0
    for one, other in zip(array(code, got), array(code, wanted)):  # noqa: B905 - for Python 3.9
        if math.isfinite(other):
            scale = max(scale, abs(other))
        if one == other or (math.isnan(one) and math.isnan(other)):
            continue
        if not (math.isfinite(one) and math.isfinite(other)):
            return math.inf
        largest = max(largest, abs(one - other))
    return largest / scale if scale else math.inf if largest else 0.0
