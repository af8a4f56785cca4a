"""The grid: every point of a small space once, and no search that could not finish."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import BUILT_IN, choose, make
from pytest_compileiq.engines.simple import MOST_POINTS
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space, literal
from pytest_compileiq.space import range as steps
from pytest_compileiq.testing import LARGE_SPACE, SMALL_SPACE
from tests.examples import OPAQUE


def test_it_asks_every_point_once_in_the_space_s_own_order():
    engine = make("grid", Brief(SMALL_SPACE, 1, budget=SMALL_SPACE.size))
    asked = [candidate.knobs for n in (5, 6, 100) for candidate in engine.ask(n)]
    assert asked == [SMALL_SPACE.knobs(point) for point in SMALL_SPACE.points()]
    assert engine.ask(1) == []


def test_seeds_come_first_and_are_not_asked_again():
    seed = SMALL_SPACE.knobs(SMALL_SPACE.sample(np.random.default_rng(1)))
    engine = make("grid", Brief(SMALL_SPACE, 1, seeds=[Candidate(seed), Candidate(seed)]))
    asked = [candidate.knobs for candidate in engine.ask(100)]
    assert asked[0] == seed
    assert len(asked) == SMALL_SPACE.size == len({tuple(sorted(knobs.items())) for knobs in asked})


def test_a_group_that_is_on_with_nothing_inside_is_asked_once():
    space = Space.from_mapping({"group": {"-a": literal("", 0.5), "-b": literal("", 0.5)}})
    asked = make("grid", Brief(space, 1)).ask(100)
    assert sorted(map(list, (candidate.knobs for candidate in asked))) == [[], ["-a"], ["-a", "-b"], ["-b"]]


def test_a_space_larger_than_the_budget_is_refused_with_both_numbers():
    with pytest.raises(MarkerError, match=r"the space has 18, more than the budget of 17 evaluations: narrow space="):
        make("grid", Brief(SMALL_SPACE, 1, budget=17))
    with pytest.raises(MarkerError, match=r"the space has [\d,]+, more than the budget of 200 evaluations"):
        make("grid", Brief(LARGE_SPACE, 1, budget=200))


def test_where_the_budget_is_a_time_ten_thousand_points_are_the_most():
    make("grid", Brief(Space.from_mapping({"n": steps(1, MOST_POINTS)}), 1))
    with pytest.raises(MarkerError, match=r"the space has 10,001: expected at most 10,000 where the budget is a time"):
        make("grid", Brief(Space.from_mapping({"n": steps(0, MOST_POINTS)}), 1))


def test_a_size_beyond_all_floats_is_still_one_sentence():
    space = Space.from_mapping({f"-f{number}": literal("", 0.5) for number in range(1100)})
    with pytest.raises(MarkerError, match=r"the space has more than 1e\+300"):
        make("grid", Brief(space, 1))


def test_it_takes_no_options():
    with pytest.raises(MarkerError, match="engine 'grid' takes no engine_options; got pool_size"):
        make("grid", Brief(SMALL_SPACE, 1, options={"pool_size": 4}))


@pytest.mark.parametrize("name", sorted(set(BUILT_IN) - {"compileiq", "pack"}))
def test_no_engine_for_open_spaces_takes_an_opaque_one(name):
    with pytest.raises(MarkerError, match=f"engine '{name}' cannot draw from CompileIQ's ptxas"):
        choose(name, OPAQUE)
