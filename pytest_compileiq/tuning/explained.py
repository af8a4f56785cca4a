"""The account that a search ends with: its curve, and which knobs mattered by a model of its scores."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from pytest_compileiq.engines.base import Told
from pytest_compileiq.engines.ga.encoding import Floats
from pytest_compileiq.engines.ga.explanation import Effect, Explanation, explain
from pytest_compileiq.explained import BAND, Curve, Explained, KnobEffect, rounded
from pytest_compileiq.model import KnobValue, Objective
from pytest_compileiq.rules.stats import t_quantile
from pytest_compileiq.search.one_thread import one_thread
from pytest_compileiq.space import OFF, Gene, Space
from pytest_compileiq.tuning.result import Shift

LEVEL = 0.05  # of all intervals of a search together
_NO_POINTS = (
    "ACFs, which are opaque, or candidates from outside the test's space were tried: there is no model of those"
)
_TOO_LITTLE = "too few candidates with unequal scores for a model of the knobs"


def explained_by(space: Space, objectives: Sequence[Objective], told: Sequence[Told], shift: Shift) -> Explained | None:
    """What is to be said of a search by its first objective; None where nothing was told.

    Args:
        told: in the order of evaluation.
        shift: as ``SearchResult`` has it.
    """
    if not told:
        return None
    scores = np.array([result.scores[0] if result.scores else np.nan for result in told])
    best = float(np.nanmin(np.append(scores, 0.0)))
    by_share = shift(objectives[0], best) is not None
    place = _placed(objectives[0], shift) if by_share else float
    is_open = _is_open(space, told)
    explanation = _explanation(space, told, scores) if is_open else _nothing(len(told))
    effects = _knob_effects(space.genes, explanation, float(np.nanmin(scores)), place) if explanation.effects else ()
    return Explained(
        objectives[0].metric, objectives[0].direction, len(objectives), by_share, len(space.knob_genes), effects,
        _curve(told, scores, explanation, place),
        "" if effects else _TOO_LITTLE if is_open else _NO_POINTS,
    )  # fmt: skip


def _is_open(space: Space, told: Sequence[Told]) -> bool:
    """Whether every candidate is a point of the space and nothing else; what ``--tune-from`` names need not be."""
    return space.opaque is None and all(
        result.candidate.blob is None and space.why_not(result.candidate.knobs) is None for result in told
    )


def _nothing(evaluations: int) -> Explanation:
    unknown = np.full(evaluations, np.nan)
    return Explanation(unknown, unknown)


def _explanation(space: Space, told: Sequence[Told], scores: Floats) -> Explanation:
    points = np.array([space.point(result.candidate.knobs) for result in told], dtype=np.int64)
    with one_thread():
        return explain(space, points, scores)


def _placed(objective: Objective, shift: Shift) -> Callable[[float], float]:
    """A score → the difference that it stands for, lower is better."""
    sign = 1 if objective.direction == "minimize" else -1
    return lambda score: sign * (shift(objective, score) or 0.0)


def _knob_effects(
    genes: Sequence[Gene], explanation: Explanation, best: float, place: Callable[[float], float]
) -> tuple[KnobEffect, ...]:
    """The largest loss first."""
    reach = simultaneous_reach(explanation)

    def told(effect: Effect) -> KnobEffect:
        gene = genes[effect.gene]
        steps = (effect.loss, effect.loss - reach * effect.deviation, effect.loss + reach * effect.deviation)
        loss, low, high = (rounded(place(best + step) - place(best)) or 0.0 for step in steps)
        return KnobEffect(gene.name, _value(gene, effect.option), _value(gene, effect.instead), loss, low, high)

    return tuple(sorted(map(told, explanation.effects), key=lambda effect: (-effect.loss, effect.knob)))


def simultaneous_reach(explanation: Explanation) -> float:
    """How many deviations the interval of each effect reaches, so that all hold together.

    Student's t, since the variance of the process is told by its scores too (Santner, Williams & Notz, The Design and
    Analysis of Computer Experiments, 2003, section 4.1); Bonferroni's correction, as for what is measured.
    """
    return t_quantile(explanation.scores, LEVEL / 2 / len(explanation.effects))


def _value(gene: Gene, option: int) -> KnobValue | None:
    return None if option == OFF else gene.values[option]


def _curve(told: Sequence[Told], scores: Floats, explanation: Explanation, place: Callable[[float], float]) -> Curve:
    def series(numbers: Floats) -> tuple[float | None, ...]:
        return tuple(None if np.isnan(number) else rounded(place(float(number))) for number in numbers)

    repeated = np.array([result.duplicate for result in told])
    expected = np.where(repeated, np.nan, explanation.expected)
    reach = NormalDist().inv_cdf((1 + BAND) / 2) * explanation.deviation
    best = itertools.accumulate(np.fmin(scores, 0.0).tolist(), min)
    return Curve(
        series(scores), tuple(rounded(place(score)) or 0.0 for score in best),
        series(expected), series(expected - reach), series(expected + reach),
    )  # fmt: skip
