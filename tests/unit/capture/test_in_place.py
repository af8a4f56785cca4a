"""What pairs of neighbouring calls show, and what of it contradicts an artifact."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pytest_compileiq.capture.in_place import (
    FEWEST_PAIRS,
    Gain,
    InPlace,
    WorkloadInPlace,
    gain_of,
    is_against,
    is_allowed,
    least_in_place,
    left_out,
    open_in,
    slower_in,
    wrong_in,
)
from pytest_compileiq.capture.program import Apart
from pytest_compileiq.claim import DecisionRecord
from tests.unit.artifacts import measured_claim

RECORD = InPlace(program="python serve.py", device="cpu", compared=9, output="same")


def drawn(speedup: float, count: int, seed: int) -> list[tuple[int, int]]:
    """Pairs of a program whose clock drifts by a half, with a call in twenty that takes ten times as long."""
    random = np.random.default_rng(seed)
    drift = 1 + 0.5 * np.sin(np.arange(count) / count * 7)
    times = 50_000 * drift[:, None] * np.exp(0.02 * random.standard_normal((count, 2)))
    times *= np.where(random.random((count, 2)) < 0.05, 10, 1)
    return [(int(baseline), int(tuned / speedup)) for baseline, tuned in times]


def timed(low: float | None, high: float | None, least: float = 1.1) -> InPlace:
    gain = None if low is None or high is None else Gain(math.sqrt(low * high), low, high, 1e5)
    return replace(RECORD, workloads=(WorkloadInPlace("big", 40, least, 1e-4, gain),))


def test_the_interval_holds_the_true_gain_as_often_as_it_says():
    held = [gain.low <= 1.2 <= gain.high for seed in range(600) if (gain := gain_of(drawn(1.2, 400, seed)))]
    assert len(held) == 600
    assert sum(held) >= stats.binom.ppf(1e-4, 600, 0.985)


def test_a_few_pairs_are_a_paired_t_interval_and_fewer_say_nothing():
    pairs = drawn(1.2, 12, 3)
    gain = gain_of(pairs)
    ratios = [math.log(baseline / tuned) for baseline, tuned in pairs]
    oracle = stats.ttest_1samp(ratios, 0).confidence_interval(0.99)
    assert gain is not None
    assert (math.log(gain.low), math.log(gain.high)) == pytest.approx((oracle.low, oracle.high))
    assert gain_of(pairs[: FEWEST_PAIRS - 1]) is None


def test_a_program_has_to_show_half_of_a_gain_and_no_loss():
    gain = measured_claim("cpu")
    assert least_in_place(gain, 1.44) == pytest.approx(1.2)
    test = DecisionRecord(
        alpha=0.01, level=0.95, look=1, processes=8, flips=1, seed=1, finalists=1, max_regression=0.02
    )
    assert least_in_place(gain.model_copy(update={"kind": "non-inferior", "test": test}), 0.999) == pytest.approx(0.98)


@pytest.mark.parametrize(
    ("tuned", "own", "rtol", "allowed"),
    [
        (1e-9, 0.0, 0.0, False),
        (1e-9, 0.0, 1e-9, True),
        (1e-9, 3e-10, 0.0, True),
        (1e-9, 2e-10, 0.0, False),
        (None, None, 1.0, False),
    ],
)
def test_floats_differ_within_what_is_asked_for_and_what_the_baseline_does(tuned, own, rtol, allowed):
    assert is_allowed(Apart("the result", 1, tuned, own), rtol) is allowed


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (timed(1.2, 1.3), None),
        (timed(1.05, 1.15), None),
        (timed(0.99, 1.01), "big is 0.990 to 1.010 times as fast in it, and would have to be 1.100"),
        (
            replace(RECORD, differing=(Apart("argument 2", 3, 0.1, None),)),
            "argument 2 differs on 3 of 9 calls that both arms made, by up to 0.1 of its largest value",
        ),
        (replace(RECORD, output="differs"), "the program's output differs"),
    ],
)
def test_what_a_program_contradicts_is_named(record, said):
    assert [*wrong_in(record), *slower_in(record)] == ([said] if said else [])
    assert is_against(record) is bool(said)


def test_claims_that_a_program_s_times_say_nothing_of_are_named():
    claim = measured_claim("cpu")
    name = claim.workload
    assert not list(left_out([(claim, True)], {name: 0}))
    assert list(left_out([(claim, True)], {name: None})) == [
        f"runtime of {name}: its test does not say which captured shape that is, "
        f"as workloads={{{name!r}: dict(shape=0)}} does"
    ]
    assert list(left_out([(claim, False)], {name: 0})) == [
        f"runtime of {name} is claimed on {claim.device} and was not measured here, so no time was compared"
    ]
    for objective in ("runtime@p99", "compile_time", "energy"):
        other = claim.model_copy(update={"objective": objective})
        assert list(left_out([(other, True)], {name: 0})) == [
            f"{objective} of {name} is no median of calls' times, so it was not compared with the program's"
        ]


def test_what_was_not_seen_is_open():
    assert list(open_in(timed(1.05, 1.15))) == ["big is undecided by 40 pairs of calls, 1.050 to 1.150 times as fast"]
    assert list(open_in(timed(None, None))) == ["big is undecided by 40 pairs of calls"]
    assert list(open_in(replace(RECORD, compared=0))) == ["no call was made by both arms"]
    assert not list(open_in(timed(1.2, 1.3)))
