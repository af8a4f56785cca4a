"""The account of a search, from what its engine was told."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from pytest_compileiq import choice, literal, maximize, minimize
from pytest_compileiq.engines.base import Told
from pytest_compileiq.engines.ga.explanation import Effect, Explanation
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import OpaqueSpace, Space
from pytest_compileiq.tuning.explained import explained_by, simultaneous_reach

SPACE = Space.from_mapping(
    {f"-f{at}": literal("", knockout_prob=0.5) for at in range(6)} | {"block": choice([32, 64, 128])}
)
RUNTIME = (minimize("runtime"),)


def history(evaluations: int = 60, *, space: Space = SPACE) -> list[Told]:
    """``-f0`` makes it half as slow, ``block=128`` a fifth slower; every tenth fails, every seventh repeats."""
    source = np.random.default_rng(1)
    told: list[Told] = []
    for number in range(evaluations):
        candidate = Candidate(space.knobs(space.sample(source)))
        score = -0.7 * ("-f0" in candidate.knobs) + 0.2 * (candidate.knobs["block"] == 128)
        score += 0.01 * source.standard_normal()
        if number % 10 == 9:
            told.append(Told(candidate, failure="compile"))
        else:
            told.append(Told(candidate, (score, 1.0), duplicate=number % 7 == 6))
    return told


def by_ratio(_objective, _score):
    return None


def test_the_knob_that_halves_it_leads_and_what_does_nothing_is_not_told_apart():
    explained = explained_by(SPACE, RUNTIME, history(), by_ratio)
    lead = explained.effects[0]
    assert (lead.knob, lead.value, lead.instead) == ("-f0", "", None)
    assert lead.low < 0.7 < lead.high and lead.is_told_apart
    assert {effect.knob for effect in explained.told_apart} <= {"-f0", "block"}
    assert (explained.knobs, explained.objectives, explained.by_share, explained.why_none) == (7, 1, False, "")


def test_the_curve_has_every_evaluation_in_order():
    told = history()
    curve = explained_by(SPACE, RUNTIME, told, by_ratio).curve
    assert len(curve.scores) == len(curve.best) == len(curve.low) == len(told)
    assert [score is None for score in curve.scores] == [not result.scores for result in told]
    assert list(curve.best) == sorted(curve.best, reverse=True)
    assert curve.best[-1] == min(score for score in curve.scores if score is not None)
    assert curve.expected[:8] == (None,) * 8  # too little had been told
    assert all(curve.expected[at] is None for at, result in enumerate(told) if result.duplicate)
    measured = [at for at, result in enumerate(told) if result.scores and not result.duplicate]
    assert curve.foreseen == sum(curve.expected[at] is not None for at in measured) > 30
    assert 0.8 * curve.foreseen <= curve.within <= curve.foreseen


@pytest.mark.parametrize(("objective", "sign"), [(minimize("score"), 1), (maximize("score"), -1)])
def test_what_has_no_ratios_is_told_as_a_difference_from_the_baseline(objective, sign):
    explained = explained_by(SPACE, (objective,), history(), lambda _objective, score: sign * 10 * score)
    assert explained.by_share and explained.direction == objective.direction
    assert explained.effects[0].low < 7.0 < explained.effects[0].high
    assert explained.curve.best[-1] == pytest.approx(-7.0, abs=0.5)


def test_of_several_objectives_the_first_is_explained():
    explained = explained_by(SPACE, (*RUNTIME, minimize("code_bytes")), history(), by_ratio)
    assert (explained.objective, explained.objectives) == ("runtime", 2)


@pytest.mark.parametrize(
    ("space", "candidate"),
    [
        (Space(SPACE.genes, opaque=OpaqueSpace("ptxas", "13.3", "default", "latest")), None),
        (SPACE, Candidate({"block": 64}, blob=b"ACF")),
        (SPACE, Candidate({"block": 65})),
    ],
)
def test_where_no_space_holds_the_candidates_the_curve_stands_alone(space, candidate):
    told = history() + ([Told(candidate, (-0.1,))] if candidate else [])
    explained = explained_by(space, RUNTIME, told, by_ratio)
    assert explained.effects == () and "no model" in explained.why_none
    assert explained.curve.foreseen == 0 and explained.curve.best[-1] < -0.6


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("extreme", [1e300, -1e300, 1e160, -1e160, 1e-300])
@pytest.mark.parametrize("shift", [by_ratio, lambda _objective, score: score])
def test_whatever_a_body_recorded_the_account_is_one_of_numbers(extreme, shift):
    told = [
        replace(each, scores=(extreme,)) if each.scores and at % 5 == 3 else each for at, each in enumerate(history())
    ]
    explained = explained_by(SPACE, RUNTIME, told, shift)
    assert len(explained.effects) == 7 and explained.curve.foreseen > 20
    assert all(math.isfinite(number) for each in explained.effects for number in (each.loss, each.low, each.high))


def test_of_few_or_failed_candidates_no_knob_is_explained():
    for told in (history(5), [Told(Candidate({"block": 64}), failure="crash")] * 30):
        explained = explained_by(SPACE, RUNTIME, told, by_ratio)
        assert explained.effects == () and explained.why_none.startswith("too few candidates")
    assert explained_by(SPACE, RUNTIME, [], by_ratio) is None


@pytest.mark.parametrize(("effects", "scores"), [(1, 5), (40, 60), (300, 400)])
def test_intervals_reach_as_far_as_bonferroni_s_student_s(effects, scores):
    nothing = np.empty(0)
    explanation = Explanation(nothing, nothing, (Effect(0, 0, 1, 0.1, 0.01),) * effects, scores)
    assert simultaneous_reach(explanation) == pytest.approx(scipy.stats.t.isf(0.025 / effects, scores), rel=1e-9)
