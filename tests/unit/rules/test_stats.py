"""Each statistic against scipy, a closed form or an enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from pytest_compileiq.rules import stats


def arms(seed: int, processes: int = 8, quads: int = 4, gain: float = 0.0, sd: float = 0.01):
    """Log values of shape (processes, quads, 2); tuned is lower by ``gain``."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 0.3, (processes, 1, 1))
    baseline = common + rng.normal(0, sd, (processes, quads, 2))
    return baseline, common - gain + rng.normal(0, sd, (processes, quads, 2))


def test_welch_is_scipys_where_one_process_leaves_nothing_to_centre():
    baseline, tuned = arms(1, processes=1, quads=6, gain=0.003)
    mine = stats.welch_centred(baseline, tuned)
    theirs = scipy.stats.ttest_ind(baseline.ravel(), tuned.ravel(), equal_var=False, alternative="greater")
    assert mine.statistic == pytest.approx(theirs.statistic)
    assert mine.degrees == pytest.approx(theirs.df)
    assert mine.p_value == pytest.approx(theirs.pvalue)


def test_welch_is_scipys_on_the_fewest_slots_and_where_one_arm_lost_some():
    two = arms(1, processes=1, quads=1, gain=0.01)
    baseline, tuned = arms(2, processes=1, quads=6, gain=0.003)
    tuned[0, :2] = np.nan
    for a, b in (two, (baseline, tuned), (tuned + 0.01, baseline)):
        mine = stats.welch_centred(a, b)
        theirs = scipy.stats.ttest_ind(a.ravel(), b.ravel(), equal_var=False, alternative="greater", nan_policy="omit")
        assert (mine.statistic, mine.degrees, mine.p_value) == pytest.approx(
            (theirs.statistic, theirs.df, theirs.pvalue)
        )


@pytest.mark.parametrize("short", [0, 1])
def test_one_slot_of_either_arm_has_no_variance_and_proves_nothing(short):
    pair = arms(1, processes=1, quads=2, gain=1.0)
    pair[short].ravel()[1:] = np.nan
    assert stats.welch_centred(*pair).p_value == 1.0


def test_welch_s_degrees_of_arms_alike_are_those_of_the_regression():
    baseline, _ = arms(2)
    means = baseline.mean(axis=(1, 2), keepdims=True)
    mirrored = means - (baseline - means) - 0.01  # the same variance
    assert stats.welch_centred(baseline, mirrored).degrees == pytest.approx(8 * 16 - 9)


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
    assert stats.cohens_d(tuned, baseline).estimate == pytest.approx(-g)


def test_cohens_d_of_arms_of_unequal_size_is_hedges_g():
    baseline, tuned = arms(3, processes=1, quads=3, gain=0.01)
    tuned[0, 1:] = np.nan
    a, b = baseline.ravel(), tuned[0, 0]
    pooled = math.sqrt((5 * a.var(ddof=1) + b.var(ddof=1)) / 6)
    g = (a.mean() - b.mean()) / pooled * (1 - 3 / 23)
    mine = stats.cohens_d(baseline, tuned, confidence=0.9)
    assert mine.estimate == pytest.approx(g)
    reach = scipy.stats.norm.ppf(0.95) * math.sqrt(1 / 6 + 1 / 2 + g * g / 16)
    assert (mine.low, mine.high) == pytest.approx((g - reach, g + reach))


@pytest.mark.parametrize("quads", [9, 14])
def test_sign_flip_enumerates_few_quads_exactly(quads):
    differences = np.random.default_rng(4).normal(0.3, 1, quads)
    sums = np.array(list(itertools.product((1, -1), repeat=quads))) @ differences
    p_value, patterns = stats.sign_flip(differences, flips=100, seed=0)
    assert patterns == 2**quads
    assert p_value == pytest.approx(np.mean(sums >= differences.sum() - 1e-9))


