"""What is known of a compiler's options beforehand: where it is expected, how a search begins, and what lies cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.ga import experience
from pytest_compileiq.engines.ga.encoding import Encoding, distances
from pytest_compileiq.engines.ga.experience import Experience, name_of
from pytest_compileiq.engines.ga.points import PointSpace
from pytest_compileiq.engines.ga.process import GaussianProcess, Hyper
from pytest_compileiq.engines.registry import make
from pytest_compileiq.space import Space, choice, literal, log_sampling
from pytest_compileiq.toolchains.cc.known_options import BY_COMPILER

KNOBS = [f"-f{number}" for number in range(40)]
SPACE = replace(
    Space.from_mapping({"-O": choice([2, 3], 0.4), "-n=": log_sampling(1, 8), **{k: literal("", 0.5) for k in KNOBS}}),
    compiler="imagined",
)
USEFUL = KNOBS[:8]


@pytest.fixture
def imagined(monkeypatch):
    """A compiler of whose options something is known: a function that takes what each adds to a score."""

    def known(effects: dict[str, float]) -> None:
        table = {(name, ""): effect for name, effect in effects.items()}
        monkeypatch.setattr(experience, "_table", lambda compiler, kind: table if compiler and kind else {})

    return known


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


def test_what_is_shipped_is_of_options_that_the_tool_knows():
    known = {(option.name, str(value)) for option in BY_COMPILER["gcc"].known for value in option.drawn.values}
    for kind in ("size", "size at -Os", "speed"):
        table = experience._table("gcc", kind)
        assert set(table) <= known
        assert len(table) > 90


def test_it_depends_on_the_compiler_and_the_metric_and_is_named():
    knobs = {"-O": choice([3, "s"], 0.3), "-DTILE=": choice([8, 16])}
    space = replace(Space.from_mapping(knobs), compiler="gcc", behind={"-O": 2})
    time, size = Experience.of(space, ["runtime@p99"]), Experience.of(space, ["code_bytes of kernel"])
    assert time.effects[0][1] > 1 > -1 > size.effects[0][1]  # -Os is slow, and small
    assert (time.effects[1] == 0).all()  # a macro of the source
    both = Experience.of(space, ["runtime", "code_bytes"])
    assert both.effects[0] == pytest.approx((time.effects[0] + size.effects[0]) / 2)
    for nothing in (["compile_time"], ["runtime", "registers"], []):
        assert not Experience.of(space, nothing).by_metric
        assert name_of(space, nothing) == ""
    assert not Experience.of(replace(space, compiler="clang"), ["runtime"]).by_metric
    assert name_of(space, ["runtime"]).startswith("gcc ")


def test_an_option_that_is_off_has_what_the_command_says():
    space = replace(Space.from_mapping({"-O": choice([2, 3, "s"], 0.3)}), compiler="gcc")
    for metric in ("code_bytes", "runtime"):
        at_2, small = (Experience.of(replace(space, behind={"-O": level}), [metric]).effects[0] for level in (2, "s"))
        assert abs(at_2[2]) > 1
        assert small == pytest.approx(at_2 - at_2[2])
        assert not Experience.of(space, [metric]).effects[0].any()  # behind -Oz, which is none of the values


def test_a_merged_space_still_says_whose_options_it_holds_and_behind_what():
    macros, behind = Space.from_mapping({"-DTILE=": choice([8, 16])}), replace(SPACE, behind={"-O": 3})
    merged = Space.merge(macros, behind)
    assert (merged.compiler, merged.behind) == ("imagined", {"-O": 3})
    assert replace(behind, compiler="", behind={}).digest == behind.digest


def test_the_trend_of_features_is_the_sum_of_the_effects_of_what_is_on():
    rng = np.random.default_rng(1)
    effects = [rng.normal(size=len(gene.values)) for gene in SPACE.genes]
    encoding, points = Encoding.of(SPACE), PointSpace(SPACE).draw(rng, 50)
    wanted = [sum(effects[gene][index] for gene, index in enumerate(point) if index >= 0) for point in points]
    always_on = [gene.knockout_prob == 0 for gene in SPACE.genes]
    level = sum(effects[gene][0] for gene in np.flatnonzero(always_on))  # what all points share is left out
    assert encoding.features(points) @ encoding.linear(effects) == pytest.approx(np.array(wanted) - level)


def test_a_process_with_a_trend_predicts_as_the_textbook_does():
    rng, encoding = np.random.default_rng(3), Encoding.of(SPACE)
    points = PointSpace(SPACE).draw(rng, 80)
    features, scores = encoding.features(points), rng.normal(size=60)
    told, asked = features[:60], features[60:]
    trend = rng.normal(size=features.shape[1])
    process = GaussianProcess(encoding, told, scores, Hyper.prior(len(SPACE.genes), trend=trend))
    line, middle, spread = features @ trend, (told @ trend).mean(), (told @ trend).std()
    line = (line - middle) / spread
    # A slope with a normal prior around 0.7: Rasmussen & Williams, section 2.7.
    signal = np.exp(-distances(features, features, process.weights)) + 0.49 * np.outer(line, line)
    noise = np.exp(process.hyper.log_noise) + 1e-8
    factor = scipy.linalg.cho_factor(signal[:60, :60] + noise * np.eye(60))
    rest = scores - 0.7 * line[:60]
    variance = rest @ scipy.linalg.cho_solve(factor, rest) / 60
    explained = np.einsum("ij,ji->i", signal[60:, :60], scipy.linalg.cho_solve(factor, signal[:60, 60:]))
    mean, deviation = process.predict(asked)
    assert mean == pytest.approx(0.7 * line[60:] + signal[60:, :60] @ scipy.linalg.cho_solve(factor, rest), abs=1e-9)
    assert deviation == pytest.approx(np.sqrt(variance * (signal[60:, 60:].diagonal() - explained)), abs=1e-9)
    assert process.believing(asked).predict(asked)[0] == pytest.approx(mean, abs=1e-9)


def test_what_is_expected_in_vain_is_unlearned(imagined):
    cold = np.mean([best_after(80, seed, replace(SPACE, compiler="")) for seed in range(4)])
    imagined(dict.fromkeys(USEFUL, 0.5) | dict.fromkeys(KNOBS[12:], -0.2))
    assert np.mean([best_after(80, seed) for seed in range(4)]) < 0.9 * cold


# ── the portfolio ─────────────────────────────────────────────────────────────────────────────────────────────────


def asked_first(count: int, space: Space, metrics: list[str], **brief) -> list:
    engine = make("ga", Brief(space, 1, len(metrics), metrics=metrics, **brief))
    return [candidate for candidate in engine.ask(count) if candidate.origin != "baseline"]


def test_a_portfolio_is_shipped_of_options_that_the_tool_knows():
    known = {(option.name, str(value)) for option in BY_COMPILER["gcc"].known for value in option.drawn.values}
    for kind in ("size", "size at -Os", "speed"):
        sets = experience._portfolio("gcc", kind)
        assert len(sets) == 8 == len({tuple(sorted(options.items())) for options in sets})
        assert {option for options in sets for option in options.items()} <= known
    assert all(options["-O"] == "s" for options in experience._portfolio("gcc", "size at -Os"))
    assert not any("-O" in options for options in experience._portfolio("gcc", "size"))


def test_the_name_of_what_is_known_changes_with_the_portfolio_which_a_compiler_need_not_have(monkeypatch, tmp_path):
    space = replace(Space.from_mapping({"-O": choice([2, 3], 0.3)}), compiler="gcc")
    shipped = name_of(space, ["runtime"])
    monkeypatch.setattr(experience, "_portfolio_of", lambda compiler: tmp_path / compiler)
    without = name_of(space, ["runtime"])
    (tmp_path / "gcc").write_text("kind,place,knob,value\n")
    assert len({shipped, without, name_of(space, ["runtime"])}) == 3


@pytest.fixture
def listed(imagined, monkeypatch):
    """Sets of options that are tried first: of every metric, or of some kinds."""

    def known(*sets: dict[str, str], by_kind: dict[str, list[dict[str, str]]] | None = None) -> None:
        imagined(dict.fromkeys([*KNOBS, "-O"], -1.0))
        monkeypatch.setattr(experience, "_portfolio", lambda compiler, kind: by_kind.get(kind, ()) if by_kind else sets)

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
