"""What lessons bring a search, and what lies cost it."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.model import Lesson
from pytest_compileiq.rules.likeness import MOST_TRIED
from pytest_compileiq.space import Space, choice, literal

KNOBS = [f"-f{number}" for number in range(40)]
SPACE = Space.from_mapping({"-O": choice([2, 3], 0.4), **{name: literal("", 0.5) for name in KNOBS}})
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
