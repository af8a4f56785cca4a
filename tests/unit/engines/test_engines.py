"""Engines: never a point twice, an end on small spaces, one stream for one seed, and better than chance."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief, Outlook, Told
from pytest_compileiq.engines.compileiq import described, knobs_of
from pytest_compileiq.engines.registry import Foreign, choose, make
from pytest_compileiq.engines.simple import RandomSearch
from pytest_compileiq.errors import EnvironmentFault, MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space, choice, literal, log_sampling
from pytest_compileiq.space import range as steps
from pytest_compileiq.testing import SMALL_SPACE
from tests.examples import MIXED, OPAQUE

OPEN = ("ga", "random")
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


@pytest.mark.parametrize("name", OPEN)
def test_an_engine_ends_when_the_space_is_exhausted_and_repeats_nothing(name):
    asked = search(
        make(name, Brief(SMALL_SPACE, 1)), 1000, lambda candidate: Told(candidate, (float(len(candidate.knobs)),))
    )
    assert len(asked) == SMALL_SPACE.size == 18
    assert len({tuple(sorted(knobs.items())) for knobs in asked}) == 18


@pytest.mark.parametrize("name", OPEN)
def test_an_engine_survives_when_every_candidate_fails(name):
    assert len(search(make(name, Brief(LARGE, 1)), 60, lambda candidate: Told(candidate, failure="crash"))) == 60


@pytest.mark.parametrize("name", OPEN)
def test_equal_seeds_give_equal_searches_and_others_do_not(name):
    first, again, other = (search(make(name, Brief(LARGE, seed)), 40, scored) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize("name", OPEN)
def test_seeds_are_tried_first_and_foreign_ones_left_out(name):
    seed = LARGE.knobs(LARGE.sample(np.random.default_rng(0)))
    asked = search(
        make(name, Brief(LARGE, 1, seeds=[Candidate({"-other": 1}), Candidate({}, b"acf"), Candidate(seed)])), 4, scored
    )
    assert seed in asked[:2]


@pytest.mark.parametrize("name", OPEN)
def test_presets_are_tried_after_the_seeds_and_only_where_they_are_a_point(name):
    level = replace(Space.from_mapping({"-O": choice([1, 3], 0.5)}), presets=({"-O": 3}, {"-O": 1}))
    free = Space.merge(Space.from_mapping({"-g": literal("", 0.5)}), level)
    asked = search(make(name, Brief(free, 1, seeds=[Candidate({"-g": ""})])), 4, lambda one: Told(one, (0.0,)))
    assert [knobs for knobs in asked if knobs][:3] == [{"-g": ""}, {"-O": 3}, {"-O": 1}]
    with_width = Space.merge(Space.from_mapping({"width": choice([4, 8])}), level)
    assert all("width" in knobs for knobs in search(make(name, Brief(with_width, 1)), 4, lambda one: Told(one, (0.0,))))


def test_ga_beats_random_at_equal_evaluations():
    best = {
        name: np.median(
            [min(cost(knobs) for knobs in search(make(name, Brief(LARGE, seed)), 100, scored)) for seed in range(3)]
        )
        for name in OPEN
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
    with pytest.raises(
        MarkerError, match=r"no engine 'genetic': expected auto, compileiq, ga, grid, optuna:cmaes, .*, pack, random"
    ):
        make("genetic", Brief(SMALL_SPACE, 1))
    with pytest.raises(MarkerError, match="no option 'generations': expected pool_size"):
        make("ga", Brief(SMALL_SPACE, 1, options={"generations": 3}))
    with pytest.raises(MarkerError, match="pool_size = 0"):
        make("ga", Brief(SMALL_SPACE, 1, options={"pool_size": 0}))


def test_auto_takes_compileiq_for_an_opaque_space_and_ga_for_an_open_one():
    chosen = [choose("auto", space) for space in (OPAQUE, MIXED, SMALL_SPACE)]
    assert chosen == ["compileiq", "compileiq", "ga"]
    for name in OPEN:
        with pytest.raises(MarkerError, match=f"engine '{name}' cannot draw from CompileIQ's ptxas 13.3 space"):
            make(name, Brief(OPAQUE, 1))


def test_for_an_engine_of_our_own_no_installed_package_is_looked_at(monkeypatch):
    monkeypatch.setattr("pytest_compileiq.engines.registry.entry_points", None)
    assert choose("ga", SMALL_SPACE) == "ga" and make("random", Brief(SMALL_SPACE, 1)).ask(1)


def test_pack_asks_for_what_it_is_given_in_order_and_nothing_else():
    given = [Candidate({}, bytes([number]), origin=str(number)) for number in range(5)]
    engine = make("pack", Brief(OPAQUE, 1, seeds=given))
    assert [engine.ask(4), engine.ask(4), engine.ask(4)] == [given[:4], given[4:], []]
    with pytest.raises(MarkerError, match="--tune-from=DIRECTORY"):
        make("pack", Brief(OPAQUE, 1))


def test_knobs_go_to_compileiq_and_back_by_index():
    space = Space(MIXED.genes)
    names = [gene["name"] for gene in described(space)]
    rng = np.random.default_rng(0)
    for _ in range(50):
        point = space.sample(rng)
        drawn = {name: index for name, index in zip(names, point, strict=True) if index >= 0}
        drawn = {name: index for name, index in drawn.items() if space.genes[int(name)].kind != "switch"}
        assert knobs_of(space, drawn) == space.knobs(point)


def test_ga_takes_a_knob_with_one_number():
    space = Space.from_mapping({"-a=": choice([16], knockout_prob=0.5), "-b=": steps(3, 3), "-c": choice([1, 2, 3])})
    assert len(search(make("ga", Brief(space, 1)), 100, scored_by_count)) == space.size == 6


def scored_by_count(candidate) -> Told:
    return Told(candidate, (float(len(candidate.knobs)),))


class Prophet(RandomSearch):
    """A third party's engine that foresees whatever it is given."""

    told: object = None

    def outlook(self):
        return self.told


def foreseeing(told) -> Foreign:
    prophet = Prophet(Brief(SMALL_SPACE, 1))
    prophet.told = told
    return Foreign(prophet, EntryPoint("prophet", "theirs:Prophet", "engines"), SMALL_SPACE)


@pytest.mark.parametrize("told", [None, Outlook(0.01, 0.1)])
def test_a_third_party_s_outlook_is_passed_on(told):
    engine = foreseeing(told)
    assert engine.outlook() == told


@pytest.mark.parametrize("told", [Outlook(-0.1, 0.1), Outlook(float("nan"), 0.1), Outlook(0.1, float("inf")), 0.1])
def test_an_outlook_that_is_none_blames_its_engine(told):
    engine = foreseeing(told)
    with pytest.raises(EnvironmentFault, match=r"'prophet' .*outlook\(\) gave .*expected an Outlook"):
        engine.outlook()


def test_an_engine_without_an_outlook_foresees_nothing():
    engine = Foreign(RandomSearch(Brief(SMALL_SPACE, 1)), EntryPoint("one", "theirs:One", "engines"), SMALL_SPACE)
    assert engine.outlook() is None
