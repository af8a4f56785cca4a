"""Which knobs of the best candidate matter by the model, and what the model expected of each candidate beforehand.

A function of the space and of what was told, so that the search of any engine can be explained, and a search that went
on in another run is explained alike. An effect is the difference of two predictions by their joint posterior (Rasmussen
& Williams, Gaussian Processes for Machine Learning, 2006, eq. 2.24): the best candidate against the same with one knob
set otherwise. A variance decomposition over the whole space (fANOVA: Hutter, Hoos & Leyton-Brown, ICML 2014) would say
what matters among random candidates, where no search has looked for long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pytest_compileiq.engines.ga.encoding import Encoding, Floats, Points
from pytest_compileiq.engines.ga.history import History
from pytest_compileiq.engines.ga.process import GaussianProcess, Hyper
from pytest_compileiq.space import OFF, Point, Space

FEWEST_SCORED = 10  # points, of unequal scores, that a model is made of
_CHECKPOINTS = 64  # models that foresee one stretch of a search each: what bounds the time of explaining a long one
_SHORTEST_STRETCH = 4
_STEPS, _STEPS_POINTS = 4, 400  # of the hyperparameters at a checkpoint, and steps times points
_LAST_STEPS = 20
_FENCE = 3.0  # interquartile ranges above the third quartile: Tukey's far fence (Exploratory Data Analysis, 1977, 2D)
_LARGEST = 1e100  # of a score that a body recorded: the square of a larger one may overflow


@dataclass(frozen=True)
class Effect:
    """One gene of the best point, against another option of it.

    Attributes:
        gene: its number in the space; it is a knob.
        option: the best point's, ``OFF`` where that leaves it off; ``instead`` is the other.
        loss: how far the score rises with ``instead``, by the posterior mean; below zero it falls.
        deviation: of the loss, by the posterior.
    """

    gene: int
    option: int
    instead: int
    loss: float
    deviation: float


@dataclass(frozen=True)
class Explanation:
    """What a model of the scores says of a search.

    Attributes:
        expected: of each score before it was told, shape (n,); NaN where too little had been told.
        deviation: of each score as measured, noise included, shape (n,).
        effects: one a knob that is in play in the best point and was tried otherwise, in the space's order.
        scores: how many the model of the effects is of: their degrees of freedom, since they tell its variance too.
    """

    expected: Floats
    deviation: Floats
    effects: tuple[Effect, ...] = ()
    scores: int = 0


def explain(space: Space, points: Points, scores: Floats) -> Explanation:
    """Explain a search.

    Args:
        space: an open one.
        points: in the order told, shape (n, genes).
        scores: of one objective, lower is better, shape (n,); NaN where a candidate failed.
    """
    encoding = Encoding.of(space)
    history = History(encoding, objectives=1)
    expected, deviation = np.full((2, len(points)), np.nan)
    hyper = Hyper.prior(len(space.genes))
    stretch = max(_SHORTEST_STRETCH, -(-len(points) // _CHECKPOINTS))
    for begin in range(0, len(points), stretch):
        now = slice(begin, begin + stretch)
        if model := _Model.of(history, encoding, hyper):
            model = model.improved(max(1, min(_STEPS, _STEPS_POINTS // model.count)))
            hyper = model.process.hyper
            expected[now], deviation[now] = model.foreseen(encoding.features(points[now]))
        history.add(points[now], scores[now, None], [""] * len(points[now]))
    last = _Model.of(history, encoding, hyper)
    if last is None:
        return Explanation(expected, deviation)
    return Explanation(expected, deviation, tuple(_effects(space, history, last.improved(_LAST_STEPS))), last.count)


@dataclass(frozen=True)
class _Model:
    """A Gaussian process of scores that were standardised by ``centre`` and ``scale``."""

    encoding: Encoding
    features: Floats
    standard: Floats
    centre: float
    scale: float
    process: GaussianProcess

    @classmethod
    def of(cls, history: History, encoding: Encoding, hyper: Hyper) -> _Model | None:
        """The model of the best and the newest points; None where they are too few, or their scores are all equal.

        A score beyond the far fence counts as one at it: how bad the worst are is not what is asked.
        """
        chosen = history.best_and_newest()
        scores = history.scores[chosen, 0]
        if len(scores) < FEWEST_SCORED or np.ptp(scores) <= 0:
            return None
        first, third = np.quantile(scores, (0.25, 0.75))
        fence = third + _FENCE * (third - first) if third > first else _LARGEST
        fenced = np.clip(scores, -_LARGEST, min(fence, _LARGEST))
        centre, scale = float(fenced.mean()), max(float(fenced.std()), 1e-12)
        features, standard = history.features[chosen], np.asarray((fenced - centre) / scale)
        return cls(encoding, features, standard, centre, scale, GaussianProcess(encoding, features, standard, hyper))

    @property
    def count(self) -> int:
        """How many points it is of."""
        return len(self.standard)

    def improved(self, steps: int) -> _Model:
        """After ``steps`` up the posterior of the hyperparameters."""
        process = self.process
        for _ in range(steps):
            process = GaussianProcess(self.encoding, self.features, self.standard, process.improved_hyper())
        return _Model(self.encoding, self.features, self.standard, self.centre, self.scale, process)

    def foreseen(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of a measured score: (m, F) → (m,), (m,)."""
        mean, deviation = self.process.predict(features)
        return mean * self.scale + self.centre, np.hypot(deviation, self.process.noise) * self.scale


def _effects(space: Space, history: History, model: _Model) -> Iterator[Effect]:
    """What the best point loses by another option of each of its knobs."""
    told = history.points[history.best_and_newest()]
    best: Point = tuple(told[0].tolist())
    knobs = [number for number, gene in enumerate(space.genes) if gene.kind != "switch"]
    others = {number: other for number in knobs if (other := _otherwise(space, best, number, told)) is not None}
    features = model.encoding.features(np.array([best, *others.values()], dtype=np.int64))
    loss, deviation = model.process.difference(features[1:], np.repeat(features[:1], len(others), axis=0))
    for (number, other), mean, spread in zip(others.items(), loss, deviation, strict=True):
        yield Effect(number, best[number], other[number], float(mean) * model.scale, float(spread) * model.scale)


def _otherwise(space: Space, best: Point, number: int, told: Points) -> Point | None:
    """The best point with one gene off or, where it is off already or has to be on, as it was tried most often.

    None where nothing else was tried, or the space does not hold it.
    """
    tried = [option for option, _ in Counter(told[:, number].tolist()).most_common()]
    for option in (OFF, *tried):
        other = space.canonical((*best[:number], option, *best[number + 1 :]))
        if other[number] != best[number] and space.why_not(space.knobs(other)) is None:
            return other
    return None
