"""Advice about noise: each kind on samples that show it, and none on quiet ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from pytest_compileiq.rules import noise
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.noise import advice, drift


def evidence(*, within=0.01, between=0.0, drifting=0.0, processes=16, seed=0) -> Evidence:
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, processes)[:, None, None] * np.log1p(drifting)
    baseline = np.exp(time + rng.normal(0, within, (processes, 4, 2)))
    tuned = np.exp(time + rng.normal(0, between, (processes, 1, 1)) + rng.normal(0, within, (processes, 4, 2)))
    return Evidence(baseline, tuned)


@pytest.mark.parametrize("seed", range(5))
def test_quiet_samples_give_no_advice(seed):
    assert advice(evidence(seed=seed)) == []


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        ({"within": 0.2}, "slots of one process vary by"),
        ({"drifting": 0.08}, "slower over the run"),
        ({"drifting": -0.08}, "faster over the run"),
        ({"between": 0.05}, "between processes: buffers from fixtures"),
    ],
)
def test_each_kind_of_noise_has_its_sentence(noise, said):
    assert said in "; ".join(advice(evidence(**noise)))


def test_a_drift_is_estimated_and_chance_is_not_taken_for_one():
    assert drift(evidence(drifting=0.08).compared[0]) == pytest.approx(0.08, rel=0.25)
    found = [drift(evidence(within=0.05, seed=seed).compared[0]) for seed in range(200)]
    assert np.mean(np.array(found) != 0) < 0.09  # two standard deviations: about 5 %
    assert drift(evidence(drifting=0.5, processes=4).compared[0]) == 0


def test_at_its_threshold_noise_is_not_worth_a_word(monkeypatch):
    one = evidence(within=0.2, between=0.1, drifting=2.0)
    baseline = one.compared[0]
    assert len(advice(one)) == 3
    monkeypatch.setattr(noise, "SPREAD", float(np.median(baseline.reshape(16, 8).std(axis=1, ddof=1))))
    monkeypatch.setattr(noise, "DRIFT", drift(baseline))
    monkeypatch.setattr(noise, "BETWEEN", float(one.by_process.std(ddof=1)))
    assert advice(one) == []


def test_one_process_alone_has_no_differences_between_processes():
    assert advice(evidence(processes=1, between=0.5)) == []


def blocks(means) -> np.ndarray:
    """Logs of shape (processes, 1, 2) with these process means."""
    return np.repeat(np.asarray(means, float), 2).reshape(-1, 1, 2)


def test_a_drift_is_theil_and_sen_s_slope_from_the_first_process_to_the_last():
    assert drift(blocks(np.linspace(0, np.log(1.08), 6))) == pytest.approx(0.08, rel=1e-9)
    means = np.linspace(0, 0.2, 20) + np.random.default_rng(1).normal(0, 0.02, 20)
    slope = scipy.stats.theilslopes(means, np.arange(20)).slope
    assert drift(blocks(means)) == pytest.approx(np.expm1(slope * 19), rel=1e-9)


def test_a_drift_of_six_processes_needs_a_concordance_of_two_standard_deviations_among_all_orders():
    orders = list(itertools.permutations(range(6)))
    pairs = list(itertools.combinations(range(6), 2))
    concordance = np.array([sum(1 if one[i] < one[j] else -1 for i, j in pairs) for one in orders])
    drifts = np.array([drift(blocks(one)) for one in orders])
    np.testing.assert_array_equal(drifts != 0, abs(concordance) > 2 * concordance.std())
    assert drift(blocks(range(5))) == 0, "too few to tell"


@pytest.mark.parametrize("dropped", [1, 16])
def test_a_process_whose_quads_were_all_dropped_says_nothing(dropped):
    noisy = evidence(within=0.2)
    noisy.baseline[:dropped] = noisy.tuned[:dropped] = np.nan

    assert len(advice(noisy)) == (0 if dropped == 16 else len(advice(evidence(within=0.2))))
