"""The night's rule against closed forms, and against a clairvoyant where the right choice is known."""

from __future__ import annotations

import math

import pytest

from pytest_compileiq.rules.task_scheduler import (
    BACKWARD,
    DOUBT,
    HOPE,
    HOPE_BESIDE,
    KEPT_WORD,
    STARVING,
    Course,
    Foreseen,
    closing_s,
    gradient,
    longest_turn,
    next_course,
)


def course(*bests: float, weight: float = 1.0, foreseen: Foreseen | None = None) -> Course:
    """One whose batches took 4 each."""
    return Course(weight, [(4.0 * batch, best) for batch, best in enumerate(bests, start=1)], foreseen)


def test_a_line_falls_at_its_slope_plus_what_is_hoped_for():
    line = course(*(-0.01 * batch for batch in range(1, 11)))
    assert gradient(line) == pytest.approx(BACKWARD * 0.01 / 4 + (1 - BACKWARD) * HOPE / 40)


def test_what_fell_long_ago_does_not_count():
    assert gradient(course(-1.0, *[-1.0] * 9)) == pytest.approx(gradient(course(*[0.0] * 10)))


def test_a_weight_multiplies_the_gradient():
    assert gradient(course(-0.1, -0.2, weight=3)) == pytest.approx(3 * gradient(course(-0.1, -0.2)))


def test_a_search_that_has_spent_nothing_comes_first():
    assert gradient(course()) == math.inf
    assert next_course([course(-0.5), course(), course(-0.9)]) == 1


def test_an_engine_is_believed_as_far_as_what_it_foresaw_came():
    assert Foreseen(0.01, 0.0, 0.0).credible == pytest.approx(0.01 * KEPT_WORD)
    assert Foreseen(0.01, 1e9, 1e9).credible == pytest.approx(0.01)
    assert Foreseen(0.01, 1e9, 0.0).credible == pytest.approx(0.0, abs=1e-9)
    once = Foreseen(0.01, DOUBT, 0.0)
    assert once.credible == pytest.approx(0.01 * KEPT_WORD / 2)
    flat = course(*[0.0] * 10, foreseen=once)
    assert gradient(flat) == pytest.approx((1 - BACKWARD) * (once.credible + HOPE_BESIDE * HOPE / 40))


def test_the_turn_goes_to_what_still_falls():
    still, falling = course(-1.0, *[-1.0] * 9), course(*(-0.1 * batch for batch in range(1, 11)))
    assert next_course([still, falling]) == 1
    assert next_course([falling, still]) == 0


def test_nobody_starves():
    tireless = course(*(-0.1 * batch for batch in range(1, 101)), weight=1e6)
    starving = course(0.0, weight=1e-6)
    assert next_course([tireless, starving]) == 1
    spent = [4.0] * 5
    for _ in range(1000):
        courses = [
            Course(1e6 if index == 0 else 1.0, [(each, -each if index == 0 else 0.0)])
            for index, each in enumerate(spent)
        ]
        spent[next_course(courses)] += 4.0
        assert min(spent) + 4.0 >= STARVING * sum(spent) / len(spent)  # a batch is not divided
    assert spent[0] == max(spent)


def test_equal_courses_are_searched_in_equal_shares():
    spent = [4.0] * 3
    for _ in range(30):
        spent[next_course([Course(1.0, [(each, 0.0)]) for each in spent])] += 4.0
    assert max(spent) - min(spent) <= 4.0


def test_spending_is_shared_out_as_the_square_root_of_falls_that_slow_down():
    """Of two that fall as -scale / spent, the sum is least where spending goes as the square roots of the scales.

    That is Lagrange's condition; the rule sees the falls alone.
    """
    spent = [40.0, 40.0]
    curves = [[(4.0 * batch, scale / (4.0 * batch) - scale) for batch in range(1, 11)] for scale in (9e6, 1e6)]
    for _ in range(2000):
        chosen = next_course([Course(1.0, curve) for curve in curves])
        spent[chosen] += 4.0
        curves[chosen].append((spent[chosen], (9e6, 1e6)[chosen] / spent[chosen] - (9e6, 1e6)[chosen]))
    assert spent[0] / spent[1] == pytest.approx(3.0, rel=0.1)


def test_a_turn_is_a_small_part_of_an_equal_share():
    assert longest_turn(1600, 10) == 10
    assert longest_turn(1600, 0) == 100


def test_what_a_proof_takes_is_its_blocks_its_starts_and_its_share_of_the_search():
    known = {"blocks": 100, "block_s": 0.02, "starts": 4, "start_s": 0.5, "share": 0.25, "least_s": 17}
    assert closing_s(search_s=10, **known) == pytest.approx(2 + 2 + 17)
    assert closing_s(search_s=1000, **known) == pytest.approx(2 + 2 + 250)
