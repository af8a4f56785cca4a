"""Engines: never a point twice, an end on small spaces, one stream for one seed, and better than chance."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.registry import BUILT_IN, make
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.space import Space, choice, literal, log_sampling
from pytest_compileiq.space import range as steps

SMALL = Space.from_mapping(
    {"-O": choice([1, 2, 3]), "-funroll-loops": literal("", 0.5), "group": {"-g": choice(["a", "b"])}}
)
LARGE = Space.from_mapping(
    {f"-f{number}": literal("", 0.6) for number in range(30)}
    | {f"-p{number}=": choice([1, 2, 4, 8], 0.5) for number in range(6)}
    | {"n": steps(0, 100, 5), "l": log_sampling(1, 4096), "-O": choice(["1", "s", "3"])}
)


def cost(knobs) -> float:
    """Additive with pairs; the optimum is far from the baseline."""
    score = sum(((number * 37 % 11) - 5) * 0.01 for number in range(30) if f"-f{number}" in knobs)
    score -= 0.08 * ("-f3" in knobs and "-f8" in knobs) - 0.04 * ("-f1" in knobs and "-f2" in knobs)
    return (
        score
        + 0.001 * abs(knobs["n"] - 70)
        + 0.02 * abs(np.log2(knobs["l"]) - 8)
        + {"1": 0.1, "s": 0.3, "3": 0.0}[knobs["-O"]]
    )


def search(engine, evaluations, judge):
    """Ask and tell; returns the knobs asked."""
    asked = []
    while len(asked) < evaluations and (batch := engine.ask(min(4, evaluations - len(asked)))):
        asked += [dict(candidate.knobs) for candidate in batch]
        engine.tell([judge(candidate) for candidate in batch])
    return asked


def scored(candidate) -> Told:
    return Told(candidate, (cost(candidate.knobs),))


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_engine_ends_when_the_space_is_exhausted_and_repeats_nothing(name):
    asked = search(make(name, Brief(SMALL, 1)), 1000, lambda candidate: Told(candidate, (float(len(candidate.knobs)),)))
    assert len(asked) == SMALL.size == 18
    assert len({tuple(sorted(knobs.items())) for knobs in asked}) == 18


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_engine_survives_when_every_candidate_fails(name):
    assert len(search(make(name, Brief(LARGE, 1)), 60, lambda candidate: Told(candidate, failure="crash"))) == 60


@pytest.mark.parametrize("name", BUILT_IN)
def test_equal_seeds_give_equal_searches_and_others_do_not(name):
    first, again, other = (search(make(name, Brief(LARGE, seed)), 40, scored) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize("name", BUILT_IN)
def test_seeds_are_tried_first_and_foreign_ones_left_out(name):
    seed = LARGE.knobs(LARGE.sample(np.random.default_rng(0)))
    asked = search(make(name, Brief(LARGE, 1, seeds=[{"-other": 1}, seed])), 4, scored)
    assert seed in asked[:2]


def test_ga_beats_random_at_equal_evaluations():
    best = {
        name: np.median(
            [min(cost(knobs) for knobs in search(make(name, Brief(LARGE, seed)), 100, scored)) for seed in range(3)]
        )
        for name in BUILT_IN
    }
    assert best["ga"] < best["random"] - 0.1


def test_ga_learns_what_fails():
    def judge(candidate):
        return Told(candidate, failure="crash") if "-f5" in candidate.knobs else scored(candidate)

    asked = search(make("ga", Brief(LARGE, 2)), 80, judge)
    assert np.mean(["-f5" in knobs for knobs in asked[60:]]) < np.mean(["-f5" in knobs for knobs in asked[:17]])


def test_ga_takes_several_objectives_and_many_duplicates():
    def judge(candidate):
        return Told(candidate, (cost(candidate.knobs), float(len(candidate.knobs))), duplicate=True)

    assert len(search(make("ga", Brief(LARGE, 2, n_objectives=2)), 60, judge)) == 60


def test_unknown_engines_and_options_are_named():
    with pytest.raises(MarkerError, match="no engine 'genetic': expected auto, ga, random"):
        make("genetic", Brief(SMALL, 1))
    with pytest.raises(MarkerError, match="no option 'generations': expected pool_size"):
        make("ga", Brief(SMALL, 1, options={"generations": 3}))
    with pytest.raises(MarkerError, match="pool_size = 0"):
        make("ga", Brief(SMALL, 1, options={"pool_size": 0}))
