"""How far apart two arrays are, and how far one is from a reference. NaN equals NaN everywhere here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.rules.stress import Difference

NUMBERS = "biufc"  # the kinds of types whose values have distances
_MOST_ULPS = 2**63 - 1
_APART = 0.1  # of the largest magnitude: no rounding is as far off
_ENOUGH = 1 << 16
_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_LONGEST_VALUE = 100


def farthest(output: str, baseline: NDArray[Any], other: NDArray[Any]) -> Difference | None:
    """Where two arrays of one shape and type are farthest apart; None where all bits are the same."""
    before, after = np.ravel(baseline), np.ravel(other)
    unlike = _unlike(before, after)
    if not unlike.any():
        return None
    distances = _relative(before, after) if before.dtype.kind in NUMBERS else unlike.astype(np.float64)
    index = int(np.argmax(distances)) if np.max(distances) > 0 else int(np.argmax(unlike))
    first, second = (f"{value!s:.{_LONGEST_VALUE}}" for value in (before[index], after[index]))
    return Difference(output, index, first, second, _ulps(before[index], after[index]), float(distances[index]))


def share_apart(baseline: NDArray[Any], other: NDArray[Any]) -> float:
    """The share of numbers that lie more than a tenth of the baseline's largest magnitude apart; 0 of other types.

    Args:
        baseline, other: of one shape and type; of large ones some thousands of values, picked by chance, are compared.
    """
    before, after = np.ravel(baseline), np.ravel(other)
    if before.size > _ENOUGH:
        picked = np.random.default_rng(0).integers(before.size, size=_ENOUGH)
        before, after = before[picked], after[picked]
    if before.dtype.kind not in NUMBERS or not before.size or before.tobytes() == after.tobytes():
        return 0.0
    return float((_relative(before, after) > _APART).mean())


def error_in_half_ulps(array: NDArray[Any], reference: NDArray[Any]) -> float:
    """The largest error of ``array`` in halves of an ulp of the largest magnitude of ``reference``, at least 1.

    Below half an ulp a result cannot be told from the correctly rounded one. Infinite where one alone is no number.
    """
    wide, exact = _wide(array), _wide(reference)
    half = np.longdouble(1) / 2
    if array.dtype.kind in "fc":
        limits = np.finfo(array.dtype)
        largest = np.minimum(_magnitude(exact), limits.max).astype(limits.dtype)
        half = np.spacing(largest).astype(np.longdouble) / 2
    return max(1.0, float(_distances(wide, exact).max(initial=0.0) / half))


def bytes_differ(before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.bool_]:
    """For each element of two arrays of one shape and type, flat: whether their bytes differ, as of NaNs and zeros."""
    shape = before.size, before.itemsize
    bits = [np.frombuffer(array.tobytes(), np.uint8).reshape(shape) for array in (before, after)]
    return np.asarray((bits[0] != bits[1]).any(axis=1))


def _unlike(before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.bool_]:
    if before.dtype.kind == "c":
        return _unlike(before.real, after.real) | _unlike(before.imag, after.imag)
    unlike = bytes_differ(before, after)
    return unlike & ~(np.isnan(before) & np.isnan(after)) if before.dtype.kind == "f" else unlike


def _relative(before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.float64]:
    """Each distance over the largest magnitude of ``before``; where that is 0, of ``after``."""
    baseline, other = _wide(before), _wide(after)
    scale = _magnitude(baseline) or _magnitude(other) or 1.0
    return (_distances(other, baseline) / scale).astype(np.float64)


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    """In the widest type that there is, so that a distance of neighbours is not rounded."""
    return array.astype(np.clongdouble if array.dtype.kind == "c" else np.longdouble)


def _magnitude(wide: NDArray[Any]) -> Any:
    sizes = np.abs(wide)
    return sizes[np.isfinite(sizes)].max(initial=0.0)


def _distances(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    if "c" in (one.dtype.kind, other.dtype.kind):  # each part is a number or none by itself
        return np.asarray(np.hypot(_distances(one.real, other.real), _distances(one.imag, other.imag)))
    with np.errstate(invalid="ignore", over="ignore"):
        distances = np.abs(one - other)
    alike = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(alike, 0.0, np.where(np.isnan(distances), np.inf, distances))


def _ulps(before: Any, after: Any) -> int:
    """The floating-point numbers between two values, the larger count of a complex number's parts."""
    kind = before.dtype.kind
    if kind == "c":
        return max(_ulps(before.real, after.real), _ulps(before.imag, after.imag))
    if kind in "biu":
        return min(abs(int(before) - int(after)), _MOST_ULPS)
    if kind != "f":
        return 0
    if math.isnan(before) or math.isnan(after):
        return 0 if math.isnan(before) == math.isnan(after) else _MOST_ULPS
    return min(abs(_place(before) - _place(after)), _MOST_ULPS)


def _place(value: Any) -> int:
    """The number of a float among all of its type in order; both zeros have the number 0."""
    narrow = value if value.dtype.itemsize in _BITS else np.float64(value)
    bits = int(narrow.view(_BITS[narrow.dtype.itemsize]))
    sign = 1 << (8 * narrow.dtype.itemsize - 1)
    return sign - bits if bits & sign else bits