def test_a_quad_that_was_dropped_is_no_quad():
    assert stats.sign_flip(np.array([[1.0, np.nan], [2.0, 3.0]]), flips=100, seed=0) == (1 / 8, 8)


@pytest.mark.parametrize("quads", [14, 15])
def test_a_pattern_that_reaches_the_observed_sum_counts_and_no_difference_is_no_evidence(quads):
    flips = 300_000  # more than are drawn at once
    assert stats.sign_flip(np.zeros(quads), flips=flips, seed=1)[0] == 1.0
    one_alone = np.eye(1, quads)[0]
    assert stats.sign_flip(one_alone, flips=flips, seed=1)[0] == pytest.approx(0.5, abs=0.005)


def test_the_observed_pattern_is_one_of_those_drawn_so_that_no_p_is_zero():
    assert stats.sign_flip(np.ones(40), flips=99, seed=1) == (1 / 100, 99)


def test_a_seed_draws_the_same_patterns_for_ever():
    # Committed claims record the seed and the p-value, and are recomputed from them.
    differences = np.random.default_rng(5).normal(0.2, 1, 17)
    assert stats.sign_flip(differences, flips=999, seed=1)[0] == 0.341


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


def test_two_processes_are_the_fewest_that_give_an_interval_and_a_p():
    two, one = np.array([0.02, 0.05]), np.array([0.02])
    mine = stats.paired_interval(two, 0.025)
    assert (mine.low, mine.high) == pytest.approx(scipy.stats.t.interval(0.95, 1, 0.035, scipy.stats.sem(two)))
    theirs = scipy.stats.ttest_1samp(two, 0.01, alternative="greater")
    assert stats.paired_p(two, 0.01) == pytest.approx(theirs.pvalue)
    assert stats.paired_interval(one, 0.025) == stats.Interval(0.02, -math.inf, math.inf)
    assert stats.paired_p(one, 0.01) == 1.0


def test_holm_rejects_what_the_closed_test_of_bonferroni_rejects():
    # Marcus, Peritz & Gabriel (1976): a hypothesis falls when every set that holds it does.
    random = np.random.default_rng(1)
    for _ in range(200):
        p_values = random.choice([0.005, 0.01, 0.02, 0.03, 0.2], size=random.integers(1, 5)).tolist()
        everyone = range(len(p_values))
        sets = [one for size in everyone for one in itertools.combinations(everyone, size + 1)]
        fallen = [one for one in sets if min(p_values[i] for i in one) <= 0.04 / len(one)]
        closed = [all(one in fallen for one in sets if i in one) for i in everyone]
        levels = stats.step_down(p_values, lambda place, _, own=p_values: own[place], 0.04)
        assert [p <= level for p, level in zip(p_values, levels, strict=True)] == closed


def test_holm_steps_down_and_grants_what_is_kept_no_more():
    for p_values, levels in (
        ([0.03, 0.001, 0.012], [0.03, 0.01, 0.015]),
        ([0.001, 0.2, 0.012], [0.01, 0.03, 0.015]),
        ([0.02, 0.02, 0.02], [0.01, 0.01, 0.01]),
    ):
        given = stats.step_down(p_values, lambda place, _, own=p_values: own[place], 0.03)
        assert given == pytest.approx(levels)


def test_the_spread_ratio_of_a_scaled_arm_is_its_scale():
    baseline = np.exp(np.random.default_rng(7).normal(0, 0.02, (8, 4, 2)))
    ratio, error = stats.log_spread_ratio(baseline, 1.5 * baseline)
    assert ratio == pytest.approx(math.log(1.5))
    assert error == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("processes", [2, 5])
def test_the_spread_ratio_is_of_percentiles_and_its_error_the_jackknife_s(processes):
    baseline, tuned = (np.exp(arm) for arm in arms(7, processes=processes))

    def log_ratio(rows):
        (a, b), (c, d) = (np.percentile(arm[rows], [5, 95]) for arm in (baseline, tuned))
        return math.log((d - c) / (b - a))

    everyone = list(range(processes))
    without = [log_ratio([other for other in everyone if other != one]) for one in everyone]
    ratio, error = stats.log_spread_ratio(baseline, tuned)
    assert ratio == pytest.approx(log_ratio(everyone))
    assert error == pytest.approx(math.sqrt((processes - 1) * np.var(without)))


