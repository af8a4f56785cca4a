"""The Gaussian process of one search: a few steps of its hyperparameters each round, and new points in between."""

from __future__ import annotations

import numpy as np

from pytest_compileiq.engines.ga.encoding import Encoding, Floats
from pytest_compileiq.engines.ga.history import History
from pytest_compileiq.engines.ga.process import GaussianProcess, Hyper

_STEPS = 10
_STEPS_POINTS = 500  # steps times points of a round: a step costs the cube of the points, and more points move less


class Surrogate:
    """Models what ``history`` holds; it weights several objectives at random, anew each time it is asked.

    Attributes:
        scale: of one objective, how much of its score is one unit of what the process models.
    """

    def __init__(self, encoding: Encoding, history: History, rng: np.random.Generator) -> None:
        self._encoding = encoding
        self._history = history
        self._rng = rng
        self._known = 0
        self.scale = 1.0
        self._scores: Floats = history.scores
        self._process = GaussianProcess(encoding, history.features, np.empty(0), Hyper.prior(len(encoding.space.genes)))
        self._informed: tuple[GaussianProcess, float] | None = None  # the last one

    def improve(self) -> None:
        """A few steps up the posterior of the hyperparameters, on the best and the newest of what has been told."""
        process, _ = self.informed()
        chosen = self._history.best_and_newest()
        self._scores, features = self._history.scores[chosen], self._history.features[chosen]
        scores = self._standard_scores()
        for _ in range(max(1, min(_STEPS, _STEPS_POINTS // len(chosen)))):
            process = GaussianProcess(self._encoding, features, scores, process.improved_hyper())
        self._process, self._informed = process, None

    def informed(self) -> tuple[GaussianProcess, float]:
        """The process that knows all that has been told, and the best of its scores."""
        weighted_anew = self._history.scores.shape[1] > 1
        if self._informed is None or self._known < self._history.told or weighted_anew:
            self._informed = self._take_in()
        return self._informed

    def _take_in(self) -> tuple[GaussianProcess, float]:
        new = self._history.scored_since(self._known)
        self._known = self._history.told
        self._scores = np.vstack([self._scores, self._history.scores[new]])
        self._process = self._process.believing(self._history.features[new])
        standard = self._standard_scores()
        return self._process.told(standard), float(np.min(standard))

    def _standard_scores(self) -> Floats:
        """Scores in the order of the process's points: those above the median squashed, then standardised."""
        scores = self._scalars()
        middle = np.median(scores)
        scale = max(float(middle - np.min(scores)), 1e-9)
        squashed = np.where(scores > middle, middle + scale * np.log1p(np.maximum(scores - middle, 0) / scale), scores)
        self.scale = max(float(squashed.std()), 1e-9)
        return np.asarray((squashed - squashed.mean()) / self.scale)

    def _scalars(self) -> Floats:
        """One number a point: the score, or a random weighting of several normalised ones."""
        if self._scores.shape[1] == 1:
            return self._scores[:, 0]
        low, high = self._scores.min(axis=0), self._scores.max(axis=0)
        weights = self._rng.dirichlet(np.ones(self._scores.shape[1]))
        normalised: Floats = (self._scores - low) / np.maximum(high - low, 1e-12)
        return np.asarray(normalised @ weights)
