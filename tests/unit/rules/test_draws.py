"""The rules of draws against scipy, and distances of arrays against numbers whose distance is known."""

import math

import numpy as np
import pytest
import scipy.stats

from pytest_compileiq.claim import Accuracy, Stress
from pytest_compileiq.rules.accuracy import error_in_half_ulps, farthest, share_apart
from pytest_compileiq.rules.calls import Called, FirstCalls
from pytest_compileiq.rules.stress import (
    Draw,
    by_accuracy,
    failure_bound,
    median_ratio,
    sign_test,
    why_apart,
    why_not_computed,
)


@pytest.mark.parametrize("clean", [1, 8, 32, 500])
def test_what_clean_draws_exclude_is_clopper_and_pearsons_bound(clean):
    oracle = scipy.stats.binomtest(0, clean, alternative="less").proportion_ci(0.95, method="exact")
    assert failure_bound(clean) == pytest.approx(oracle.high, rel=1e-12)


def test_thirty_two_clean_draws_exclude_nine_percent_and_none_exclude_nothing():
    assert f"{failure_bound(32):.0%}" == "9%"
    assert failure_bound(0) == 1


@pytest.mark.parametrize(("worse", "better"), [(0, 0), (0, 5), (5, 0), (20, 12), (32, 0), (3, 29), (5100, 4900)])
def test_the_sign_test_is_the_binomial_one(worse, better):
    pairs = worse + better
    oracle = scipy.stats.binomtest(worse, pairs, 0.5, alternative="greater").pvalue if pairs else 1.0
    assert sign_test(worse, better) == pytest.approx(oracle, rel=1e-12)


def test_less_accurate_has_to_be_sure_for_all_outputs_together():
    def is_less_accurate(worse: int, better: int, outputs: int) -> bool:
        output = Accuracy(output="out", workload="w", worse=worse, better=better, ratio=1.0)
        less, others = by_accuracy(Stress(draws=64, usable=64, seed=1, accuracy=(output,) * outputs))
        assert (len(less), len(others)) in ((0, outputs), (outputs, 0))
        return bool(less)

    assert is_less_accurate(8, 0, outputs=2)
    assert not is_less_accurate(8, 0, outputs=3)
    assert not is_less_accurate(0, 0, outputs=1)
    assert not is_less_accurate(20, 12, outputs=1)
    assert not is_less_accurate(12, 20, outputs=1)


def test_the_median_ratio_takes_an_infinite_error_for_a_large_one():
    assert median_ratio([(1.0, 2.0), (1.0, 8.0), (2.0, 4.0)]) == pytest.approx(2)
    assert median_ratio([(1.0, 2.0), (1.0, 8.0)]) == pytest.approx(4)
    assert 1e20 < median_ratio([(1.0, math.inf)]) < 1e30
    assert median_ratio([(math.inf, math.inf)]) == 1


def difference(before, after):
    return farthest("out", np.asarray(before), np.asarray(after))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_neighbours_are_one_ulp_apart_and_both_sides_of_zero_add_up(dtype):
    value = dtype(1.5)
    assert difference([value], [np.nextafter(value, dtype(2))]).ulps == 1
    least = np.nextafter(dtype(0), dtype(1))
    assert difference([-least], [least]).ulps == 2
    assert difference([dtype(-0.0)], [dtype(0.0)]).ulps == 0  # other bits all the same


def test_the_same_bits_are_no_difference_and_nan_equals_nan():
    quiet, other_payload = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert difference([1.0, np.nan, np.inf], [1.0, np.nan, np.inf]) is None
    assert difference([quiet], [other_payload]) is None
    assert difference([], []) is None


def test_the_farthest_element_is_the_one_farthest_in_the_units_of_the_largest():
    found = difference(np.float32([1000, 1, 2]), np.float32([1000, 1.5, 2.25]))
    assert (found.index, found.relative, found.baseline, found.other) == (1, 0.0005, "1.0", "1.5")


def test_what_is_a_number_in_one_arm_alone_is_infinitely_far():
    found = difference([1.0, 2.0], [1.0, np.nan])
    assert (found.index, found.relative, found.ulps) == (1, math.inf, 2**63 - 1)


def test_integers_complex_numbers_and_long_doubles_have_distances_too():
    assert difference([3, 10**18], [3, 10**18 + 4]).ulps == 4
    assert difference([True], [False]).relative == 1
    assert difference([1 + 1j], [1 + 1.0000000000000002j]).ulps == 1
    assert difference(np.longdouble([1]), np.longdouble([2])).relative == 1


