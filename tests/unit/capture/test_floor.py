"""How far two calls differ, relative to the largest value."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_compileiq.capture.toolchain.replay import Floor, own_difference


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
