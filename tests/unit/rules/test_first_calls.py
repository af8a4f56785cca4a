"""Gains that are there on remembered input alone, against scipy; and honest ones, with what both arms pay at first."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_compileiq.rules.first_calls import SURE_P, Called, FirstCalls, why_remembered


def draws(first, later, *, count=32, noise=0.1, pages=0, seed=0) -> list[FirstCalls]:
    """Calls of 100 µs, so many times faster on the first call and on later ones, which vary by ``noise``."""
    rng = np.random.default_rng(seed)

    def called(gains, new_pages):
        first_s, later_s = 1e-4 / np.array(gains) * np.exp(rng.normal(0, noise, 2))
        return Called(float(first_s), float(later_s), new_pages)

    return [FirstCalls(called((0.7, 1), pages), called((0.7 * first, later), 0)) for _ in range(count)]


@pytest.mark.parametrize(("first", "later"), [(1, 4), (0.8, 1.5), (1.5, 8), (1, 1.25), (2, 4), (1, 1.05), (4, 4)])
@pytest.mark.parametrize("seed", range(5))
def test_refusal_agrees_with_a_t_test_of_scipy(first, later, seed):
    given = draws(first, later, seed=seed)
    first_gain = np.array([np.log(draw.baseline.first_s / draw.tuned.first_s) for draw in given])
    later_gain = np.array([np.log(draw.baseline.later_s / draw.tuned.later_s) for draw in given])
    limit = max(later_gain.mean() / 2, np.log(1.1))
    lost = np.clip((later_gain - first_gain - limit) / limit, -3, 3)
    p_value = stats.ttest_1samp(lost, 0, alternative="greater").pvalue
    reason = why_remembered(given)
    assert (reason is not None) == (p_value <= SURE_P)
    assert reason is None or f"(p = {p_value:.2g})" in reason


def test_remembered_gain_names_both_speed_ups_and_what_helps():
    reason = why_remembered(draws(1, 4, noise=1e-3))
    assert "the first call is 1x and later calls are 4x as fast as the baseline's" in reason
    assert "do the work in every call" in reason and "tune(…, repeats=True)" in reason


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(draws(4, 4), id="both arms pay as much for a first call"),
        pytest.param(draws(3, 4), id="most of the gain is there"),
        pytest.param(draws(1, 1.05), id="below 10 %"),
        pytest.param(draws(0.1, 1.2, count=7), id="few draws, all clipped alike"),
        pytest.param(draws(1, 4, pages=8), id="new memory in the baseline's first call"),
        pytest.param([], id="no draw"),
    ],
)
def test_gain_that_nothing_speaks_against_is_not_refused(given):
    assert why_remembered(given) is None


def test_one_slow_first_call_does_not_decide():
    table = FirstCalls(Called(1e-4, 1e-4), Called(1.0, 2.5e-5))
    assert why_remembered([table, *draws(4, 4)[1:]]) is None
