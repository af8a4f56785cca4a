"""How much is built for each that is measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq.rules.built_ahead import FEWEST, MOST, builds_for_each

SECONDS = st.floats(1e-4, 1e4)


@given(SECONDS, SECONDS)
def test_it_is_the_most_of_which_those_passed_over_take_no_longer_than_the_one_picked(build_s, measurement_s):
    builds, picked_s = builds_for_each(build_s, measurement_s), build_s + measurement_s
    assert FEWEST <= builds <= MOST
    assert (builds - 1) * build_s <= picked_s * (1 + 1e-9)
    assert builds == MOST or builds * build_s > picked_s * (1 - 1e-9)


@pytest.mark.parametrize(
    ("build_s", "measurement_s", "builds"),
    [(0.07, 1.0, 4), (0.5, 1.0, 4), (0.6, 1.0, 3), (1.0, 1.0, 3), (2.0, 0.5, 2), (0.0, 0.0, 4), (0.1, 0.0, 2)],
)
def test_a_build_that_is_short_beside_a_measurement_pays(build_s, measurement_s, builds):
    assert builds_for_each(build_s, measurement_s) == builds
