"""The least tolerance of a captured kernel: how far its baseline, called again on the same data, is from itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FLOOR_CALLS = 10  # of each recorded call: the first two of a process often agree, before its threads are all awake
_SMALL_SAMPLE = 4  # some calls show little of how far calls differ
# What right implementations differ by, relative: the defaults of torch.testing.assert_close, by the bytes of a real.
_PRECISION = {2: 1e-3, 4: 1.3e-6, 8: 1e-7, 16: 1e-7}


class Floor:
    """The least tolerances of a kernel's places; ``measure`` is asked once, when something differs.

    Args:
        function: the kernel's name.
        measure: gives place → ``own_difference`` of the baseline, the largest of all recorded calls.
    """

    def __init__(self, function: str, measure: Callable[[], Mapping[str, float]]) -> None:
        self._function = function
        self._measure = measure

    def of(self, place: str, recorded: NDArray[np.uint8], dtype: str) -> float:
        """The absolute tolerance of ``place`` where it held ``recorded``; 0 where the baseline repeats itself.

        Raises:
            AssertionError: the baseline differs from itself by more than the precision of its type.
        """
        own = self._own.get(place, 0.0)
        if not own:
            return 0.0
        values = _floats(recorded, dtype)
        precision = 0.0 if values is None else _PRECISION[_real_bytes(values)]
        if values is None or own > precision:
            raise AssertionError(
                f"{self._function}: {place} of the baseline, called again on the same data, differs from itself by "
                f"{own:.2g} of its largest value, beyond {precision:g}, the precision of its type: it is "
                "nondeterministic, and sets no tolerance; give your own: check(rtol=…, atol=…)"
            )
        return _SMALL_SAMPLE * own * _largest(values)

    @cached_property
    def _own(self) -> Mapping[str, float]:
        return self._measure()


def own_difference(got: NDArray[np.uint8], before: NDArray[np.uint8], dtype: str) -> float:
    """The largest difference of two calls' floats, relative to the largest value; infinite for all other types.

    It is of the largest value, since cancellation makes small values differ by any factor.
    """
    if np.array_equal(got, before):
        return 0.0
    values, others = _floats(got, dtype), _floats(before, dtype)
    if values is None or others is None:
        return np.inf
    with np.errstate(all="ignore"):
        differences = np.abs(values - others)
    same = (values == others) | (np.isnan(values) & np.isnan(others))
    differences[same] = 0.0
    largest = float(differences.max())
    scale = _largest(others)
    return largest / scale if np.isfinite(largest) and scale else np.inf if largest else 0.0


def _floats(data: NDArray[np.uint8], dtype: str) -> NDArray[np.floating] | None:
    """The values, if they are floats of a known precision."""
    element = np.dtype(dtype)
    if element.kind not in "fc" or len(data) % element.itemsize:
        return None
    values = data.view(element)
    return values if _real_bytes(values) in _PRECISION else None


def _real_bytes(values: NDArray[np.floating]) -> int:
    return values.real.dtype.itemsize


def _largest(values: NDArray[np.floating]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0
