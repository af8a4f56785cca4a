"""Change points of two arms: what is found, when, where, and that nothing found is taken back."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from pytest_compileiq.history.shifts import _axes, _by_split, change_points, steps

BEFORE, AFTER = 60, 5


def noise(runs: int, seed: int = 0, sd: float = 0.005, shared: float = 0.7):
    """Log times of both arms that share a part of their noise."""
    rng = np.random.default_rng(seed)
    common, *own = rng.normal(size=(3, runs))
    return [sd * (np.sqrt(shared) * common + np.sqrt(1 - shared) * each) for each in own]


def stepped(baseline: float, tuned: float, at: int = BEFORE, runs: int = BEFORE + AFTER, seed: int = 0):
    arms = noise(runs, seed)
    arms[0][at:] += baseline
    arms[1][at:] += tuned
    return arms


def test_the_statistic_is_that_of_an_analysis_of_covariance():
    baseline, tuned = stepped(0.0, 0.01, at=20, runs=50)
    found = _by_split(*_axes(baseline, tuned, "tuned"))[20]
    design = np.column_stack([np.ones(50), np.arange(50) >= 20, baseline])
    coefficients, (left,), _, _ = np.linalg.lstsq(design, tuned, rcond=None)
    error = np.sqrt(left / 47 * np.linalg.inv(design.T @ design)[1, 1])
    assert found == pytest.approx(coefficients[1] / error)


def test_equal_noise_that_is_all_of_it_shared_is_compared_without_it():
    arms = noise(30, shared=0.0)
    same = _by_split(*_axes(arms[0], arms[0] + 1e-3 * arms[1], "tuned"))
    assert np.abs(same).max() < scipy.stats.t.isf(1e-6, 27)


@pytest.mark.parametrize("by", [0.03, -0.03])
@pytest.mark.parametrize(
    ("baseline", "tuned", "shape"), [(0, 1, "tuned"), (1, 0, "baseline"), (1, 1, "alike")], ids=["t", "b", "both"]
)
def test_a_step_is_found_within_five_runs_and_told_by_its_shape(baseline, tuned, shape, by):
    for seed in range(5):
        (change,) = change_points(*stepped(baseline * by, tuned * by, seed=seed))
        assert (change.shape, change.drifts, change.seen < BEFORE + AFTER) == (shape, False, True)
        assert abs(change.at - BEFORE) <= 1


def test_a_known_change_takes_less_evidence_than_one_anywhere():
    arms = stepped(0.0, 0.0075, runs=BEFORE + 10, seed=3)
    assert change_points(*arms) == []
    (change,) = change_points(*arms, known=[BEFORE])
    assert (change.at, change.shape) == (BEFORE, "tuned")


def test_what_is_found_after_a_run_stays_whatever_comes():
    arms = stepped(0.03, 0.0, runs=160)
    arms[1][110:] += 0.04
    everything = [change.seen for change in change_points(*arms)]
    assert len(everything) == 2
    for runs in range(1, 161, 7):
        told = [change.seen for change in change_points(*(arm[:runs] for arm in arms))]
        assert told == [seen for seen in everything if seen < runs]


def test_nothing_is_found_where_nothing_changed():
    assert not [change for seed in range(5) for change in change_points(*noise(200, seed), known=[50, 120])]


def test_two_runs_that_stand_alone_are_no_new_level():
    arms = noise(80)
    for arm in arms:
        arm[40] += 0.5
        arm[70:72] -= 0.2
    assert change_points(*arms) == []


def test_constant_times_and_moves_that_no_gate_would_see_are_level():
    assert change_points(np.zeros(40), np.zeros(40)) == []
    assert change_points(np.zeros(40), np.where(np.arange(40) < 20, 0.0, 0.004)) == []
    (change,) = change_points(np.zeros(40), np.where(np.arange(40) < 20, 0.0, 0.006))
    assert change.at == 20


def test_a_creep_of_both_arms_is_told_once():
    ramp = 0.05 * np.clip((np.arange(200) - 80) / 60, 0, 1)
    (change,) = change_points(*(arm + ramp for arm in noise(200, seed=2)))
    assert (change.shape, change.drifts) == ("alike", True)


def test_a_step_of_an_arm_within_a_creep_of_both_is_told_besides():
    ramp = 0.05 * np.clip((np.arange(200) - 40) / 80, 0, 1)
    baseline, tuned = (arm + ramp for arm in noise(200, seed=2))
    tuned[160:] += 0.04
    told = [(change.shape, change.drifts) for change in change_points(baseline, tuned, known=[160])]
    assert told[-1] == ("tuned", False)


@pytest.mark.parametrize("runs", range(12))
def test_few_runs_say_nothing(runs):
    assert change_points(np.arange(runs) * 1.0, -np.arange(runs) * 1.0, known=[1, 3]) == [] or runs >= 8


def test_steps_are_between_medians():
    assert steps(np.array([0.0, 0, 9, 1, 1]), np.array([2.0, 2, 2, 1, 1]), 3) == (1.0, -1.0)
