"""Differences are told by value, and every bit counts where no tolerance is given."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.capture.toolchain.replay import difference


def told(got, wanted, dtype: str, rtol: float = 0.0, atol: float = 0.0) -> str | None:
    first, second = (np.array(each, dtype).view(np.uint8) for each in (got, wanted))
    return difference(first, second, dtype, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("got", "wanted", "dtype", "tolerances", "said"),
    [
        ([1.0, 2.0], [1.0, 2.0], "<f8", {}, None),
        ([1.0, 2.5], [1.0, 2.0], "<f8", {}, "1 of 2 values, the first at index 1: 2.5 instead of 2.0; the largest relative difference is 0.25"),
        ([1.0, 2.5], [1.0, 2.0], "<f8", {"rtol": 0.2}, "1 of 2 values beyond rtol=0.2, atol=0, the first at index 1"),
        ([1.0, 2.5], [1.0, 2.0], "<f8", {"rtol": 0.3}, None),
        ([0.0], [-0.0], "<f8", {}, "1 of 1 values, the first at index 0: 0.0 instead of -0.0"),
        ([0.0], [-0.0], "<f8", {"rtol": 1e-9}, None),
        ([np.nan, 1.0], [np.nan, 1.0], "<f4", {"rtol": 1e-9}, None),
        ([np.nan, 1.0], [1.0, 1.0], "<f4", {"atol": 9.0}, "1 of 2 values beyond rtol=0, atol=9"),
        ([3, 4], [3, 5], "<i4", {"rtol": 9.0}, "1 of 2 values, the first at index 1: 4 instead of 5"),
    ],
)  # fmt: skip
def test_a_difference_is_told(got, wanted, dtype, tolerances, said):
    result = told(got, wanted, dtype, **tolerances)
    assert result is None if said is None else result.startswith(said)


def test_what_has_no_number_type_is_told_in_bytes():
    got, wanted = np.arange(6, dtype=np.uint8), np.zeros(6, np.uint8)
    assert difference(got, wanted, "|V3", rtol=1.0, atol=0.0).startswith("5 of 6 values, the first at index 1: 1")
    assert difference(got, wanted, "<f8", rtol=1.0, atol=0.0).startswith("5 of 6 values")  # no whole number of them
