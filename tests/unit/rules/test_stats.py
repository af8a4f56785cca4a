"""Each statistic against scipy, a closed form or an enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from pytest_compileiq.rules import stats


def arms(seed: int, processes: int = 8, quads: int = 4, gain: float = 0.0, sd: float = 0.01, between: float = 0.0):
    """Log values of shape (processes, quads, 2); tuned is lower by ``gain``."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 0.3, (processes, 1, 1))
    shift = rng.normal(0, between, (processes, 1, 1))
    baseline = common + rng.normal(0, sd, (processes, quads, 2))
    return baseline, common - gain + shift + rng.normal(0, sd, (processes, quads, 2))


def test_welch_is_scipys_where_one_process_leaves_nothing_to_centre():
    baseline, tuned = arms(1, processes=1, quads=6, gain=0.003)
    mine = stats.welch_centred(baseline, tuned)
    theirs = scipy.stats.ttest_ind(baseline.ravel(), tuned.ravel(), equal_var=False, alternative="greater")
    assert mine.statistic == pytest.approx(theirs.statistic)
    assert mine.degrees == pytest.approx(theirs.df)
    assert mine.p_value == pytest.approx(theirs.pvalue)


def test_welch_over_processes_is_the_regression_on_process_and_arm():
    baseline, tuned = arms(2, gain=0.004)
    rows = np.concatenate([baseline.reshape(8, -1), tuned.reshape(8, -1)], axis=1)
    design = np.zeros((rows.size, 9))
    for process in range(8):
        design[process * 16 : process * 16 + 16, process] = 1
        design[process * 16 + 8 : process * 16 + 16, 8] = -1
    coefficients, residual, *_ = np.linalg.lstsq(design, rows.ravel(), rcond=None)
    error = math.sqrt(residual[0] / (rows.size - 9) * np.linalg.inv(design.T @ design)[8, 8])
    mine = stats.welch_centred(baseline, tuned)
    # Equal sizes: the standard error is the pooled one, whatever the arms' own variances.
    assert mine.statistic == pytest.approx(coefficients[8] / error, rel=1e-9)
    assert mine.degrees <= rows.size - 9 + 1e-9


def test_cohens_d_is_hedges_g():
    baseline, tuned = arms(3, processes=1, quads=10, gain=0.01)
    a, b = baseline.ravel(), tuned.ravel()
    pooled = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    g = (a.mean() - b.mean()) / pooled * (1 - 3 / (4 * (a.size + b.size - 2) - 1))
    mine = stats.cohens_d(baseline, tuned)
    assert mine.estimate == pytest.approx(g)
    error = math.sqrt(2 / a.size + g * g / (4 * a.size))
    assert mine.high - mine.estimate == pytest.approx(scipy.stats.norm.ppf(0.975) * error, rel=1e-6)
    assert mine.estimate - mine.low == pytest.approx(mine.high - mine.estimate)


def test_sign_flip_enumerates_few_quads_exactly():
    differences = np.random.default_rng(4).normal(0.3, 1, 9)
    sums = [
        sum(sign * value for sign, value in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=9)
    ]
    p_value, patterns = stats.sign_flip(differences, flips=100, seed=0)
    assert patterns == 512
    assert p_value == pytest.approx(np.mean([total >= differences.sum() - 1e-9 for total in sums]))


def test_sign_flip_of_many_quads_agrees_with_scipys_permutation_test():
    differences = np.random.default_rng(5).normal(0.2, 1, 40)
    p_value, flips = stats.sign_flip(differences, flips=40_000, seed=1)
    theirs = scipy.stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        alternative="greater",
        n_resamples=40_000,
        rng=np.random.default_rng(2),
    )
    assert flips == 40_000
    assert p_value == pytest.approx(theirs.pvalue, abs=0.01)
    assert stats.sign_flip(differences, flips=40_000, seed=1)[0] == p_value


def test_the_paired_interval_and_p_are_students():
    differences = np.random.default_rng(6).normal(0.02, 0.01, 12)
    mine = stats.paired_interval(differences, 0.025)
    low, high = scipy.stats.t.interval(0.95, 11, differences.mean(), scipy.stats.sem(differences))
    assert (mine.low, mine.high) == pytest.approx((low, high))
    theirs = scipy.stats.ttest_1samp(differences, 0.013, alternative="greater")
    assert stats.paired_p(differences, 0.013) == pytest.approx(theirs.pvalue)


def test_holm_steps_down_and_stops_at_the_first_kept():
    assert stats.holm_levels([0.03, 0.001, 0.012], 0.03) == pytest.approx([0.03, 0.01, 0.015])
    assert stats.holm_levels([0.001, 0.2, 0.012], 0.03) == pytest.approx([0.01, 0.03, 0.015])
    assert stats.holm_levels([0.02, 0.02, 0.02], 0.03) == pytest.approx([0.01, 0.0, 0.0])


def test_the_spread_ratio_of_a_scaled_arm_is_its_scale():
    baseline = np.exp(np.random.default_rng(7).normal(0, 0.02, (8, 4, 2)))
    ratio, error = stats.log_spread_ratio(baseline, 1.5 * baseline)
    assert ratio == pytest.approx(math.log(1.5))
    assert error == pytest.approx(0, abs=1e-12)


def test_constants_are_equal_or_different_beyond_doubt_without_a_warning():
    one = np.zeros((8, 4, 2))
    assert stats.welch_centred(one, one).p_value == 1.0
    assert stats.welch_centred(one, one - 0.1).p_value < 1e-6
    assert stats.welch_centred(one, one + 0.1).p_value == 1.0
    assert stats.paired_p(np.full(8, 0.1), 0.05) < 1e-6
    assert stats.cohens_d(one, one).estimate == 0.0


@pytest.mark.parametrize("between", [0.0, 0.01])
def test_the_welch_test_rejects_equal_arms_no_more_often_than_it_says(between):
    p_values = np.array([stats.welch_centred(*arms(seed, between=0.0)).p_value for seed in range(600)])
    assert (p_values <= 0.05).mean() < 0.08
    assert (p_values <= 0.05).mean() > 0.02


@pytest.mark.parametrize(("successes", "trials"), [(0, 20), (1, 250), (35, 50), (50, 50), (3, 1000)])
def test_the_exact_interval_of_a_rate_is_scipy_s(successes, trials):
    expected = scipy.stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
    assert stats.binomial_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_the_processes_asked_for_do_prove_it_about_as_often_as_said():
    mean, floor, deviation, level = 0.02, 0.005, 0.02, 0.01
    needed = stats.processes_for(mean, floor, deviation, level, power=0.8)
    draws = np.random.default_rng(1).normal(mean, deviation, (4000, needed))
    proven = np.mean([stats.paired_p(one, floor) <= level for one in draws])
    assert 0.7 < proven < 0.85  # the normal approximation is a little short of Student's t
    assert stats.processes_for(0.004, floor, deviation, level) is None
    assert stats.processes_for(0.5, floor, 1e-9, level) == 2
