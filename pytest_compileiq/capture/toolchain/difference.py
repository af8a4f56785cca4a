"""How memory after a call differs from what it should hold, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def difference(
    got: NDArray[np.uint8], wanted: NDArray[np.uint8], dtype: str, *, rtol: float, atol: float
) -> str | None:
    """In how many values ``got`` differs from ``wanted``, of equally many bytes; None if it does not.

    Floats may differ within the tolerances, as in ``numpy.isclose``, and NaN equals NaN; without tolerances, and for
    all other types, every bit counts.
    """
    if np.array_equal(got, wanted):
        return None
    element = np.dtype(dtype)
    if element.kind not in "fciu" or len(got) % element.itemsize:
        element = np.dtype(np.uint8)
    values, recorded = got.view(element), wanted.view(element)
    is_tolerant = element.kind in "fc" and bool(rtol or atol)
    if is_tolerant:
        close = np.isclose(values, recorded, rtol=rtol, atol=atol, equal_nan=True)
    else:
        close = (got.reshape(-1, element.itemsize) == wanted.reshape(-1, element.itemsize)).all(axis=1)
    if close.all():
        return None
    at = int(np.argmin(close))
    beyond = f" beyond rtol={rtol:g}, atol={atol:g}" if is_tolerant else ""
    first = f"the first at index {at}: {values[at]} instead of {recorded[at]}"
    return f"{np.count_nonzero(~close)} of {len(close)} values{beyond}, {first}{_largest(values, recorded)}"


def _largest(values: NDArray[Any], recorded: NDArray[Any]) -> str:
    """The least relative tolerance that would do, of floats."""
    if values.dtype.kind not in "fc":
        return ""
    with np.errstate(all="ignore"):
        relative = np.abs((values - recorded) / recorded)
    finite = relative[np.isfinite(relative)]
    return f"; the largest relative difference is {finite.max():.2g}" if finite.size else ""
