"""What the embedded engine makes of lessons: it draws by those that held here, and forgets those that misled it."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.ga.taught import Taught
from pytest_compileiq.engines.registry import make
from pytest_compileiq.lesson import Lesson
from pytest_compileiq.rules.likeness import MOST_TRIED
from pytest_compileiq.space import Space, choice, literal

KNOBS = [f"-f{number}" for number in range(40)]
SPACE = Space.from_mapping({"-O": choice([2, 3], 0.4), **{name: literal("", 0.5) for name in KNOBS}})
BASELINE = SPACE.point({})
GOOD = (Lesson("lz4/t", "0" * 64, {"-f1": "", "-f2": ""}, 0.5), Lesson("xxh/t", "1" * 64, {"-f3": ""}, 0.25))


def score(knobs) -> float:
    """Three knobs halve the time together, and each of the others costs a little."""
    useful = sum(name in knobs for name in ("-f1", "-f2", "-f3"))
    return -0.23 * useful + 0.02 * sum(name in knobs for name in KNOBS[4:])


def curve(evaluations: int, lessons=(), seed: int = 1, scored=score) -> list[float]:
    engine, scores = make("ga", Brief(SPACE, seed, budget=evaluations, lessons=lessons)), []
    while len(scores) < evaluations:
        asked = engine.ask(4)
        engine.tell([Told(candidate, (scored(candidate.knobs),)) for candidate in asked])
        scores += [scored(candidate.knobs) for candidate in asked]
    return list(np.minimum.accumulate(scores))


def test_a_lesson_is_believed_until_it_was_tried_and_then_if_it_brought_something():
    taught = Taught(GOOD, SPACE, BASELINE)
    assert taught.holds
    taught.told({SPACE.point(GOOD[0].knobs): 0.1, SPACE.point({"-O": 2}): -1.0})
    assert not taught.holds
    assert (taught.relevance == 1).all()
    taught.told({SPACE.point(GOOD[1].knobs): -0.1})
    assert taught.holds


@pytest.mark.parametrize("measured", [np.inf, 0.0, -0.004])
def test_a_failure_and_a_gain_that_no_gate_would_prove_bring_nothing(measured):
    taught = Taught(GOOD[:1], SPACE, BASELINE)
    taught.told({SPACE.point(GOOD[0].knobs): measured})
    assert not taught.holds


def test_knobs_of_lessons_are_expected_to_matter_more():
    named = {gene.name for gene, relevance in zip(SPACE.genes, Taught(GOOD, SPACE, BASELINE).relevance, strict=True)
             if relevance > 1}  # fmt: skip
    assert named == {"-f1", "-f2", "-f3"}


def test_draws_combine_lessons_and_leave_out_what_was_tried_in_vain():
    taught, rng = Taught(GOOD, SPACE, BASELINE), np.random.default_rng(3)
    nothing = np.tile(BASELINE, (2000, 1))
    drawn = [frozenset(SPACE.knobs(row)) for row in taught.draw(rng, nothing).tolist()]
    assert set(drawn) == {frozenset(), frozenset({"-f1", "-f2"}), frozenset({"-f3"}), frozenset({"-f1", "-f2", "-f3"})}
    taught.told({SPACE.point(GOOD[0].knobs): 0.1, SPACE.point(GOOD[1].knobs): -0.1})
    drawn = [frozenset(SPACE.knobs(row)) for row in taught.draw(rng, nothing).tolist()]
    assert set(drawn) == {frozenset(), frozenset({"-f3"})}


def test_what_was_taught_is_tried_at_once():
    assert curve(4, GOOD)[-1] == pytest.approx(-0.69)
    assert curve(20)[-1] > -0.69


def test_without_lessons_nothing_changes():
    assert curve(40) == curve(40, ())


@pytest.mark.parametrize("seed", range(4))
def test_lies_cost_what_is_tried_first_and_no_more(seed):
    lies = [Lesson(f"bad{n}/t", "0" * 64, dict.fromkeys(KNOBS[4 + n :: 2], ""), 1.0) for n in range(8)]
    cold, misled = curve(24, seed=seed), curve(24 + MOST_TRIED, lies, seed)
    assert misled[20 + MOST_TRIED] <= cold[16] + 0.02 * 10


def test_a_lesson_that_fails_here_is_forgotten():
    engine = make("ga", Brief(SPACE, 1, lessons=GOOD))
    asked = engine.ask(4)
    engine.tell(
        [Told(candidate, failure="crash") if candidate.knobs else Told(candidate, (0.0,)) for candidate in asked]
    )
    assert [candidate.origin for candidate in engine.ask(12)].count("taught") == 0
