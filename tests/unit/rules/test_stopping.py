"""When a candidate's measurement stops, and when a search does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_compileiq.rules.comparison import SearchAxis
from pytest_compileiq.rules.stopping import (
    FEW,
    FEWEST,
    FIRST_QUADS,
    NONE_OF,
    QUADS,
    Noise,
    Race,
    Stepping,
    score_of,
    unread_knobs,
    unread_text,
    why_unjudged,
)

TIME, RATE = Stepping("runtime", "minimize"), Stepping("rate", "maximize", SearchAxis.through([2.0]))


def test_a_step_is_a_log_ratio_of_medians_or_of_tails_and_lower_is_better():
    assert TIME.step([1.0, 1.0, 9.0], [0.5, 0.5, 0.1]) == pytest.approx(math.log(0.5))
    assert Stepping("runtime@p99", "minimize").step([1.0] * 100, [2.0] * 100) == pytest.approx(math.log(2))
    assert RATE.step([2.0], [4.0]) == pytest.approx(-math.log(2))


@pytest.mark.parametrize(
    ("stepping", "best", "tuned", "lost"),
    [
        (TIME, 0.0, 0.9, False),
        (TIME, 0.0, 1.0, True),  # equal is not better
        (TIME, -0.2, 0.9, True),
        (TIME, -0.2, 0.8, False),
        (TIME, -0.2, 0.0, False),  # a counter that did not move decides nothing
        (RATE, -0.2, 1.1, True),
        (RATE, -0.2, 1.3, False),
        (RATE, -0.2, -1.0, True),
    ],
)
def test_a_race_is_lost_by_who_is_not_better_than_the_best(stepping, best, tuned, lost):
    assert Race(stepping, best).is_lost([1.0, 1.0], [tuned, tuned]) == lost


@pytest.mark.parametrize("quads", [1, 2, 4, 8])
def test_the_error_of_a_score_is_how_far_medians_of_quads_are_off(quads):
    """Oracle: a simulation with normal slots, of which each quad has two for an arm."""
    random = np.random.default_rng(quads)
    halves = random.normal(0, 0.02, (4000, quads, 2))
    off = np.std([score_of(list(steps)) for steps in halves.mean(axis=2)])
    noise = Noise()
    for pair in halves[:, 0]:
        noise.learn((pair[0], pair[1]))
    assert noise.error(quads) == pytest.approx(off, rel=0.12)


def test_a_few_disturbed_quads_do_not_widen_the_error():
    random = np.random.default_rng(1)
    quiet, disturbed = Noise(), Noise()
    for number, pair in enumerate(random.normal(0, 0.01, (400, 2))):
        quiet.learn(tuple(pair))
        disturbed.learn(tuple(pair + (number % 10 == 0) * random.normal(0, 1.0, 2)))
    assert disturbed.error(1) == pytest.approx(quiet.error(1), rel=0.25)


def test_what_never_varies_has_no_error():
    noise = Noise()
    noise.learn((-0.5, -0.5))
    assert noise.error(1) == 0.0


def test_a_race_holds_the_best_far_surer_than_one_quad_of_everybody_and_far_cheaper_than_four():
    """Oracle: a simulation with heavy tails, of the best that a search holds when it ends."""
    random = np.random.default_rng(5)
    regrets, spent = {"one": [], "four": [], "race": []}, []
    for _ in range(60):
        truth = -np.abs(random.normal(0, 0.05, 100))
        steps = truth[:, None] + 0.01 * random.standard_t(2, (100, QUADS))
        held = {"one": steps[:, 0], "four": np.median(steps, axis=1), "race": np.empty(100)}
        best = 0.0
        for place, quads in enumerate(steps.tolist()):
            race = Race(TIME, best)
            taken = quads[:FIRST_QUADS] if race.is_lost([1.0], [math.exp(quads[0])]) else quads
            held["race"][place] = score_of(taken)
            best = min(best, score_of(taken)) if len(taken) == QUADS else best
            spent.append(len(taken))
        for rule, told in held.items():
            regrets[rule].append(truth[told.argmin()] - truth.min())
    means = {rule: float(np.mean(regret)) for rule, regret in regrets.items()}
    assert means["race"] < 0.15 * means["one"] and means["race"] < 2.5 * means["four"]
    assert np.mean(spent) < 1.5


# whether a search has judged enough to say anything


REASONS = {
    "neighbour": "also change b, which the test does not take from load()",
    "compile": "gcc refuses k.c",
    "wrong": "no",
}
REMEDY = "move the kernel to a file of its own"


def judged(measured: int, *, valid: int | None = None, at_the_end: bool = False, **invalid: int) -> str | None:
    return why_unjudged(measured, measured if valid is None else valid, invalid, REASONS, REMEDY, at_the_end=at_the_end)


@pytest.mark.parametrize(
    ("measured", "void", "at_the_end", "stops"),
    [
        (0, FEW, False, True),
        (0, FEW - 1, False, False),
        (2, FEWEST - 2, False, True),
        (2, FEWEST - 3, False, False),  # too few to say
        (2, 14, True, True),
        (3, FEWEST - 3, False, False),  # three of sixteen are not nearly all
        (2, 38, True, True),
        (1, 11, True, True),
        (10, 10, True, False),
        (0, 1, True, True),
    ],
)
def test_a_search_ends_when_nearly_all_candidates_are_void(measured, void, at_the_end, stops):
    reason = judged(measured, at_the_end=at_the_end, neighbour=void)
    assert (reason is not None) is stops
    if reason:
        assert f"{void} of {measured + void} candidates were not measured" in reason
        assert "also change b" in reason and "move the kernel to a file of its own" in reason


def test_a_few_candidates_with_the_baselines_code_settle_nothing_where_more_failed():
    reasons = {"timeout": "no progress for 6 s"}
    for valid, settled in ((4, False), (25, False), (26, True)):
        said = why_unjudged(0, valid, {"timeout": 26}, reasons, REMEDY, at_the_end=True)
        assert (said is None) is settled
    assert said is None and why_unjudged(1, 5, {"timeout": 26}, reasons, REMEDY, at_the_end=True) is None


@pytest.mark.parametrize(("failed", "stops"), [({"timeout": FEW}, True), ({"timeout": FEW - 1}, False),
    ({"timeout": FEW, "wrong": 1}, False)])  # fmt: skip
def test_candidates_that_all_run_out_of_time_end_a_search_soon(failed, stops):
    reasons = dict.fromkeys(failed, "no progress for 6 s")
    assert (why_unjudged(0, 0, failed, reasons, REMEDY, at_the_end=False) is not None) is stops


def test_other_failures_end_a_search_only_where_nothing_at_all_was_measured():
    assert judged(0, compile=NONE_OF - 1) is None
    assert (
        judged(0, compile=NONE_OF - 2, wrong=2)
        == f"none of {NONE_OF} candidates could be measured: 30 × compile: gcc refuses k.c; 2 × wrong: no"
    )
    assert (
        judged(0, at_the_end=True, compile=1) == "none of 1 candidate could be measured: 1 × compile: gcc refuses k.c"
    )
    assert judged(1, at_the_end=True, compile=99) is None
    assert judged(0, at_the_end=True) == "none of 0 candidates could be measured: the engine proposed none"


def test_a_candidate_with_the_baselines_own_code_is_judged():
    assert judged(0, valid=1, at_the_end=True, wrong=1) is None


@pytest.mark.parametrize(
    ("read", "taken", "unread"),
    [
        ((), (), ("BLOCK", "TILE")),
        (("BLOCK",), (), ("TILE",)),
        (("BLOCK",), ("TILE",), ()),
        ((), None, ()),  # a toolchain that does not say what it takes
    ],
)
def test_a_parameter_that_neither_the_body_nor_the_compiler_takes_is_unread(read, taken, unread):
    assert unread_knobs(("BLOCK", "TILE", "-O"), read, taken) == unread


def test_unread_knobs_are_named_in_the_right_number():
    assert unread_text(["BLOCK"]).startswith("knob 'BLOCK' was never read")
    assert unread_text(["A", "B"]).startswith("knobs 'A', 'B' were never read")
