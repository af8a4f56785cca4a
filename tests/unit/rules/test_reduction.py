"""Delta debugging with oracles of known answer, and what a measured loss says, held to simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq.rules.reduction import (
    LEVEL,
    LOOKS,
    ddmin,
    is_within,
    loss_budget,
    losses_beside,
    paired_losses,
    ridge_gains,
)
from pytest_compileiq.samples import SampleRow

ITEMS = st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=24)


@st.composite
def needs(draw):
    """Items in chunks, and those among them that an oracle wants."""
    items = draw(ITEMS)
    wanted = draw(st.sets(st.sampled_from(items), max_size=6))
    cuts = sorted(draw(st.sets(st.integers(1, len(items)), max_size=4)))
    chunks = [items[start:end] for start, end in zip([0, *cuts], [*cuts, len(items)], strict=True)]
    return chunks, wanted


@given(needs())
def test_what_an_oracle_needs_is_what_stays(given_):
    chunks, wanted = given_
    left = ddmin(chunks, lambda kept: wanted <= kept)
    assert set(left) == wanted or (not wanted and len(left) == 1)
    in_order = [item for chunk in chunks for item in chunk]
    assert left == [item for item in in_order if item in left]


@given(needs(), st.integers(0, 2**16))
def test_nothing_that_is_left_can_be_left_out_alone_whatever_the_oracle_says(given_, seed):
    chunks, _ = given_
    everything = frozenset(item for chunk in chunks for item in chunk)

    def holds(kept: frozenset[int]) -> bool:
        return kept == everything or hash((seed, *sorted(kept))) % 3 == 0

    left = frozenset(ddmin(chunks, holds))
    assert holds(left)
    assert not [item for item in left if len(left) > 1 and holds(left - {item})]


@given(needs())
def test_what_stays_anyway_is_in_every_set(given_):
    chunks, wanted = given_
    asked: list[frozenset[object]] = []

    def holds(kept):
        asked.append(kept)
        return wanted <= kept

    assert set(ddmin(chunks, holds, stays=frozenset({"always"}))) == wanted
    assert all("always" in kept for kept in asked)


def test_of_two_that_stand_in_for_each_other_the_first_one_goes():
    assert ddmin([["wide", "narrow", "idle"]], lambda kept: bool(kept & {"wide", "narrow"})) == ["narrow"]


def test_eight_of_forty_take_few_questions():
    asked = []

    def holds(kept: frozenset[int]) -> bool:
        asked.append(kept)
        return set(range(0, 40, 5)) <= kept

    useless = [item for item in range(40) if item % 5]
    left = ddmin([useless], holds, stays=frozenset(range(0, 40, 5)))
    assert left == [] and len(asked) == 1
    asked.clear()
    assert ddmin([list(range(40))], holds) == list(range(0, 40, 5))
    assert len(asked) < 100


@pytest.mark.parametrize(("gain", "budget"), [(0.01, 0.003), (math.log(2), 0.05 * math.log(2)), (-1.0, 0.003)])
def test_the_budget_is_a_share_of_the_gain_and_never_less_than_three_in_a_thousand(gain, budget):
    assert loss_budget(gain) == pytest.approx(budget, rel=2e-3)


def judged(random: np.random.Generator, loss: float, noise: float, budget: float) -> bool | None:
    """The sequential decision on pairs whose loss is ``loss`` on average."""
    pairs = random.normal(loss, noise, LOOKS[-1])
    for look in LOOKS:
        if (within := is_within(pairs[:look], budget, LEVEL / len(LOOKS))) is not None:
            return within
    return None


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_a_loss_at_the_budget_is_let_pass_in_at_most_one_case_in_twenty(noise):
    random = np.random.default_rng(5)
    passed = sum(judged(random, 0.01, noise, 0.01) is True for _ in range(800))
    assert passed / 800 <= LEVEL


def test_no_loss_is_seen_as_none_and_a_large_one_as_one_after_few_pairs():
    random = np.random.default_rng(6)
    assert np.mean([judged(random, 0.0, 0.01, 0.02) is True for _ in range(300)]) > 0.95
    assert np.mean([judged(random, 0.2, 0.01, 0.02) is False for _ in range(300)]) == 1.0


def rows(gain: float, process_noise: np.ndarray, noise: float, random: np.random.Generator) -> list[SampleRow]:
    values = {"baseline": 1.0, "tuned": math.exp(-gain)}
    return [
        SampleRow("cpu", "w", "runtime", process, quad, slot, arm, 0,
                  values[arm] * math.exp(process_noise[process] + random.normal(0, noise)))
        for process in range(len(process_noise))
        for quad in range(2)
        for slot, arm in enumerate(("baseline", "tuned", "tuned", "baseline"))
    ]  # fmt: skip


def test_two_sets_beside_one_baseline_are_compared_process_by_process():
    random = np.random.default_rng(7)
    shared = random.normal(0, 0.5, 8)
    losses = losses_beside(rows(0.30, shared, 1e-4, random), rows(0.28, shared, 1e-4, random), "minimize")
    assert losses.shape == (8,) and losses.mean() == pytest.approx(0.02, abs=1e-3)
    assert paired_losses(rows(0.1, shared, 1e-4, random), "minimize").mean() == pytest.approx(-0.1, abs=1e-3)


def test_a_value_that_may_be_negative_is_compared_by_difference():
    random = np.random.default_rng(8)
    low, lower = ([SampleRow(**{field: getattr(row, field) for field in row.__slots__} | {"value": row.value + shift, "objective": "score"})
                   for row in rows(0.0, np.zeros(4), 1e-6, random)] for shift in (-2.0, -2.0))  # fmt: skip
    assert losses_beside(low, lower, "minimize") == pytest.approx(np.zeros(4), abs=1e-4)


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 99))
def test_ridge_gains_are_least_squares_with_one_more_observation_of_nothing_for_each_control(
    candidates, controls, seed
):
    rng = np.random.default_rng(seed)
    present, scores = rng.integers(0, 2, (candidates, controls)).astype(float), rng.normal(size=candidates)
    rows = np.vstack([present - present.mean(axis=0), np.eye(controls)])
    seen = np.concatenate([scores - scores.mean(), np.zeros(controls)])
    oracle = np.linalg.lstsq(rows, seen, rcond=None)[0]
    np.testing.assert_allclose(ridge_gains(present, scores), -oracle, atol=1e-9)
