"""The embedded engine that picks what to measure by machine code, on code and times that are computed."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief, Built, Picking, Told
from pytest_compileiq.engines.ga import PickingGa
from pytest_compileiq.engines.ga.code_model import CodeModel, squashed
from pytest_compileiq.engines.registry import make
from pytest_compileiq.space import Space, choice, literal

KNOBS = 40
SPACE = Space.from_mapping({f"-f{number}": literal("", 0.5) for number in range(KNOBS)} | {"-O": choice([1, 2, 3])})


def code_of(knobs) -> dict[str, float]:
    """What a compiler makes of knobs: a few of them interact, most do nothing."""
    on = np.array([f"-f{number}" in knobs for number in range(KNOBS)], dtype=float)
    pairs = on[:24:2] * on[1:24:2]
    return {"loads": 12 - pairs.sum(), "spills": on[24:30].sum() * (knobs["-O"] == 3), "size": on.sum()}


def seconds(code) -> float:
    return 0.1 * code["loads"] + 0.2 * code["spills"]


def search(engine, evaluations, described=code_of, n=4):
    """The best score of what was measured, and how many were built."""
    seen, scores, built = set(), [], 0
    while len(scores) < evaluations and (proposed := engine.propose(n, 4 * n)):
        codes = [code_of(candidate.knobs) for candidate in proposed]
        keys = [tuple(code.values()) for code in codes]
        shown = [
            Built(candidate, described(candidate.knobs), key in seen or key in keys[:place])
            for place, (candidate, key) in enumerate(zip(proposed, keys, strict=True))
        ]
        picks = engine.pick(shown, n)
        built += len(proposed)
        seen |= {keys[pick] for pick in picks}
        told = [Told(shown[pick].candidate, (seconds(codes[pick]),), features=shown[pick].features) for pick in picks]
        scores += [each.scores[0] for each in told] or [9.0]
        engine.tell(told)
    return min(scores), built


def test_the_default_engine_picks():
    assert isinstance(make("ga", Brief(SPACE, 0)), Picking)
    assert not isinstance(make("random", Brief(SPACE, 0)), Picking)


@pytest.mark.parametrize("seed", range(3))
def test_code_like_the_fast_one_is_picked(seed):
    engine = PickingGa(Brief(SPACE, seed))
    search(engine, 40)
    fast = {"loads": 5.0, "spills": 0.0, "size": 20.0}
    slow = {"loads": 11.0, "spills": 4.0, "size": 20.0}
    proposed = engine.propose(4, 16)
    built = [Built(candidate, fast if place % 2 else slow, known=False) for place, candidate in enumerate(proposed)]
    assert {place % 2 for place in engine.pick(built, 4)} == {1}


def test_what_was_passed_over_gets_another_look():
    engine = PickingGa(Brief(SPACE, 0))
    proposed: list[str] = []
    keep = engine.propose

    def noted(n, most):
        batch = keep(n, most)
        proposed.extend(str(sorted(candidate.knobs)) + str(candidate.knobs["-O"]) for candidate in batch)
        return batch

    engine.propose = noted
    search(engine, 40, described=lambda knobs: code_of(knobs) | {"noise": hash(len(knobs)) % 7})
    assert len(set(proposed)) < len(proposed)


@pytest.mark.parametrize("n", [1, 4, 16])
def test_no_more_is_built_than_four_for_each_that_is_measured(n):
    engine = PickingGa(Brief(SPACE, 1))
    for _ in range(6):
        proposed = engine.propose(n, 4 * n)
        assert n <= len(proposed) <= 4 * n
        built = [Built(candidate, {"size": float(len(candidate.knobs))}, known=False) for candidate in proposed]
        picks = engine.pick(built, n)
        assert len(picks) == n
        engine.tell([Told(built[pick].candidate, (0.1 * pick,), features=built[pick].features) for pick in picks])


def test_several_objectives_and_failures_are_taken():
    engine = PickingGa(Brief(SPACE, 1, n_objectives=2))
    for round_ in range(10):
        built = [Built(candidate, code_of(candidate.knobs), known=False) for candidate in engine.propose(4, 16)]
        picks = engine.pick(built, 4)
        failure = "crash" if round_ % 2 else None
        results = [
            Told(built[pick].candidate, () if failure else (0.1 * pick, -0.2 * pick), failure, features=built[pick].features)
            for pick in picks
        ]  # fmt: skip
        engine.tell(results)
        assert len(picks) == 4


def test_asked_without_features_it_is_the_engine_that_it_was():
    engine = make("ga", Brief(SPACE, 3))
    asked = [candidate for _ in range(10) for candidate in engine.ask(4)]
    assert len({str(sorted(candidate.knobs.items())) for candidate in asked}) == 40


# ── the model ────────────────────────────────────────────────────────────────────────────────────────────────────────


def described(rng, count):
    rows = [{"a": float(value), "b": float(other), "same": 1.0} for value, other in rng.normal(size=(count, 2))]
    return rows, np.zeros((count, 1)), np.array([row["a"] ** 2 - row["b"] for row in rows])


def test_the_model_predicts_what_it_has_not_seen_and_is_surest_where_it_has():
    rng = np.random.default_rng(0)
    (rows, knobs, truth), (others, other_knobs, other_truth) = described(rng, 60), described(rng, 40)
    model = CodeModel()
    for _ in range(5):
        fitted = model.fit(rows, knobs, squashed(truth), learn=True)
    expected = fitted.expected(others, other_knobs)
    assert np.corrcoef(expected.mean, other_truth)[0, 1] > 0.9
    assert fitted.expected(rows, knobs).covariance.diagonal().max() < expected.covariance.diagonal().max()


def test_a_batch_is_spread_over_unlike_code():
    rng = np.random.default_rng(1)
    rows, knobs, truth = described(rng, 40)
    fitted = CodeModel().fit(rows, knobs, squashed(truth), learn=True)
    twins = [{"a": 0.6, "b": 2.0}, {"a": 0.6, "b": 2.0}, {"a": -0.6, "b": 2.0}]
    assert set(fitted.best_batch(twins, np.zeros((3, 1)), 2)) != {0, 1}


def test_code_of_which_nothing_is_known_leaves_the_knobs():
    rng = np.random.default_rng(2)
    knobs = rng.integers(0, 2, size=(50, 6)).astype(float)
    truth = knobs[:, 0] - 2 * knobs[:, 1]
    fitted = CodeModel().fit([{}] * 40, knobs[:40], squashed(truth[:40]), learn=True)
    assert np.corrcoef(fitted.expected([{}] * 10, knobs[40:]).mean, truth[40:])[0, 1] > 0.8


def test_scores_that_are_all_equal_say_nothing_and_warn_of_nothing():
    rows, knobs, _ = described(np.random.default_rng(3), 20)
    fitted = CodeModel().fit(rows, knobs, squashed(np.full(20, 0.5)), learn=True)
    assert len(fitted.best_batch(rows, knobs, 3)) == 3
