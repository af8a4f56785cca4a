"""The gate: what proves, what refutes, what stays open, and that nothing missing is ever significance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_compileiq.claim import Claim, DecisionRecord
from pytest_compileiq.errors import ClaimMismatch, StoreError
from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.claims import Expected
from pytest_compileiq.rules.evidence import Evidence, gather, summarise
from pytest_compileiq.rules.gate import LOOKS, judge_gain, judge_non_inferior, judge_replay
from pytest_compileiq.rules.recompute import RELATIVE_TOLERANCE, recompute
from pytest_compileiq.samples import SampleRow

LEVEL = 0.01 / len(LOOKS)
DEFAULT = Thresholds()


def evidence(
    gain=0.0, *, seed=0, processes=8, sd=0.01, between=0.0, wider=1.0, direction="minimize", heavy=False
) -> Evidence:
    rng = np.random.default_rng(seed)
    noise = (lambda shape: rng.standard_t(3, shape)) if heavy else (lambda shape: rng.normal(0, 1, shape))
    common = rng.normal(0, 0.002, (processes, 1, 1))
    shift = rng.normal(0, between, (processes, 1, 1)) - gain
    baseline = 1e-4 * np.exp(common + sd * noise((processes, 4, 2)))
    tuned = 1e-4 * np.exp(common + shift + wider * sd * noise((processes, 4, 2)))
    return Evidence(baseline, tuned, direction)


def rows_of(one: Evidence) -> list[SampleRow]:
    """Three samples a slot around the slot's value, in ABBA order."""
    rows = []
    for process, quad in np.ndindex(one.baseline.shape[:2]):
        for slot, (arm, number) in enumerate([("baseline", 0), ("tuned", 0), ("tuned", 1), ("baseline", 1)]):
            value = getattr(one, arm)[process, quad, number]
            rows += [
                SampleRow("cpu", "w", "runtime", process, quad, slot, arm, k, value * (1 + 0.001 * (k - 1)))
                for k in range(3)
            ]
    return rows


def test_a_clear_gain_is_proven_with_its_interval():
    decision = judge_gain(evidence(0.05), DEFAULT, level=LEVEL, seed=1)
    assert decision.verdict is Verdict.PROVEN
    assert decision.speedup_low < np.exp(0.05) < decision.speedup_high
    assert decision.flips >= 20 / LEVEL


@pytest.mark.parametrize("gain", [0.1, 0.7, 1.6])
def test_a_gain_of_a_maximised_metric_is_no_wider_spread(gain):
    for seed in range(20):
        faster = evidence(gain, seed=seed, sd=0.02)
        throughput = Evidence(1 / faster.baseline, 1 / faster.tuned, "maximize")
        assert judge_gain(throughput, DEFAULT, level=LEVEL, seed=1).verdict is Verdict.PROVEN


def test_a_metric_to_maximise_counts_the_other_way():
    slower = evidence(0.05)
    assert judge_gain(replace(slower, direction="maximize"), DEFAULT, level=LEVEL, seed=1).verdict is not Verdict.PROVEN
    assert (
        judge_gain(Evidence(slower.tuned, slower.baseline, "maximize"), DEFAULT, level=LEVEL, seed=1).verdict
        is Verdict.PROVEN
    )


@pytest.mark.parametrize(
    ("one", "thresholds", "said"),
    [
        (evidence(0.05), replace(DEFAULT, min_effect=50.0), "d = "),
        (evidence(0.05), replace(DEFAULT, min_speedup=1.2), "not surely above 1.2"),
        (evidence(0.001, seed=3), DEFAULT, "Welch's p"),
        (evidence(-0.05), DEFAULT, "Welch's p"),
    ],
)
def test_each_criterion_alone_can_withhold_the_proof(one, thresholds, said):
    decision = judge_gain(one, thresholds, level=LEVEL, seed=1)
    assert decision.verdict is Verdict.INCONCLUSIVE, decision.reason
    assert said in decision.reason


def test_the_randomisation_test_alone_can_withhold_the_proof():
    one = evidence(0.05, processes=2)
    decision = judge_gain(one, replace(DEFAULT, min_speedup=1.0), level=0.003, seed=1)
    assert decision.verdict is not Verdict.PROVEN  # 2 processes of 4 quads allow no p below 1/256


