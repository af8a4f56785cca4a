"""The gate at each of its limits: what meets one exactly, and what its sentences say there."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules import gate
from pytest_compileiq.rules.claims import Expected
from pytest_compileiq.rules.evidence import Evidence, summarise
from pytest_compileiq.rules.gate import MAX_SPREAD_RATIO, judge_gain, judge_non_inferior, judge_replay
from pytest_compileiq.rules.stats import paired_p, processes_for, sign_flip, welch_centred

DEFAULT = Thresholds()


def evidence(gain: float, *, processes: int = 4, quads: int = 3, seed: int = 3) -> Evidence:
    random = np.random.default_rng(seed)
    baseline, tuned = np.exp(0.01 * random.standard_normal((2, processes, quads, 2)))
    return Evidence(baseline, tuned * math.exp(-gain))


def constant(baseline: float, tuned: float) -> Evidence:
    return Evidence(np.full((8, 4, 2), baseline), np.full((8, 4, 2), tuned))


BINDING = {
    "Welch's p": (evidence(0.006), replace(DEFAULT, min_speedup=0.9)),
    "the randomisation test's p": (evidence(0.1, processes=2), replace(DEFAULT, min_speedup=0.5)),
    "the speed-up is not surely above": (evidence(0.01), replace(DEFAULT, min_speedup=1.0)),
}


@pytest.mark.parametrize("said", BINDING)
def test_a_p_value_at_the_level_proves_and_one_above_it_does_not(said):
    one, thresholds = BINDING[said]
    p_value = judge_gain(one, thresholds, level=0.9, seed=1).p_value
    assert judge_gain(one, thresholds, level=p_value, seed=1).verdict is Verdict.PROVEN
    below = judge_gain(one, thresholds, level=np.nextafter(p_value, 0), seed=1)
    assert below.verdict is Verdict.INCONCLUSIVE and said in below.reason


@pytest.mark.parametrize("said", BINDING)
def test_the_p_value_of_the_gate_is_the_largest_of_its_three(said):
    one, thresholds = BINDING[said]
    three = (
        welch_centred(*one.compared).p_value,
        sign_flip(one.by_quad, flips=4096, seed=1)[0],
        paired_p(one.by_process, math.log(thresholds.min_speedup)),
    )
    decision = judge_gain(one, thresholds, level=0.01, seed=1)
    rejected = max(three[0], three[2]) <= 0.01
    assert decision.p_value == (max(three) if rejected else max(three[0], three[2]))
    assert bool(decision.flips) == rejected


def test_an_effect_as_large_as_asked_for_is_enough():
    one = evidence(0.05)
    d = judge_gain(one, DEFAULT, level=0.1, seed=1).cohens_d
    assert judge_gain(one, replace(DEFAULT, min_effect=d), level=0.1, seed=1).verdict is Verdict.PROVEN


def test_two_processes_and_three_quarters_of_the_quads_are_enough():
    assert judge_gain(evidence(0.1, processes=2, quads=4), DEFAULT, level=0.1, seed=1).verdict is Verdict.PROVEN
    one = evidence(0.1, processes=4, quads=4)
    for arm in (one.baseline, one.tuned):
        arm[:, 0] = np.nan
    assert one.dropped == 0.25
    assert judge_gain(one, DEFAULT, level=0.1, seed=1).verdict is Verdict.PROVEN
    assert judge_non_inferior(one, DEFAULT, level=0.1).verdict is Verdict.PROVEN
    one.tuned[0, 1] = np.nan
    more = Evidence(one.baseline, one.tuned)
    assert more.dropped == 5 / 16, "a quad that lost either arm is lost"
    assert judge_gain(more, DEFAULT, level=0.1, seed=1).verdict is Verdict.INCONCLUSIVE


def test_evidence_of_no_process_is_all_dropped():
    assert Evidence(np.empty((0, 4, 2)), np.empty((0, 4, 2))).dropped == 1.0


def test_non_inferiority_is_decided_by_a_p_value_at_the_level():
    floor = math.log1p(-DEFAULT.max_regression)
    for gain, verdict, sign in ((-0.005, Verdict.PROVEN, 1), (-0.015, Verdict.REFUTED, -1)):
        one = evidence(gain)
        level = paired_p(sign * one.by_process, sign * floor)
        assert judge_non_inferior(one, DEFAULT, level=level).verdict is verdict
        assert judge_non_inferior(one, DEFAULT, level=np.nextafter(level, 0)).verdict is Verdict.INCONCLUSIVE


# ── false patterns ───────────────────────────────────────────────────────────────────────────────────────────────


def test_minima_that_differ_by_no_more_than_rounding_are_no_pattern():
    assert "only the minimum" not in judge_gain(constant(1e-4, 1e-4), DEFAULT, level=0.1, seed=1).reason
    one = constant(1e-4, 1.1e-4)
    one.tuned[0, 0, 0] = math.exp(math.log(1e-4) - 1e-12)
    assert np.log(one.tuned[0, 0, 0]) == np.log(1e-4) - 1e-12
    assert "only the minimum" not in judge_gain(one, DEFAULT, level=0.1, seed=1).reason


def test_a_better_minimum_of_the_same_mean_is_named_and_not_yet_refuted():
    one = constant(1.0, 1.0)
    one.tuned[0, 0] = 0.5, 2.0
    decision = judge_gain(one, DEFAULT, level=0.1, seed=1)
    assert (decision.speedup, decision.speedup_high) == (1.0, 1.0)
    assert decision.verdict is Verdict.INCONCLUSIVE and "only the minimum" in decision.reason


def test_a_spread_at_its_limit_is_not_wider(monkeypatch):
    monkeypatch.setattr(gate, "log_spread_ratio", lambda *_: (math.log(MAX_SPREAD_RATIO), 0.0))
    assert judge_gain(evidence(0.1), DEFAULT, level=0.1, seed=1).verdict is Verdict.PROVEN


# ── replays ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_replay_exactly_at_the_floor_is_undecided():
    decision = judge_replay(constant(2.0, 1.0), Expected(4.0, 3.9, 4.1), last_look=True)
    assert decision.verdict is Verdict.INCONCLUSIVE and decision.reason.startswith("undecided")


@pytest.mark.parametrize(("p_value", "verdict"), [(0.016, Verdict.PROVEN), (0.017, Verdict.INCONCLUSIVE)])
def test_a_replay_is_proven_at_5_percent_split_over_the_looks(p_value, verdict):
    noise = np.linspace(-0.01, 0.01, 8)
    error = noise.std(ddof=1) / math.sqrt(8)
    gain = math.log(1.1) / 2 + noise + error * scipy.stats.t.isf(p_value, 7)
    one = Evidence(np.ones((8, 4, 2)), np.ones((8, 4, 2)) * np.exp(-gain)[:, None, None])
    said = judge_replay(one, Expected(1.1, 1.09, 1.11), last_look=False)
    assert said.verdict is verdict and said.p_value == pytest.approx(p_value)


def test_a_replay_whose_interval_touches_the_committed_one_has_neither_decayed_nor_grown():
    one = evidence(0.1, processes=8)

    def note(low: float, high: float) -> str:
        return judge_replay(one, Expected(1.1, low, high), last_look=True).note

    now = judge_replay(one, Expected(1.1, 1.0, 1.2), last_look=True)
    assert note(now.speedup_high, 2.0) == note(1.0, now.speedup_low) == ""
    assert note(np.nextafter(now.speedup_high, 2), 2.0).startswith("decayed")
    assert note(1.0, np.nextafter(now.speedup_low, 0)).startswith("more than claimed")


# ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tuned", "said"),
    [
        (1.0, "1.000x better (95 % interval 1.000 to 1.000)"),
        (0.8, "1.250x better (95 % interval 1.250 to 1.250)"),
        (1.25, "1.250x worse (95 % interval 1.250 to 1.250)"),
    ],
)
def test_a_decision_says_how_much_better_or_worse(tuned, said):
    assert judge_gain(constant(1.0, tuned), DEFAULT, level=1e-9, seed=1, flips=4096).reason.startswith(said)


def test_undecided_evidence_says_how_much_more_would_decide():
    few = evidence(0.01)
    needed = processes_for(few.by_process.mean(), math.log(1.005), few.by_process.std(ddof=1), 1e-4)
    assert needed > 5
    assert f"about {needed} processes" in judge_gain(few, DEFAULT, level=1e-4, seed=1).reason
    enough = judge_gain(evidence(0.1, processes=8), replace(DEFAULT, min_effect=50.0), level=0.1, seed=1)
    assert "about 9 processes" in enough.reason, "one more at least"
    slower = judge_gain(evidence(-0.1), DEFAULT, level=0.1, seed=1)
    assert "no number of processes proves more than 0.5%" in slower.reason


def test_a_summary_is_numpy_s_and_one_value_has_no_deviation():
    values = np.exp(np.random.default_rng(1).normal(0, 0.1, (4, 4, 2)))
    one, kept = summarise(np.concatenate([values, np.full((1, 4, 2), np.nan)])), values.ravel()
    assert (one.n, one.mean, one.std) == pytest.approx((32, np.mean(kept), np.std(kept, ddof=1)))
    assert (one.p5, one.p50, one.p95, one.p99) == pytest.approx(tuple(np.quantile(kept, [0.05, 0.5, 0.95, 0.99])))
    assert (summarise(np.array([2.0])).std, summarise(np.array([2.0])).p99) == (0.0, 2.0)