def test_a_complex_number_with_one_part_that_is_none_differs_in_the_other():
    assert difference([complex(math.nan, 1)], [complex(math.nan, 2)]).relative == 1
    assert difference([complex(1, math.nan)], [complex(2, math.nan)]).ulps == 2**52
    assert difference([complex(math.nan, 1)], [complex(0, 1)]).relative == math.inf
    assert difference([complex(math.nan, 1)], [complex(math.nan, 1)]) is None
    nan, ulp = complex(math.nan, 1), 2**-52
    assert error_in_half_ulps(np.array([nan, complex(1 + 3 * ulp, 4 * ulp)]), np.array([nan, 1])) == 10


def test_an_error_below_half_an_ulp_counts_as_half_an_ulp():
    exact = np.float64([1 + 2**-25, 0.5])
    assert error_in_half_ulps(exact.astype(np.float32), exact) == 1
    assert error_in_half_ulps(np.float32([1 + 2**-23, 0.5]), np.float64([1, 0.5])) == 2
    assert error_in_half_ulps(np.float32([np.nan]), np.float64([1])) == math.inf
    assert error_in_half_ulps(np.float32([np.nan, np.inf]), np.float64([np.nan, np.inf])) == 1
    assert error_in_half_ulps(np.int32([7]), np.float64([4])) == 6


@pytest.mark.parametrize(
    ("written", "is_found"),
    [
        pytest.param(
            [("0", "a", "a"), ("0", "b", "b"), ("0", "c", "c"), ("0", "d", "d"), ("0", "e", "e")],
            True,
            id="computed once for ever",
        ),
        pytest.param(
            [("1", "a", "a"), ("2", "b", "b"), ("2", "c", "c"), ("2", "d", "d"), ("2", "e", "e")],
            True,
            id="on most draws",
        ),
        pytest.param(
            [("1", "a", "a"), ("2", "b", "b"), ("2", "c", "c"), ("3", "d", "d"), ("3", "e", "e")],
            False,
            id="equal by chance",
        ),
        pytest.param([("0", "a", "a")] * 8, False, id="the baseline's are the same, too"),
        pytest.param([("0", "a", "a"), ("0", "b", "b"), ("0", "c", "c"), ("0", "d", "d")], False, id="few draws"),
        pytest.param([()] * 8, False, id="no outputs"),
    ],
)
def test_outputs_that_do_not_follow_the_draw_are_not_computed(written, is_found):
    reason = why_not_computed([Draw(written=each) for each in written])
    assert (reason is not None) == is_found
    assert reason is None or "on which the baseline's differ: the call does not compute them" in reason


NEAR, FAR = (None, None), ("70% of the values", None)


@pytest.mark.parametrize(
    ("apart", "baselines", "reason"),
    [
        pytest.param([FAR, NEAR, FAR], "aa", "on 2 of 3 draws, 70% of the values", id="on two draws"),
        pytest.param([NEAR, (None, "80%"), (None, "90%")], "aa", "on 2 of 3 draws, 80%", id="where calls were timed"),
        pytest.param([FAR], "aa", "70% of the values", id="on the only draw"),
        pytest.param([FAR, NEAR, NEAR], "aa", None, id="once among several draws"),
        pytest.param([FAR, FAR, FAR], "ab", None, id="the baseline does not repeat itself"),
        pytest.param([], "aa", None, id="no draw"),
    ],
)
def test_outputs_far_from_the_baselines_are_something_else(apart, baselines, reason):
    called = Called(1.0, 1.0, 1.0)
    draws = [
        Draw(apart=own, calls=FirstCalls(called, called, first), written=("t", *baselines)) for own, first in apart
    ]
    assert why_apart(draws) == reason


@pytest.mark.parametrize(
    ("baseline", "other", "share"),
    [
        ([0.0, 10.0, 5.0, np.nan], [0.9, 10.0, 5.0, np.nan], 0),
        ([0.0, 10.0, 5.0, 1.0], [1.1, 10.0, np.nan, 1.0], 0.5),
        (np.arange(1 << 20), np.where(np.arange(1 << 20) % 2, np.arange(1 << 20), -(1 << 20)), 0.5),
        (np.array([b"ab"]), np.array([b"cd"]), 0),
        (np.array([], np.float32), np.array([], np.float32), 0),
    ],
)
def test_share_of_values_that_are_far_apart(baseline, other, share):
    assert share_apart(np.asarray(baseline), np.asarray(other)) == pytest.approx(share, abs=0.01)