def test_a_wider_spread_is_refuted_by_name():
    decision = judge_gain(evidence(0.05, wider=4.0), DEFAULT, level=LEVEL, seed=1)
    assert decision.verdict is Verdict.REFUTED and "spread is wider" in decision.reason


@pytest.mark.parametrize(("gain", "wider"), [(0.3, 4.0), (1.6, 20.0)])
def test_a_wider_spread_that_is_seldom_as_bad_as_the_baseline_usually_is_takes_nothing_from_a_gain(gain, wider):
    for seed in range(10):
        one = evidence(gain, wider=wider, seed=seed)
        assert judge_gain(one, DEFAULT, level=LEVEL, seed=1).verdict is Verdict.PROVEN
        throughput = Evidence(1 / one.baseline, 1 / one.tuned, "maximize")
        assert judge_gain(throughput, DEFAULT, level=LEVEL, seed=1).verdict is Verdict.PROVEN


def test_a_lucky_minimum_is_refuted_by_name():
    one = evidence(-0.02)
    tuned = one.tuned.copy()
    tuned[0, 0, 0] = one.baseline.min() * 0.8
    decision = judge_gain(replace(one, tuned=tuned), DEFAULT, level=LEVEL, seed=1)
    assert decision.verdict is Verdict.REFUTED and "only the minimum" in decision.reason


def test_lost_samples_are_never_significance():
    one = evidence(0.2)
    for array in (one.baseline, one.tuned):
        array[:, :2] = np.nan
    decision = judge_gain(one, DEFAULT, level=LEVEL, seed=1)
    assert decision.verdict is Verdict.INCONCLUSIVE and "50%" in decision.reason
    assert decision.p_value == 1.0
    assert judge_gain(evidence(0.2, processes=1), DEFAULT, level=LEVEL, seed=1).verdict is Verdict.INCONCLUSIVE
    assert judge_non_inferior(one, DEFAULT, level=LEVEL).verdict is Verdict.INCONCLUSIVE


def test_constant_arms_are_judged_without_a_warning():
    same = Evidence(np.full((8, 4, 2), 1e-4), np.full((8, 4, 2), 1e-4))
    assert judge_gain(same, DEFAULT, level=LEVEL, seed=1).verdict is not Verdict.PROVEN
    faster = Evidence(np.full((8, 4, 2), 1e-4), np.full((8, 4, 2), 0.9e-4))
    assert judge_gain(faster, DEFAULT, level=LEVEL, seed=1).verdict is Verdict.PROVEN


def test_non_inferiority_has_three_outcomes():
    assert judge_non_inferior(evidence(0.0), DEFAULT, level=LEVEL).verdict is Verdict.PROVEN
    assert judge_non_inferior(evidence(-0.05), DEFAULT, level=LEVEL).verdict is Verdict.REFUTED
    assert judge_non_inferior(evidence(-0.01), DEFAULT, level=LEVEL).verdict is Verdict.INCONCLUSIVE


def replay(one, committed=1.1, last_look=True):
    return judge_replay(one, Expected(committed, committed - 0.01, committed + 0.01), last_look=last_look)


def test_a_replayed_gain_passes_decays_or_is_gone():
    assert replay(evidence(np.log(1.1))).verdict is Verdict.PROVEN
    decayed = replay(evidence(np.log(1.07)))
    assert decayed.verdict is Verdict.PROVEN and "decayed" in decayed.note
    faster = replay(evidence(np.log(1.2)))
    assert faster.verdict is Verdict.PROVEN and "refresh the claim" in faster.note
    assert replay(evidence(0.0)).verdict is Verdict.REFUTED
    assert replay(evidence(np.log(1.05), sd=0.2)).verdict is Verdict.INCONCLUSIVE


def test_equal_arms_are_proven_no_more_often_than_alpha():
    for noise in ({}, {"heavy": True}, {"between": 0.01}):
        proven = sum(
            judge_gain(evidence(seed=seed, **noise), DEFAULT, level=0.01, seed=seed).verdict is Verdict.PROVEN
            for seed in range(150)
        )
        assert proven <= 5, noise


