"""Optuna's samplers as engines: what they are told, what they say of themselves, and silence."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.optuna import Sampler
from pytest_compileiq.engines.registry import choose, make
from pytest_compileiq.errors import EnvironmentFault, MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space, choice, literal
from pytest_compileiq.space import range as steps
from pytest_compileiq.testing import LARGE_SPACE, SMALL_SPACE

has_optuna = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="no Optuna: pip install 'pytest-compileiq[optuna]'"
)


def sampler(name: str, *packages: str):
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    skip = pytest.mark.skipif(bool(missing), reason=f"no {' '.join(missing)}: pip install {' '.join(missing)}")
    return pytest.param(f"optuna:{name}", marks=[has_optuna, skip], id=name)


EVERY = [sampler("tpe"), sampler("nsga2"), sampler("cmaes", "cmaes"), sampler("gp", "torch")]
SLOPE = Space.from_mapping(
    {f"-f{number}": literal("", 0.8) for number in range(10)} | {"-m": choice(list("abcde")), "n": steps(0, 50, 5, 0.5)}
)


def cost(candidate: Candidate) -> float:
    knobs = candidate.knobs
    return -sum(name.startswith("-f") for name in knobs) + "abcde".index(knobs["-m"]) - knobs.get("n", 0) / 10


def search(name: str, seed: int, evaluations: int) -> list[Candidate]:
    engine, asked = make(name, Brief(SLOPE, seed)), []
    for _ in range(evaluations):
        (candidate,) = engine.ask(1)
        engine.tell([Told(candidate, (cost(candidate),))])
        asked.append(candidate)
    return asked


@has_optuna
def test_tpe_beats_random_at_equal_evaluations():
    best = {
        name: np.median([min(map(cost, search(name, seed, 50))) for seed in range(3)])
        for name in ("optuna:tpe", "random")
    }
    assert best["optuna:tpe"] < best["random"] - 1


@pytest.mark.parametrize("name", EVERY)
def test_seeds_are_asked_as_given_groups_and_what_is_off_included(name):
    rng = np.random.default_rng(2)
    seeds = [LARGE_SPACE.knobs(point) for point in dict.fromkeys(LARGE_SPACE.sample(rng) for _ in range(20))]
    engine = make(name, Brief(LARGE_SPACE, 1, seeds=[Candidate(knobs) for knobs in seeds]))
    assert [candidate.knobs for candidate in engine.ask(len(seeds))] == seeds


@pytest.mark.parametrize("name", EVERY)
def test_scores_failures_and_repeated_proposals_are_told(name, monkeypatch):
    import optuna

    said = []
    tell = optuna.study.Study.tell

    def listen(self, trial, values=None, **arguments):
        said.append("FAIL" if arguments.get("state") == optuna.trial.TrialState.FAIL else tuple(values))
        return tell(self, trial, values, **arguments)

    monkeypatch.setattr(optuna.study.Study, "tell", listen)
    engine = make(name, Brief(SMALL_SPACE, 1, options={"pool_size": 2}))
    asked = []
    while batch := engine.ask(3):
        asked += batch
        engine.tell([Told(one, failure="crash") if one.knobs["-O"] == 3 else Told(one, (2.5,)) for one in batch])
    assert len(asked) == SMALL_SPACE.size
    assert set(said) == {"FAIL", (2.5,)}
    assert said.count("FAIL") >= SMALL_SPACE.size / 3
    assert len(said) >= SMALL_SPACE.size


@pytest.mark.parametrize("name", EVERY)
def test_a_group_that_is_on_with_nothing_inside_is_asked_once(name):
    space = Space.from_mapping({"group": {"-a": literal("", 0.5), "-b": literal("", 0.5)}})
    engine = make(name, Brief(space, 1, options={"pool_size": 2}))
    asked = []
    while batch := engine.ask(2):
        asked += batch
        engine.tell([Told(one, (0.5,)) for one in batch])
    assert sorted(map(list, (one.knobs for one in asked))) == [[], ["-a"], ["-a", "-b"], ["-b"]]


@has_optuna
def test_the_first_pool_is_drawn_by_the_space_s_own_probabilities():
    sparse = Space.from_mapping({f"-f{number}": literal("", 0.95) for number in range(40)})
    asked = make("optuna:tpe", Brief(sparse, 3, options={"pool_size": 30})).ask(20)
    assert np.mean([len(candidate.knobs) for candidate in asked]) < 6  # 20, were each knob on every second time


@pytest.mark.parametrize("name", EVERY)
def test_it_says_nothing_and_leaves_optuna_s_logging_as_it_was(name, capfd):
    import optuna

    before = optuna.logging.get_verbosity()
    search(name, 1, 14)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


@has_optuna
def test_a_search_is_the_same_in_another_process():
    code = (
        "from tests.unit.engines.test_optuna import search\n"
        "for name in ('optuna:tpe', 'optuna:nsga2'): print([dict(one.knobs) for one in search(name, 5, 25)])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True)
    here = [str([dict(one.knobs) for one in search(name, 5, 25)]) for name in ("optuna:tpe", "optuna:nsga2")]
    assert done.stdout.splitlines() == here, done.stderr


@pytest.mark.parametrize("name", get_args(Sampler))
def test_a_missing_extra_is_one_line_with_the_command_that_brings_it(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(EnvironmentFault, match=r"'optuna:\w+' is Optuna's.*pip install 'pytest-compileiq\[optuna\]'"):
        make(f"optuna:{name}", Brief(SMALL_SPACE, 1))


@pytest.mark.parametrize(("name", "package"), [("gp", "torch"), ("cmaes", "cmaes")])
def test_what_a_sampler_needs_besides_is_named(name, package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda wanted: None if wanted == package else object())
    with pytest.raises(EnvironmentFault, match=f"needs {package}, which is not installed: pip install {package}"):
        make(f"optuna:{name}", Brief(SMALL_SPACE, 1))


def test_an_unknown_sampler_is_named_beside_those_that_exist():
    expected = "no engine 'optuna:bayes' .*: expected .*optuna:cmaes, optuna:gp, optuna:nsga2, optuna:tpe, pack, random"
    with pytest.raises(MarkerError, match=expected):
        choose("optuna:bayes", SMALL_SPACE)


def test_cma_es_takes_one_objective():
    with pytest.raises(MarkerError, match="engine 'optuna:cmaes' takes one objective, and there are 2"):
        make("optuna:cmaes", Brief(SMALL_SPACE, 1, n_objectives=2))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"generations": 3}, "no option 'generations': expected pool_size"),
        ({"pool_size": 1}, "pool_size = 1: expected an integer from 2"),
        ({"pool_size": True}, "pool_size = True"),
    ],
)
def test_options_are_checked(options, said):
    with pytest.raises(MarkerError, match=f"engine 'optuna:tpe'.*{said}"):
        make("optuna:tpe", Brief(SMALL_SPACE, 1, options=options))