def test_the_error_of_the_spread_ratio_is_that_of_repeated_experiments_or_a_little_more():
    random = np.random.default_rng(9)
    found = np.array([stats.log_spread_ratio(*np.exp(random.normal(0, 0.02, (2, 8, 4, 2)))) for _ in range(150)])
    said, seen = math.sqrt((found[:, 1] ** 2).mean()), found[:, 0].std()
    assert 0.95 < said / seen < 1.6  # the jackknife of a quantile errs upwards


def test_a_spread_below_the_least_counts_as_the_least():
    steps = np.ones((8, 4, 2))
    steps[:, :, 1] += 0.004
    wide = np.ones((8, 4, 2))
    wide[:, :, 1] += 0.04
    assert stats.log_spread_ratio(np.ones((8, 4, 2)), steps, 0.005) == (0.0, 0.0)
    assert stats.log_spread_ratio(2 * np.ones((8, 4, 2)), 2 * wide, 0.005)[0] == pytest.approx(math.log(8), rel=1e-2)


def test_a_spread_that_cannot_be_told_is_none():
    noisy, constant = np.exp(arms(8)[0]), np.ones((8, 4, 2))
    one_noisy = constant.copy()
    one_noisy[0] = noisy[0]
    for baseline, tuned in (
        (noisy[:1], 2 * noisy[:1]), (noisy, constant), (constant, noisy), (constant, constant), (one_noisy, noisy),
    ):  # fmt: skip
        assert stats.log_spread_ratio(baseline, tuned) == (0.0, math.inf)


def test_constants_are_equal_or_different_beyond_doubt_without_a_warning():
    one = np.zeros((8, 4, 2))
    assert stats.welch_centred(one, one).p_value == 1.0
    assert stats.welch_centred(one, one - 0.1).p_value < 1e-6
    assert stats.welch_centred(one, one + 0.1).p_value == 1.0
    assert stats.paired_p(np.full(8, 0.1), 0.05) < 1e-6
    assert stats.welch_centred(one, one - 1000.0).p_value < 1e-6
    assert stats.cohens_d(one, one) == stats.Interval(0.0, 0.0, 0.0)
    assert stats.cohens_d(one, one - 0.1).low > 1e3
    assert stats.cohens_d(one, one + 0.1).high < -1e3


def test_a_difference_or_a_variance_of_no_more_than_rounding_is_none():
    high = np.full((8, 4, 2), 5e-13)
    assert stats.welch_centred(high, -high).p_value == 0.5
    assert stats.cohens_d(high, -high).estimate == 0.0
    noise, quiet = np.array([[[-1e-12, 1e-12]]]), np.zeros((1, 1, 2))
    assert stats.welch_centred(noise, quiet).p_value == 1.0
    assert stats.cohens_d(noise, quiet) == stats.Interval(0.0, 0.0, 0.0)
    assert stats.paired_p(math.sqrt(3) * 1e-12 * np.array([-1.0, 1.0, -1.0, 1.0]), 0.0) == 1.0


def test_the_welch_test_rejects_equal_arms_no_more_often_than_it_says():
    p_values = np.array([stats.welch_centred(*arms(seed)).p_value for seed in range(600)])
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
    z = scipy.stats.norm.ppf(1 - level) + scipy.stats.norm.ppf(0.8)
    assert needed == math.ceil((z * deviation / (mean - floor)) ** 2)
    assert stats.processes_for(0.004, floor, deviation, level) is None
    assert stats.processes_for(floor, floor, deviation, level) is None
    assert stats.processes_for(0.5, floor, 1e-9, level) == 2
