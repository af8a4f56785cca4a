"""Four ways to find a speed-up that is none. Each test shows the pattern on data that has it, then that the gate holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.gate import LOOKS, judge_gain, judge_gains

DEFAULT = Thresholds()
NO_FLOOR = replace(DEFAULT, min_speedup=1.0, min_effect=0.0)  # leaves the tests alone to hold the level
LEVEL = DEFAULT.alpha / len(LOOKS)


def arm(random: np.random.Generator, *, processes=8, sd=0.01, faster=0.0, shape=()) -> np.ndarray:
    """Slot values in seconds around 100 µs, shape (*shape, processes, 4, 2)."""
    return 1e-4 * np.exp(sd * random.standard_normal((*shape, processes, 4, 2)) - faster)


def welch_says_faster(baseline: np.ndarray, tuned: np.ndarray) -> bool:
    """The published recipe: Welch's p < 0.05 and the better mean."""
    return bool(
        stats.ttest_ind(baseline.ravel(), tuned.ravel(), equal_var=False).pvalue < 0.05
        and tuned.mean() < baseline.mean()
    )


# ── the lucky minimum ────────────────────────────────────────────────────────────────────────────────────────────


def lucky(seed: int) -> Evidence:
    """The tuned arm is 2 % slower; one slot in a hundred met a clock a fifth faster."""
    random = np.random.default_rng(seed)
    baseline, tuned = arm(random), arm(random, faster=-0.02)
    tuned[random.integers(8), random.integers(4), random.integers(2)] *= 0.8
    return Evidence(baseline, tuned)


@pytest.mark.parametrize("seed", range(10))
def test_the_better_minimum_of_a_slower_kernel_is_refuted_by_name(seed):
    one = lucky(seed)
    assert one.baseline.min() / one.tuned.min() > 1.1, "who compares minima sees more than 10 %"
    decision = judge_gain(one, DEFAULT, level=LEVEL, seed=seed)
    assert decision.verdict is Verdict.REFUTED and "only the minimum is better" in decision.reason


def test_minima_of_equal_arms_differ_and_nothing_is_proven():
    random = np.random.default_rng(1)
    won = proven = 0
    for seed in range(100):
        tails = np.exp(0.02 * random.standard_t(3, (2, 8, 4, 2)))
        won += tails[1].min() < tails[0].min() / 1.02
        proven += judge_gain(Evidence(*(1e-4 * tails)), DEFAULT, level=LEVEL, seed=seed).verdict is Verdict.PROVEN
    assert won >= 25, "a quarter of equal arms win by 2 % where minima are compared"
    assert proven == 0


# ── the wider spread ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(10))
def test_a_better_mean_with_four_times_the_spread_is_refuted_by_name(seed):
    random = np.random.default_rng(seed)
    baseline, tuned = arm(random, processes=16), arm(random, processes=16, sd=0.04, faster=0.03)
    assert welch_says_faster(baseline, tuned), "who compares means sees a gain, and not what it costs"
    decision = judge_gain(Evidence(baseline, tuned), DEFAULT, level=LEVEL, seed=seed)
    assert decision.verdict is Verdict.REFUTED and "spread is wider" in decision.reason


@pytest.mark.parametrize("seed", range(10))
def test_the_same_mean_gain_with_the_spread_kept_is_proven(seed):
    random = np.random.default_rng(seed)
    kept = Evidence(arm(random, processes=16), arm(random, processes=16, faster=0.03))
    assert judge_gain(kept, DEFAULT, level=LEVEL, seed=seed).verdict is Verdict.PROVEN


def test_the_steps_of_a_clock_are_no_wider_spread():
    baseline = np.full((8, 4, 2), 3.0e-6)
    tuned = np.where(np.arange(64).reshape(8, 4, 2) % 3, 2.915e-6, 2.905e-6)
    assert judge_gain(Evidence(baseline, tuned), DEFAULT, level=LEVEL, seed=1).verdict is Verdict.PROVEN


# ── multiple comparisons ─────────────────────────────────────────────────────────────────────────────────────────


def test_with_ten_equal_finalists_one_looks_proven_and_holm_keeps_the_level_of_the_family():
    # A level of 20 % shows in 60 searches what 1 % would show in thousands.
    random, level, families, finalists = np.random.default_rng(1), 0.2, 60, 10
    alone = together = 0
    for seed in range(families):
        field = [Evidence(arm(random, processes=4), arm(random, processes=4)) for _ in range(finalists)]
        alone += any(judge_gain(one, NO_FLOOR, level=level, seed=seed).p_value <= level for one in field)
        together += any(one.verdict is Verdict.PROVEN for one in judge_gains(field, NO_FLOOR, level=level, seed=seed))
    assert alone >= 0.6 * families, "each at the full level: most searches would ship one"
    assert stats.binomtest(together, families, level, alternative="greater").pvalue > 0.05


def test_a_true_winner_among_equal_finalists_is_still_proven():
    random = np.random.default_rng(2)
    field = [Evidence(arm(random), arm(random, faster=gain)) for gain in (0.0, 0.05, 0.0)]
    verdicts = [one.verdict for one in judge_gains(field, DEFAULT, level=LEVEL, seed=1)]
    assert [verdict is Verdict.PROVEN for verdict in verdicts] == [False, True, False]


def test_of_thirty_true_gains_all_are_proven():
    random = np.random.default_rng(3)
    field = [Evidence(arm(random), arm(random, faster=0.1)) for _ in range(30)]
    decisions = judge_gains(field, DEFAULT, level=LEVEL, seed=1)
    assert {one.verdict for one in decisions} == {Verdict.PROVEN}
    assert sorted(one.level for one in decisions) == pytest.approx([LEVEL / left for left in range(30, 0, -1)])
    assert all(20 / one.level <= one.flips for one in decisions)


# ── the winner's curse ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_best_of_300_equal_candidates_is_proven_on_the_samples_that_chose_it_and_not_on_fresh_ones():
    random, searches = np.random.default_rng(3), 20
    chosen, fresh = [], []
    for seed in range(searches):
        baselines, candidates = arm(random, processes=16, shape=(300,)), arm(random, processes=16, shape=(300,))
        best = np.log(baselines / candidates).mean(axis=(1, 2, 3)).argmax()
        searched = Evidence(baselines[best], candidates[best])
        proof = Evidence(arm(random, processes=16), arm(random, processes=16))
        chosen.append(judge_gain(searched, NO_FLOOR, level=0.01, seed=seed))
        fresh.append(judge_gain(proof, NO_FLOOR, level=0.01, seed=seed))
    assert sum(one.verdict is Verdict.PROVEN for one in chosen) >= 0.75 * searches
    assert np.mean([one.speedup for one in chosen]) > 1.003, "the search's own score flatters its winner"
    assert not any(one.verdict is Verdict.PROVEN for one in fresh)
    assert abs(np.mean([one.speedup for one in fresh]) - 1) < 0.001
