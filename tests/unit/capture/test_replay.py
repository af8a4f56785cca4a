"""Differences are told by value, and every bit counts where no tolerance is given."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_compileiq.capture.toolchain.replay import Floor, difference, own_difference


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


@pytest.mark.parametrize(
    ("got", "before", "dtype", "own"),
    [
        ([1.0, 2.0], [1.0, 2.0], "<i4", 0.0),
        ([1.0, 2.0], [1.0, 2.5], "<f8", 0.2),
        ([0.25, -8.0], [0.0, -8.0], "<f4", 0.03125),  # cancellation: of the largest value, not of its own
        ([3, 4], [3, 5], "<i4", math.inf),
        ([np.nan, 2.0], [1.0, 2.0], "<f8", math.inf),
        ([np.inf, 2.0], [np.inf, 4.0], "<f8", 0.5),
        ([0.0], [-0.0], "<f8", 0.0),
    ],
)
def test_own_difference(got, before, dtype, own):
    first, second = (np.array(each, dtype).view(np.uint8) for each in (got, before))
    assert own_difference(first, second, dtype) == own


def test_a_floor_is_four_times_that_of_what_the_place_held_and_is_measured_once():
    asked = []
    floor = Floor("f", lambda: asked.append(1) or {"argument 1": 1e-9})
    held = np.array([2.0, -50.0]).view(np.uint8)
    assert floor.of("argument 1", held, "<f8") == pytest.approx(4 * 1e-9 * 50)
    assert floor.of("argument 2", held, "<f8") == 0.0
    assert asked == [1]


@pytest.mark.parametrize(("dtype", "own"), [("<f4", 2e-6), ("<i8", math.inf), ("<f8", 2e-7)])
def test_beyond_the_precision_of_the_type_there_is_no_floor(dtype, own):
    with pytest.raises(AssertionError, match="argument 1 of the baseline, called again"):
        Floor("f", lambda: {"argument 1": own}).of("argument 1", np.ones(2, dtype).view(np.uint8), dtype)
