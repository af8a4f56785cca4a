"""Advice about noise: each kind on samples that show it, and none on quiet ones."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.rules.gate import Evidence
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
    assert drift(evidence(drifting=0.08).logs[0]) == pytest.approx(0.08, rel=0.25)
    found = [drift(evidence(within=0.05, seed=seed).logs[0]) for seed in range(200)]
    assert np.mean(np.array(found) != 0) < 0.09  # two standard deviations: about 5 %
    assert drift(evidence(drifting=0.5, processes=4).logs[0]) == 0
