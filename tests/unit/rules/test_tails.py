"""Claims about a tail: what a slot is worth, how many samples it takes, and whether the gate still keeps its promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.comparison import samples_needed, slot_value
from pytest_compileiq.rules.evidence import Evidence, gather
from pytest_compileiq.rules.gate import LOOKS, judge_gain
from pytest_compileiq.samples import SampleRow

DEFAULT = Thresholds()
LEVEL = DEFAULT.alpha / len(LOOKS)
QUANTILES = {"runtime": 0.5, "runtime@p95": 0.95, "energy@p99": 0.99}
positive = st.floats(1e-9, 1e9)


@pytest.mark.parametrize(("metric", "share"), QUANTILES.items())
@given(values=st.lists(positive, min_size=1, max_size=120))
def test_a_slot_is_worth_what_numpy_says(metric, share, values):
    assert slot_value(metric, values) == pytest.approx(np.quantile(values, share), rel=1e-9)


def test_a_tail_takes_as_many_samples_as_reach_into_it():
    assert [samples_needed(metric, 5) for metric in QUANTILES] == [5, 20, 100]
    assert samples_needed("runtime", 1) == 1


def draw(random: np.random.Generator, *, hits: float = 0.03, gain: float = 0.0) -> np.ndarray:
    """Samples of one arm in seconds, shape (processes, quads, slots, samples): drifting, and hit now and then."""
    shape = (8, 4, 2, 100)
    drift = 0.01 * np.cumsum(random.standard_normal(shape), axis=-1) / 10
    hit = (random.random(shape) < hits) * random.exponential(1.0, shape)
    place = 0.003 * random.standard_normal((8, 1, 1, 1))  # of a process, in memory
    return 1e-4 * np.exp(0.01 * random.standard_normal(shape) + drift + hit + place - gain)


def at(share: float, baseline: np.ndarray, tuned: np.ndarray) -> Evidence:
    return Evidence(np.quantile(baseline, share, axis=-1), np.quantile(tuned, share, axis=-1))


def test_a_shorter_tail_is_proven_as_such_and_no_gain_of_the_typical_value():
    random = np.random.default_rng(1)
    baseline, tuned = draw(random, hits=0.05), draw(random, hits=0.0)
    assert judge_gain(at(0.99, baseline, tuned), DEFAULT, level=LEVEL, seed=1).verdict is Verdict.PROVEN
    assert judge_gain(at(0.5, baseline, tuned), DEFAULT, level=LEVEL, seed=1).verdict is not Verdict.PROVEN


def test_a_faster_typical_value_with_a_longer_tail_is_no_gain_at_the_tail():
    random = np.random.default_rng(2)
    baseline, tuned = draw(random, hits=0.0), draw(random, hits=0.05, gain=0.05)
    decision = judge_gain(at(0.99, baseline, tuned), DEFAULT, level=LEVEL, seed=1)
    assert decision.verdict is not Verdict.PROVEN and decision.speedup < 0.9


@pytest.mark.parametrize("share", [0.95, 0.99])
def test_equal_arms_are_never_proven_and_the_interval_covers_the_true_ratio(share):
    random = np.random.default_rng(3)
    proven = covered = 0
    for seed in range(100):
        baseline, tuned = draw(random), draw(random)
        proven += judge_gain(at(share, baseline, tuned), DEFAULT, level=LEVEL, seed=seed).verdict is Verdict.PROVEN
        gain = judge_gain(at(share, baseline, tuned * np.exp(-0.1)), DEFAULT, level=LEVEL, seed=seed)
        covered += gain.speedup_low <= np.exp(0.1) <= gain.speedup_high
    assert proven <= 4  # P(more | 1 %) = 0.3 %
    assert covered >= 89  # P(fewer | 95 %) = 0.4 %


def test_a_claim_on_too_few_samples_is_no_evidence():
    rows = [
        SampleRow("cpu", "w", "runtime@p99", process, 0, slot, arm, sample, 1e-4)
        for process in range(8)
        for slot, arm in enumerate(("baseline", "tuned", "tuned", "baseline"))
        for sample in range(99)
    ]
    with pytest.raises(StoreError, match=r"runtime@p99 needs 100 a slot, and one has 99"):
        gather(rows, "minimize")
    one_less = [replace(row, sample=99) for row in rows if row.sample == 0][1:]
    with pytest.raises(StoreError, match=r"runtime@p99 needs 100 a slot, and one has 99"):
        gather(rows + one_less, "minimize")
    assert gather([*rows, *one_less, replace(rows[0], sample=99)], "minimize").processes == 8
    assert gather([replace(row, objective="runtime") for row in rows], "minimize").processes == 8
