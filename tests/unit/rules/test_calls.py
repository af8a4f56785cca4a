"""What is told of a timed call: the limits of each rule, and that caches, new pages and one odd look explain it away."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from pytest_compileiq.rules.calls import (
    FAULT_S,
    FRESH_RATIO,
    LOOKS,
    MOST,
    PART,
    SURE_P,
    Called,
    CallTimes,
    FirstCalls,
    is_decided,
    of_first_calls,
    of_the_way,
    unlike,
    why_never_new,
    why_remembered,
)

STEADY = CallTimes(first_s=10e-6, later_s=10e-6, cold_s=10e-6, faults=0, call_s=10e-6, empty_s=None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"first_s": 20e-6}, None),
        ({"first_s": 20.1e-6}, "longer"),
        ({"first_s": 200e-6, "cold_s": 101e-6}, None),
        ({"first_s": 200e-6, "cold_s": 99e-6}, "longer"),
        ({"first_s": 20.1e-6 + 3 * FAULT_S, "faults": 3}, "longer"),
        ({"first_s": 19.9e-6 + 3 * FAULT_S, "faults": 3}, None),
        ({"first_s": 5e-6}, None),
        ({"first_s": 4.9e-6}, "shorter"),
        ({"first_s": 4.9e-6, "faults": 3}, "shorter"),
    ],
)
def test_a_first_call_is_unlike_later_ones_only_where_neither_caches_nor_new_pages_explain_it(changes, said):
    assert unlike(replace(STEADY, **changes), ratio=2.0) == said


def test_the_first_call_of_a_fresh_process_may_take_three_times_as_long():
    three, more = (replace(STEADY, first_s=first_s) for first_s in (29e-6, 35e-6))
    assert of_first_calls([three], ratio=FRESH_RATIO) is None
    assert of_first_calls([more], ratio=FRESH_RATIO)


def test_a_difference_counts_when_every_look_finds_the_same_one():
    longer, shorter = replace(STEADY, first_s=1e-3), replace(STEADY, first_s=1e-6)

    assert of_first_calls([longer, longer], ratio=2.0)
    assert of_first_calls([shorter], ratio=2.0)
    assert of_first_calls([longer, STEADY], ratio=2.0) is None
    assert of_first_calls([longer, shorter], ratio=2.0) is None
    assert of_first_calls([STEADY], ratio=2.0) is None
    assert of_first_calls([], ratio=2.0) is None


def test_both_times_are_said_the_least_of_each_and_what_to_do():
    looks = [replace(STEADY, first_s=first, later_s=later) for first, later in ((1.25e-3, 4e-6), (1.4e-3, 3.14e-6))]
    said = of_first_calls(looks, ratio=2.0)

    assert said.startswith("the first call takes 1.2 ms and later ones 3.1 µs: the measured calls do other work")
    assert "reset=" in said


@pytest.mark.parametrize(
    ("share", "word"), [(PART - 0.01, None), (PART, "part of"), (MOST - 0.01, "part of"), (MOST, "most of")]
)
def test_the_way_to_the_kernel_is_told_by_its_share(share, word):
    said = of_the_way([replace(STEADY, empty_s=share * STEADY.call_s)])

    assert (said and f"{word} the measured time is call overhead" in said) == (word and True)


def test_the_look_that_makes_least_of_the_way_counts_and_its_times_are_said():
    looks = [replace(STEADY, call_s=0.9e-6, empty_s=empty_s) for empty_s in (0.8e-6, 0.3e-6, None)]

    said = of_the_way(looks)
    assert said.startswith(
        "the call takes 0.9 µs, of which calling an empty function through ctypes takes 0.3 µs: part"
    )
    assert of_the_way([STEADY]) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.23e-6, "0.23 µs"),
        (13.4e-6, "13 µs"),
        (99.6e-6, "100 µs"),
        (999.4e-6, "999 µs"),
        (999.5 * 1e-6, "1 ms"),
        (0.123, "123 ms"),
        (3.14, "3.1 s"),
        (99.5, "100 s"),
        (310.0, "310 s"),
        (4321.0, "4321 s"),
    ],
)
def test_times_are_said_in_a_unit_that_suits(seconds, text):
    said = of_the_way([replace(STEADY, call_s=seconds, empty_s=seconds)])
    assert said.startswith(f"the call takes {text}, of which")


# gains that are there on remembered input alone, against scipy; and honest ones, with what both arms pay at first


def draws(first, later, *, count=32, noise=0.1, pages=0, seed=0) -> list[FirstCalls]:
    """Calls of 100 µs, so many times faster on the first call and on later ones, which vary by ``noise``."""
    rng = np.random.default_rng(seed)

    def called(gains, new_pages):
        first_s, later_s = 1e-4 / np.array(gains) * np.exp(rng.normal(0, noise, 2))
        return Called(float(first_s), float(later_s), float(later_s), new_pages)

    return [FirstCalls(called((0.7, 1), pages), called((0.7 * first, later), 0)) for _ in range(count)]


@pytest.mark.parametrize(("first", "later"), [(1, 4), (0.8, 1.5), (1.5, 8), (1, 1.25), (2, 4), (1, 1.05), (4, 4)])
@pytest.mark.parametrize("seed", range(5))
def test_refusal_agrees_with_a_t_test_of_scipy(first, later, seed):
    given = draws(first, later, seed=seed)
    first_gain = np.array([np.log(draw.baseline.first_s / draw.tuned.first_s) for draw in given])
    later_gain = np.array([np.log(draw.baseline.later_s / draw.tuned.later_s) for draw in given])
    limit = max(later_gain.mean() / 2, np.log(1.1))
    lost = np.clip((later_gain - first_gain - limit) / limit, -3, 3)
    p_value = stats.ttest_1samp(lost, 0, alternative="greater").pvalue
    reason = why_remembered(given)
    assert (reason is not None) == (p_value <= SURE_P)
    assert reason is None or f"(p = {p_value:.2g})" in reason


def test_remembered_gain_names_both_speed_ups_and_what_helps():
    reason = why_remembered(draws(1, 4, noise=1e-3))
    assert "the first call is 1x and later calls are 4x as fast as the baseline's" in reason
    assert "do the work in every call" in reason and "tune(…, repeats=True)" in reason


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(draws(4, 4), id="both arms pay as much for a first call"),
        pytest.param(draws(3, 4), id="most of the gain is there"),
        pytest.param(draws(0.5, 1.05, noise=0), id="below 10 %"),
        pytest.param(draws(0.1, 1.2, count=7), id="few draws, all clipped alike"),
        pytest.param(draws(1, 4, pages=8), id="new memory in the baseline's first call"),
        pytest.param([], id="no draw"),
    ],
)
def test_gain_that_nothing_speaks_against_is_not_refused(given):
    assert why_remembered(given) is None


def test_one_slow_first_call_does_not_decide():
    table = FirstCalls(Called(1e-4, 1e-4, 1e-4), Called(1.0, 2.5e-5, 2.5e-5))
    assert why_remembered([table, *draws(4, 4)[1:]]) is None


# ── the body draws nothing: first calls of copies of the build ───────────────────────────────────────────────────


def copies(lost, *, count=16, saved=0.75, table_s=0.0, noise=0.0, seed=0) -> list[FirstCalls]:
    """Baseline's calls of 100 µs in a row, of which the tuned arm saves ``saved``, and its first calls lack ``lost``.

    Emptied caches cost 30 µs more, and hide most of the gain.
    """
    varying = np.random.default_rng(seed).normal(0, noise, count) if noise else np.zeros(count)
    new_s = 2e-5 + table_s
    baseline, later_s = Called(1.3e-4 + new_s, 1.3e-4, 1e-4), 1.3e-4 - 1e-5 * saved
    return [
        FirstCalls(baseline, Called(later_s + new_s + 1e-4 * saved * (lost + each), later_s, 1e-4 * (1 - saved)))
        for each in varying
    ]


@pytest.mark.parametrize("lost", [0.0, 0.4, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("seed", range(5))
def test_judgement_of_copies_agrees_with_a_t_test_of_scipy(lost, seed):
    given = copies(lost, noise=0.2, seed=seed)
    excess = [(c.tuned.first_s - c.tuned.later_s) - (c.baseline.first_s - c.baseline.later_s) for c in given]
    saved = np.mean([c.baseline.warm_s - c.tuned.warm_s for c in given])
    p_value = stats.ttest_1samp(np.clip(np.array(excess) / saved, -3, 3), 0.5, alternative="greater").pvalue
    reason = why_never_new(given)
    assert (reason is not None) == (p_value <= SURE_P / len(LOOKS))
    assert reason is None or f"(p = {p_value:.2g})" in reason


def test_gain_that_no_first_call_has_is_told_with_both_remedies():
    reason = why_never_new(copies(1))
    assert "first calls of 16 fresh copies of the build lack 100% of the gain" in reason
    assert "draw the inputs from acf.rng" in reason and "tune(…, repeats=True)" in reason


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(copies(0), id="all of the gain is there"),
        pytest.param(copies(0, table_s=1e-3), id="both arms fill a table once"),
        pytest.param(copies(3, count=7), id="few copies, all clipped alike"),
        pytest.param(copies(3, saved=0.08), id="below 10 %"),
        pytest.param([], id="no copy"),
    ],
)
def test_gain_that_no_copy_speaks_against_is_not_refused(given):
    assert why_never_new(given) is None


@pytest.mark.parametrize(("lost", "count", "decided"), [
    (0, 15, False), (0, 16, True), (0, 17, False), (0.3, 16, False), (1, 16, True), (0.5, 128, False), (0.5, 256, True), (0.5, 300, True),
])  # fmt: skip
def test_few_copies_are_enough_where_they_tell(lost, count, decided):
    assert is_decided(copies(lost, count=count), drawn=False) == decided


def test_one_slow_first_call_of_the_baseline_decides_nothing():
    slow, *others = copies(0.4)
    assert not is_decided([FirstCalls(Called(1e-2, 1.3e-4, 1e-4), slow.tuned), *others], drawn=False)
