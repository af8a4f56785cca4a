"""The statistics of the race, against closed forms, hand-worked cases and other people's implementations."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, wilcoxon

from bench import race_figures as figures
from bench.race_figures import Curve

POINTS = st.lists(st.tuples(*[st.floats(-1, 1, width=16)] * 2), max_size=8)


def test_one_objective_holds_the_least():
    assert figures.front({"a": (2.0,), "b": (1.0,), "c": (1.0,)}) == {"b"}
    assert figures.front({}) == frozenset()


def test_a_front_holds_what_nothing_dominates():
    scores = {"a": (0.0, 2.0), "b": (1.0, 1.0), "c": (1.0, 2.0), "d": (2.0, 0.0), "e": (1.0, 1.0)}
    assert figures.front(scores) == {"a", "b", "d", "e"}


def test_a_hypervolume_by_hand():
    assert figures.hypervolume([(0, 2), (1, 1), (2, 0)], (3, 3)) == 6
    assert figures.hypervolume([(4, 0), (0, 3)], (3, 3)) == 0
    assert figures.hypervolume([], (3, 3)) == 0


@given(POINTS)
def test_a_hypervolume_is_the_area_of_a_union_of_rectangles(points):
    edges = sorted({1.0, *(min(1.0, value) for point in points for value in point)})
    cells = [(x, y, x1, y1) for x, x1 in pairwise(edges) for y, y1 in pairwise(edges)]
    union = sum((x1 - x) * (y1 - y) for x, y, x1, y1 in cells if any(a <= x and b <= y for a, b in points))
    assert figures.hypervolume(points, (1, 1)) == pytest.approx(union)


def test_a_curve_holds_each_value_until_the_next():
    curve = Curve((1, 5, 20), (0.0, -0.3, -0.3))
    assert [curve.value(at) for at in (0, 1, 4, 5, 99)] == [0.0, 0.0, 0.0, -0.3, -0.3]
    assert curve.reaches(-0.2) == 5
    assert curve.reaches(-0.31) is None


def test_a_target_lies_on_the_way_from_the_baseline_to_the_best():
    assert figures.target_of(0.0, -0.5, 0.9) == pytest.approx(-0.45)
    assert figures.target_of(-0.05, -0.25, 0.5) == pytest.approx(-0.15)


def test_races_that_miss_are_censored_and_not_left_out():
    hit, missed = Curve((1, 10, 100), (0, -1, -1)), Curve((1, 100), (0, 0))
    assert figures.expected_running_time([hit, hit], -1) == 10
    assert figures.expected_running_time([hit, missed], -1) == 110
    assert figures.expected_running_time([missed], -1) == math.inf


def test_the_expected_running_time_of_restarts_by_simulation():
    """Races of 50 that hit with p = .02 a step: begun anew until one hits, the mean is 1 / p, whatever the budget."""
    rng = np.random.default_rng(3)
    steps = rng.geometric(0.02, size=20_000)
    curves = [Curve((1, int(at), 50), (0, -1, -1)) if at <= 50 else Curve((1, 50), (0, 0)) for at in steps]
    assert figures.expected_running_time(curves, -1) == pytest.approx(1 / 0.02, rel=0.05)


def test_an_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(4)
    covered = 0
    for repetition in range(100):
        curves = [Curve((1, int(at), 1000), (0, -1, -1)) for at in rng.geometric(0.02, size=40)]
        low, high = figures.running_time_interval(curves, -1, seed=repetition)
        covered += low <= 50 <= high
    assert 85 <= covered <= 100


def test_an_interval_without_a_hit_is_infinite():
    missed, hit = Curve((1, 50), (0, 0)), Curve((1, 10, 50), (0, -1, -1))
    assert figures.running_time_interval([missed] * 5, -1) == (math.inf, math.inf)
    assert figures.running_time_interval([hit] * 5, -1) == (10, 10)
    low, high = figures.running_time_interval([hit, *[missed] * 4], -1)
    assert low < 210 < high == math.inf


def test_holm_by_hand():
    assert figures.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert figures.holm([0.6, 0.5]) == [1.0, 1.0]
    assert figures.holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.2))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values, alpha):
    rejected: set[int] = set()
    for step, number in enumerate(sorted(range(len(p_values)), key=lambda number: p_values[number])):
        if p_values[number] * (len(p_values) - step) > alpha:
            break
        rejected.add(number)
    assert {number for number, p in enumerate(figures.holm(p_values)) if p <= alpha} == rejected


def test_differences_are_corrected_over_engines_and_objectives():
    values = {
        "one": {"ga": [1, 2, 3, 4], "tpe": [5, 6, 7, 8], "random": [1, 2, 3, 4]},
        "two": {"ga": [1, 2, 3, 4], "random": [4, 5, 6, 7]},
    }
    by_pair = figures.differences(values, "ga")
    raw = mannwhitneyu([1, 2, 3, 4], [5, 6, 7, 8]).pvalue
    assert set(by_pair) == {("one", "tpe"), ("one", "random"), ("two", "random")}
    assert by_pair["one", "tpe"] == pytest.approx(3 * raw)
    assert by_pair["one", "random"] == 1


def test_behind_counts_pairs():
    assert figures.behind([2, 3], [1, 2])
    assert not figures.behind([1, 2], [1, 2])


def test_mean_ranks_leave_out_objectives_that_an_engine_did_not_race():
    values = {"one": {"ga": [1, 2], "tpe": [3, 2]}, "two": {"ga": [1]}}
    assert figures.mean_ranks(values, ["ga", "tpe"]) == {"ga": [1.75], "tpe": [3.25]}


def test_pooled_ranks_and_their_test():
    rng = np.random.default_rng(5)
    values = {
        f"objective {number}": {
            engine: list(rng.normal(shift, 1, size=10)) for engine, shift in (("ga", 0), ("tpe", 1), ("random", 3))
        }
        for number in range(12)
    }
    result = figures.pooled(values, ["ga", "tpe", "random"], "ga")
    assert result.ranks["ga"] < result.ranks["tpe"] < result.ranks["random"] == 3
    assert result.friedman_p < 1e-4
    ranks = figures.mean_ranks(values, ["ga", "tpe", "random"])
    smallest = wilcoxon(ranks["ga"], ranks["random"]).pvalue
    assert result.against["random"] == pytest.approx(2 * smallest)


def test_pooled_ranks_of_equal_engines_are_no_difference():
    values = {str(number): {"ga": [1.0, 2.0], "tpe": [1.0, 2.0]} for number in range(5)}
    result = figures.pooled(values, ["ga", "tpe"], "ga")
    assert (result.friedman_p, dict(result.ranks), dict(result.against)) == (1.0, {"ga": 1.5, "tpe": 1.5}, {"tpe": 1.0})


def test_no_worse_counts_ties_and_is_a_sign_test():
    assert figures.no_worse([-2.0, -1.0, 0.0, 0.0], [-1.0, -1.0, 0.0, -1.0]) == (3, pytest.approx(10 / 16))


def test_medians():
    assert figures.medians({"one": {"ga": [3, 1, 2]}}) == {"one": {"ga": 2}}
