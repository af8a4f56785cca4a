"""Sets of options that are tried first: where there are some, how a search begins, and what a wrong one costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.ga import portfolio
from pytest_compileiq.engines.ga.portfolio import name_of, portfolio_of
from pytest_compileiq.engines.registry import make
from pytest_compileiq.space import Space, choice, literal, log_sampling
from pytest_compileiq.space.parameters import UNDECIDED
from pytest_compileiq.toolchains.cc.known_options import BY_COMPILER

KNOBS = [f"-f{number}" for number in range(40)]
SPACE = replace(
    Space.from_mapping({"-O": choice([2, 3], 0.4), "-n=": log_sampling(1, 8), **{k: literal("", 0.5) for k in KNOBS}}),
    compiler="imagined",
)
USEFUL = KNOBS[:8]


def score(knobs) -> float:
    """Eight knobs bring something, most of the others cost a little."""
    return -0.05 * sum(name in knobs for name in USEFUL) + 0.02 * sum(name in knobs for name in KNOBS[12:])


def best_after(evaluations: int, seed: int, space: Space = SPACE) -> float:
    engine, scores = make("ga", Brief(space, seed, budget=evaluations, metrics=["runtime"])), []
    while len(scores) < evaluations:
        asked = engine.ask(4)
        engine.tell([Told(candidate, (score(candidate.knobs),)) for candidate in asked])
        scores += [score(candidate.knobs) for candidate in asked]
    return min(scores)


def test_it_depends_on_the_compiler_and_the_metric_and_is_named():
    space = replace(Space.from_mapping({"-O": choice([3, "s"], 0.3), "-DTILE=": choice([8, 16])}), compiler="gcc")
    assert {point[1] for point in portfolio_of(space, ["runtime@p99"])} == {UNDECIDED}  # a macro of the source
    assert {point[0] for point in portfolio_of(space, ["code_bytes of kernel"])} == {1}  # -Os
    for nothing in (["compile_time"], ["runtime", "registers"], []):
        assert not portfolio_of(space, nothing) and name_of(space, nothing) == ""
    assert not portfolio_of(replace(space, compiler="clang"), ["runtime"])
    assert name_of(space, ["runtime"]).startswith("gcc ")


def test_a_merged_space_still_says_whose_options_it_holds_and_behind_what():
    macros, behind = Space.from_mapping({"-DTILE=": choice([8, 16])}), replace(SPACE, behind={"-O": 3})
    merged = Space.merge(macros, behind)
    assert (merged.compiler, merged.behind) == ("imagined", {"-O": 3})
    assert replace(behind, compiler="", behind={}).digest == behind.digest


def asked_first(count: int, space: Space, metrics: list[str], **brief) -> list:
    engine = make("ga", Brief(space, 1, len(metrics), metrics=metrics, **brief))
    return [candidate for candidate in engine.ask(count) if candidate.origin != "baseline"]


def test_a_portfolio_is_shipped_of_options_that_the_tool_knows():
    known = {(option.name, str(value)) for option in BY_COMPILER["gcc"].known for value in option.drawn.values}
    shipped = portfolio._sets("gcc")
    assert shipped.keys() == {"size", "size at -Os", "speed"}
    for sets in shipped.values():
        assert len(sets) == 8 == len({tuple(sorted(options.items())) for options in sets})
        assert {option for options in sets for option in options.items()} <= known
    assert all(options["-O"] == "s" for options in shipped["size at -Os"])
    assert not any("-O" in options for options in shipped["size"])


@pytest.fixture
def listed(monkeypatch):
    """Sets of options of an imagined compiler that are tried first: of every metric, or of some kinds."""

    def known(*sets: dict[str, str], by_kind: dict[str, list[dict[str, str]]] | None = None) -> None:
        others = {"others": [dict.fromkeys([*KNOBS, "-O"], "")]}  # what no set for these metrics has is known, too
        kinds = by_kind or dict.fromkeys(("speed", "size"), sets)
        monkeypatch.setattr(portfolio, "_sets", lambda compiler: {**others, **kinds} if compiler else {})

    return known


def test_a_portfolio_is_tried_first_and_then_four_random_points(listed):
    sets = [{"-f0": "", f"-f{number}": ""} for number in range(1, 10)]
    listed(*sets)
    asked = asked_first(13, SPACE, ["runtime"])
    assert [candidate.origin for candidate in asked] == ["portfolio"] * 8 + ["random"] * 4
    assert [{k: v for k, v in c.knobs.items() if k in KNOBS} for c in asked[:8]] == sets[:8]
    few = asked_first(7, SPACE, ["runtime"], options={"pool_size": 6})
    assert [candidate.origin for candidate in few] == ["portfolio"] * 4 + ["random"] * 2


def test_of_a_portfolio_what_is_nothing_of_the_compilers_is_drawn(listed):
    listed(*({f"-f{number}": ""} for number in range(8)))
    macros = Space.merge(Space.from_mapping({"-DTILE=": choice([4, 8, 16, 32])}), SPACE)
    tiles = [candidate.knobs["-DTILE="] for candidate in asked_first(9, macros, ["runtime"])]
    assert len(set(tiles)) > 1


def test_a_portfolio_says_the_level_that_it_was_tried_behind_where_the_command_has_another(listed):
    listed({"-f0": ""}, {"-O": "3"})
    for behind, levels in (({"-O": 2}, [None, 3]), ({"-O": 3}, [2, 3]), ({"-O": "s"}, [2, 3])):
        asked = asked_first(3, replace(SPACE, behind=behind), ["runtime"])
        assert [candidate.knobs.get("-O") for candidate in asked] == levels


def test_several_metrics_take_turns_in_a_portfolio_and_one_that_has_none_leaves_it_out(listed):
    speed, size = ([{f"-f{number}": ""} for number in part] for part in (range(4), range(4, 8)))
    listed(by_kind={"speed": speed, "size": size})
    asked = asked_first(9, SPACE, ["runtime", "code_bytes"])
    names = [next(name for name in candidate.knobs if name in KNOBS) for candidate in asked]
    assert names == ["-f0", "-f4", "-f1", "-f5", "-f2", "-f6", "-f3", "-f7"]
    listed(by_kind={"speed": speed})
    assert asked_first(2, SPACE, ["runtime", "code_bytes"])[0].origin == "random"


def test_a_portfolio_that_brings_nothing_costs_its_own_evaluations(listed):
    cold = np.mean([best_after(60, seed, replace(SPACE, compiler="")) for seed in range(4)])
    listed(*({f"-f{number}": "", "-f39": ""} for number in range(12, 20)))
    assert np.mean([best_after(60, seed) for seed in range(4)]) < 0.9 * cold
