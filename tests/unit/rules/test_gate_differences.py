"""Scores that may be zero or negative: compared by differences, with known answers and simulations of what is true."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pytest_compileiq.claim import Claim, DecisionRecord, Summary
from pytest_compileiq.errors import ClaimMismatch, StoreError
from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.claims import Expected
from pytest_compileiq.rules.comparison import Analysis, SearchAxis, magnitude, steady_values
from pytest_compileiq.rules.evidence import Evidence, gather, summarise
from pytest_compileiq.rules.gate import LOOKS, Decision, judge_gain, judge_non_inferior, judge_replay
from pytest_compileiq.rules.recompute import recompute
from pytest_compileiq.rules.stats import binomial_interval
from pytest_compileiq.samples import SampleRow

LEVEL = 0.01 / len(LOOKS)
DEFAULT = Thresholds()
NO_FLOOR = replace(DEFAULT, min_speedup=1.0)


def rows_of(baseline, tuned, metric: str = "score") -> list[SampleRow]:
    """One sample a slot, in ABBA order, of arrays of shape (processes, quads, 2)."""
    arms = {"baseline": baseline, "tuned": tuned}
    return [
        SampleRow("cpu", "w", metric, process, quad, slot, arm, 0, float(arms[arm][process, quad, number]))
        for process, quad in np.ndindex(baseline.shape[:2])
        for slot, (arm, number) in enumerate([("baseline", 0), ("tuned", 0), ("tuned", 1), ("baseline", 1)])
    ]


def scores(random, level: float, sd: float, between: float = 0.0, gain: float = 0.0, processes: int = 8):
    """A score around ``level`` in both arms, the tuned one's lower by ``gain``, all in the metric's unit."""
    common = random.normal(level, between, (processes, 1, 1))
    baseline, tuned = common + random.normal(0, sd, (2, processes, 4, 2))
    return baseline, tuned - gain


def judged(baseline, tuned, thresholds: Thresholds = DEFAULT, direction="minimize") -> Decision:
    return judge_gain(gather(rows_of(baseline, tuned), direction), thresholds, level=LEVEL, seed=1)


# ── which analysis ───────────────────────────────────────────────────────────────────────────────────────────────


def test_one_value_that_is_not_positive_decides_for_differences_in_either_arm():
    positive = np.full((2, 1, 2), 2.0)
    zero = positive.copy()
    zero[1, 0, 1] = 0.0
    assert gather(rows_of(positive, positive), "minimize").analysis.scale is None
    assert gather(rows_of(positive, zero), "minimize").analysis.scale == 2.0
    assert gather(rows_of(zero, positive), "minimize").analysis.scale == 1.5
    assert gather(rows_of(positive, zero), "minimize", Analysis(7.0)).analysis.scale == 7.0


def test_a_time_is_never_compared_by_differences():
    with pytest.raises(StoreError, match="not a positive number"):
        gather(rows_of(np.ones((2, 1, 2)), np.zeros((2, 1, 2)), "runtime"), "minimize")


def test_the_scale_is_the_baselines_magnitude_unless_that_is_all_but_zero():
    assert magnitude(np.array([-3.0, 1.0, np.nan]), np.array([100.0])) == 2.0
    assert magnitude(np.array([0.0, 0.0]), np.array([-0.5, np.nan])) == 0.5
    assert magnitude(np.array([1e-300]), np.array([4.0])) == 4.0
    assert magnitude(np.zeros(2), np.zeros(2)) == 1.0


# ── known answers ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_difference_and_its_interval_are_students_in_units_of_the_scale():
    baseline, tuned = scores(np.random.default_rng(3), -1.2, 0.02, gain=0.3)
    decision = judged(baseline, tuned)
    means = (baseline - tuned).mean(axis=(1, 2))
    low, high = stats.t.interval(0.95, len(means) - 1, means.mean(), stats.sem(means))
    scale = np.abs(baseline).mean()
    assert decision.scale == pytest.approx(scale)
    assert decision.verdict is Verdict.PROVEN
    found = decision.speedup, decision.speedup_low, decision.speedup_high
    assert [(gain - 1) * scale for gain in found] == pytest.approx([means.mean(), low, high])


def test_words_give_the_difference_in_the_metrics_unit_and_no_ratio():
    baseline, tuned = scores(np.random.default_rng(3), -1.2, 0.001, gain=0.3)
    assert judged(baseline, tuned).reason.startswith("better by 0.2998 (95 % interval 0.2993 to 0.3003)")
    worse = judged(baseline, tuned, direction="maximize")
    assert worse.verdict is not Verdict.PROVEN and worse.reason.startswith(
        "worse by 0.2998 (95 % interval 0.2993 to 0.3003)"
    )


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
def test_the_verdict_does_not_depend_on_the_unit(unit):
    baseline, tuned = scores(np.random.default_rng(5), -1.2, 0.02, gain=0.02)
    one, other = judged(baseline, tuned), judged(unit * baseline, unit * tuned)
    assert one.verdict is other.verdict
    assert (one.speedup, one.p_value) == pytest.approx((other.speedup, other.p_value))


def test_a_small_gain_far_from_zero_is_the_same_by_ratio_and_by_difference():
    baseline, tuned = scores(np.random.default_rng(5), 1.2, 0.002, gain=0.02)
    ratio = judge_gain(Evidence(baseline, tuned), DEFAULT, level=LEVEL, seed=1)
    difference = judge_gain(Evidence(baseline, tuned, analysis=Analysis(1.2)), DEFAULT, level=LEVEL, seed=1)
    assert math.log(ratio.speedup) == pytest.approx(difference.speedup - 1, rel=0.02)
    assert ratio.verdict is difference.verdict is Verdict.PROVEN


def test_the_floor_is_half_a_percent_of_the_baselines_magnitude():
    below, above = (scores(np.random.default_rng(5), -10.0, 1e-4, gain=gain) for gain in (0.0495, 0.0505))
    assert judged(*above).verdict is Verdict.PROVEN
    decision = judged(*below)
    assert decision.verdict is not Verdict.PROVEN and "not surely above 0.05 (0.50% of 10)" in decision.reason


def test_a_regression_is_counted_in_shares_of_the_baselines_magnitude():
    for loss, verdict in ((0.0095, Verdict.PROVEN), (0.0105, Verdict.REFUTED)):
        one = gather(rows_of(*scores(np.random.default_rng(5), -1.0, 1e-5, gain=-loss)), "minimize")
        assert judge_non_inferior(one, DEFAULT, level=LEVEL).verdict is verdict


def test_a_wider_spread_is_refused_where_it_is_often_as_bad_as_the_baseline_usually_is():
    baseline, tuned = np.random.default_rng(7).normal(0, 1, (2, 8, 4, 2))
    assert judged(baseline, tuned - 100).verdict is Verdict.PROVEN
    assert judged(baseline, 5 * tuned - 100).verdict is Verdict.PROVEN
    assert "spread is wider" in judged(baseline, 5 * tuned - 2).reason
    assert "spread is wider" in judged(-baseline, 5 * tuned + 2, direction="maximize").reason


def test_a_replay_measures_by_the_scale_of_the_claim():
    random = np.random.default_rng(9)
    for gain, verdict in ((0.3, Verdict.PROVEN), (0.0, Verdict.REFUTED)):
        one = gather(rows_of(*scores(random, -1.2, 0.02, gain=gain)), "minimize", Analysis(1.0))
        decision = judge_replay(one, Expected(1.3, 1.28, 1.32), last_look=True)
        assert decision.verdict is verdict
        assert "committed better by 0.3, floor 0.15" in decision.reason


# ── a claim is recomputed ────────────────────────────────────────────────────────────────────────────────────────


def claim_on(rows: list[SampleRow], **changes) -> Claim:
    one = gather(rows, "minimize")
    decision = judge_gain(one, DEFAULT, level=LEVEL, seed=1)
    values = {
        name: getattr(decision, name) for name in ("speedup", "speedup_low", "speedup_high", "p_value", "cohens_d")
    }
    summaries: dict[str, Summary] = {"baseline": summarise(one.baseline), "tuned": summarise(one.tuned)}
    test = DecisionRecord(alpha=0.01, level=LEVEL, look=1, processes=8, flips=decision.flips, seed=1, finalists=1)
    claim = Claim(device="cpu", workload="w", objective="score", direction="minimize", kind="gain",
                  scale=one.analysis.scale, test=test, samples="s.csv", **values, **summaries)  # fmt: skip
    return claim.model_copy(update=changes)


def test_a_claim_of_a_difference_is_recomputed_with_its_scale():
    rows = rows_of(*scores(np.random.default_rng(3), -1.2, 0.02, gain=0.3))
    recompute(claim_on(rows), rows, thresholds=DEFAULT, direction="minimize")
    scale = claim_on(rows).scale
    for wrong in (None, scale / 2):
        with pytest.raises(ClaimMismatch, match="scale"):
            recompute(claim_on(rows, scale=wrong), rows, thresholds=DEFAULT, direction="minimize")


def test_a_claim_of_a_ratio_takes_no_scale():
    rows = rows_of(*scores(np.random.default_rng(3), 1.2, 0.02, gain=0.3))
    assert claim_on(rows).scale is None
    with pytest.raises(ClaimMismatch, match="compared by their ratio"):
        recompute(claim_on(rows, scale=1.2), rows, thresholds=DEFAULT, direction="minimize")


# ── simulations ──────────────────────────────────────────────────────────────────────────────────────────────────

NULLS = {
    "far below zero": {"level": -1.2, "sd": 0.02, "between": 0.01},
    "around zero": {"level": 0.0, "sd": 1.0, "between": 0.3},
    # In half of the trials every value is positive: the samples choose the analysis.
    "now by ratio, now by difference": {"level": 2.7, "sd": 1.0, "between": 0.0},
}


@pytest.mark.parametrize("null", NULLS)
def test_equal_arms_are_called_a_gain_no_more_often_than_alpha_allows(null):
    random, trials, level = np.random.default_rng(11), 150, 0.05
    pairs = [gather(rows_of(*scores(random, **NULLS[null])), "minimize") for _ in range(trials)]
    decisions = [judge_gain(pair, NO_FLOOR, level=level, seed=1, flips=999) for pair in pairs]
    proven = sum(decision.verdict is Verdict.PROVEN for decision in decisions)
    assert binomial_interval(proven, trials, 0.99)[0] <= level
    by_ratio = sum(decision.scale is None for decision in decisions)
    assert (0.2 * trials < by_ratio < 0.8 * trials) == (null == "now by ratio, now by difference")


def test_a_true_difference_is_found():
    random, trials = np.random.default_rng(13), 60
    found = [judged(*scores(random, -1.2, 0.02, between=0.01, gain=0.03)) for _ in range(trials)]
    assert sum(decision.verdict is Verdict.PROVEN for decision in found) >= 0.8 * trials
    held = sum(
        (decision.speedup_low - 1) * decision.scale <= 0.03 <= (decision.speedup_high - 1) * decision.scale
        for decision in found
    )
    assert held >= 0.88 * trials


# ── one number, and the search's axis ────────────────────────────────────────────────────────────────────────────


def test_scores_are_steady_only_where_each_arm_is_one_number():
    steady = rows_of(np.full((8, 1, 2), 0.91), np.full((8, 1, 2), 0.93))
    assert steady_values(steady) == (0.91, 0.93)
    assert steady_values([*steady[:-1], replace(steady[-1], value=0.92)]) is None
    assert steady_values([replace(steady[0], dropped=True), *steady[1:]]) is None
    assert steady_values([]) is None


def test_a_searchs_axis_tells_any_two_values_apart_and_is_the_logarithm_where_it_can_be():
    axis = SearchAxis.through([2.0, 2.0])
    values = [-1e9, -5.0, -1e-9, 0.0, 1e-9, 1e-3, 2e-3, 0.1, 2.0, 1e9]
    places = [axis.place(value) for value in values]
    assert places == sorted(set(places)) and all(map(math.isfinite, places))
    assert axis.place(6.0) - axis.place(2.0) == pytest.approx(math.log(3))
    below, above = (axis.place(2e-3 * (1 + step)) - axis.place(2e-3) for step in (-1e-6, 1e-6))
    assert -below == pytest.approx(above, rel=1e-3)
    for value in (-7.0, -1e-3, 0.0, 1e-3, 0.1, 6.0):
        assert axis.shift(axis.place(value) - axis.place(2.0)) == pytest.approx((value - 2.0) / 2.0)


def test_a_baseline_that_is_not_positive_gives_an_axis_of_differences():
    assert SearchAxis.through([-1.0, -3.0]).place(-4.0) == -2.0
    assert SearchAxis.through([0.0, 0.0]).place(0.5) == 0.5