def test_two_percent_is_proven_nearly_always_where_processes_agree():
    proven = sum(
        judge_gain(evidence(0.02, seed=seed, between=0.004), DEFAULT, level=LEVEL, seed=seed).verdict is Verdict.PROVEN
        for seed in range(60)
    )
    assert proven >= 50


def test_gather_gives_medians_of_complete_designs_only():
    one = evidence(0.05)
    rows = rows_of(one)
    assert np.allclose(gather(rows, "minimize").tuned, one.tuned)
    for broken in (
        rows[1:],
        rows[:-3],
        [*rows, rows[0]],
        [replace(rows[0], value=float("nan")), *rows[1:]],
        [replace(rows[0], value=-1.0), *rows[1:]],
        [replace(rows[0], value=0.0), *rows[1:]],
        [replace(row, arm="baseline") for row in rows],
        [],
    ):
        with pytest.raises(StoreError):
            gather(broken, "minimize")


def test_a_dropped_sample_drops_its_quad_in_both_arms():
    rows = rows_of(evidence(0.05))
    one = gather([replace(rows[0], dropped=True), *rows[1:]], "minimize")
    assert np.isnan(one.baseline[0, 0]).all() and np.isnan(one.tuned[0, 0]).all()
    assert one.dropped == pytest.approx(1 / 32)


def claim_of(one: Evidence) -> Claim:
    decision = judge_gain(one, DEFAULT, level=LEVEL, seed=7)
    return Claim(
        device="cpu", workload="w", objective="runtime", kind="gain", speedup=decision.speedup, speedup_low=decision.speedup_low,
        speedup_high=decision.speedup_high, p_value=decision.p_value, cohens_d=decision.cohens_d, samples="x.csv",
        test=DecisionRecord(alpha=0.01, level=LEVEL, look=1, processes=8, flips=decision.flips or 4096, seed=7, finalists=1),
        baseline=summarise(one.baseline), tuned=summarise(one.tuned),
    )  # fmt: skip


def test_a_claim_is_recomputed_and_every_altered_number_is_named():
    rows = rows_of(evidence(0.05))
    claim = claim_of(gather(rows, "minimize"))
    recompute(claim, rows, thresholds=DEFAULT, direction="minimize")
    for name in ("speedup", "speedup_low", "speedup_high", "p_value", "cohens_d"):
        altered = claim.model_copy(update={name: getattr(claim, name) * 1.0001})
        with pytest.raises(ClaimMismatch, match=name):
            recompute(altered, rows, thresholds=DEFAULT, direction="minimize")
    for arm in ("baseline", "tuned"):
        for key in ("mean", "std", "p5", "p50", "p95", "p99"):
            summary = getattr(claim, arm)
            altered = claim.model_copy(update={arm: summary.model_copy(update={key: getattr(summary, key) * 1.01})})
            with pytest.raises(ClaimMismatch, match=f"{arm}.{key}"):
                recompute(altered, rows, thresholds=DEFAULT, direction="minimize")


def test_a_claim_cannot_loosen_its_own_level_or_rest_on_other_rows():
    rows = rows_of(evidence(0.05))
    claim = claim_of(gather(rows, "minimize"))
    allowed = DEFAULT.alpha / len(LOOKS) * (1 + RELATIVE_TOLERANCE)

    def at(level):
        return claim.model_copy(update={"test": claim.test.model_copy(update={"level": level})})

    recompute(at(allowed), rows, thresholds=DEFAULT, direction="minimize")
    for level in (0.0, np.nextafter(allowed, 1), 0.5):
        with pytest.raises(ClaimMismatch, match="level"):
            recompute(at(level), rows, thresholds=DEFAULT, direction="minimize")
    foreign = [replace(row, workload=workload) for row, workload in zip(rows, ("other", "another"), strict=False)]
    with pytest.raises(ClaimMismatch, match="rows of runtime for 'another' on cpu"):
        recompute(claim, [*foreign, *rows[2:]], thresholds=DEFAULT, direction="minimize")


def test_samples_that_do_not_prove_the_claim_are_a_mismatch():
    rows = rows_of(evidence(0.0, seed=3))
    with pytest.raises(ClaimMismatch, match="do not prove"):
        recompute(claim_of(gather(rows, "minimize")), rows, thresholds=DEFAULT, direction="minimize")
