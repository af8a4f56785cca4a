"""A Gaussian process over weighted Hamming distances, and the improvement that it expects.

Rasmussen & Williams, Gaussian Processes for Machine Learning (2006): prediction eq. 2.25 and 2.26, evidence eq. 5.8 and
its gradient 5.9. Expected improvement: Jones, Schonlau & Welch, J. Global Optimization 13 (1998), eq. 15.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np

from pytest_compileiq.engines.ga.points import Encoding, Floats, distances
from pytest_compileiq.engines.ga.ranking import History

_RATE = 0.4
_PRIOR_SD = 1.2
_NOISE_PRIOR = (np.log(0.05), 1.0)


@dataclass(frozen=True)
class Hyper:
    """What a process believes before it is told anything."""

    log_weights: Floats  # of the genes in the kernel, shape (genes,)
    log_noise: float  # the log of the noise's share of the variance

    @classmethod
    def prior(cls, genes: int) -> Hyper:
        """A weight of two over all genes: points that differ everywhere are correlated by an eighth."""
        return cls(np.log(np.full(genes, 2.0 / max(genes, 1))), float(_NOISE_PRIOR[0]))


@dataclass(frozen=True)
class Located:
    """Points with all parts of a prediction that do not depend on scores."""

    features: Floats  # shape (m, F)
    cross: Floats  # their covariance with the points of the process, shape (m, n)
    solved: Floats  # ``cross`` times the inverse covariance of those points, shape (m, n)
    variance: Floats  # of their noise-free scores, as a share of the variance of the process, shape (m,)


class GaussianProcess:
    """A Gaussian process on features (n, F) and standardised scores (n,); ``weights`` of features, shape (F,)."""

    def __init__(self, encoding: Encoding, features: Floats, scores: Floats, hyper: Hyper) -> None:
        self._encoding = encoding
        self._features = features
        self.hyper = hyper
        self.weights = encoding.weights(np.exp(hyper.log_weights))
        self._likeness = self._correlation(features, features)
        # Inverted, not factored: the noise keeps the matrix far from singular, and the gradient needs all the inverse.
        self._inverse = np.linalg.inv(self._likeness + self._noise(len(features)))
        self._take(scores)

    def _take(self, scores: Floats) -> None:
        self._alpha = self._inverse @ scores
        self._variance = max(float(scores @ self._alpha) / max(len(scores), 1), 1e-12)

    def improved_hyper(self) -> Hyper:
        """One normalised gradient step up log evidence plus log prior, normal around ``Hyper.prior``."""
        prior = Hyper.prior(len(self.hyper.log_weights))
        excess = np.outer(self._alpha, self._alpha) / self._variance - self._inverse
        pull = excess * self._likeness
        own = np.einsum("if,if->f", self._features, pull @ self._features)
        by_feature = (2 * self._features.T @ pull.sum(axis=1) - 2 * own) * self.weights
        gradient = -0.5 * np.bincount(self._encoding.gene_of, by_feature, minlength=len(prior.log_weights))
        gradient -= (self.hyper.log_weights - prior.log_weights) / _PRIOR_SD**2
        noise = 0.5 * np.trace(excess) * np.exp(self.hyper.log_noise)
        noise -= (self.hyper.log_noise - _NOISE_PRIOR[0]) / _NOISE_PRIOR[1] ** 2
        scale = _RATE / max(1.0, float(np.abs(gradient).max(initial=0.0)), abs(float(noise)))
        low, high = np.log(1e-3), np.log(5.0)
        return Hyper(
            np.clip(self.hyper.log_weights + scale * gradient, low, high),
            float(np.clip(self.hyper.log_noise + scale * noise, np.log(1e-4), np.log(2.0))),
        )

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the noise-free score: (m, F) → (m,), (m,)."""
        return self.foretold(self.located(features), features[:0])

    def located(self, features: Floats) -> Located:
        """What predictions at ``features`` (m, F) need, as long as the process has the same points."""
        cross = self._correlation(features, self._features)
        solved = cross @ self._inverse
        return Located(features, cross, solved, 1 - np.einsum("ij,ij->i", solved, cross))

    def foretold(self, points: Located, believed: Floats) -> tuple[Floats, Floats]:
        """``predict`` at located points, (m,), (m,), after ``believing`` (k, F): only the variance is less."""
        more = self.located(believed)
        corner = self._corner(self._correlation(believed, believed), more.solved @ more.cross.T)
        shared = self._correlation(points.features, believed) - points.solved @ more.cross.T
        told = np.einsum("ij,ij->i", shared @ corner, shared)
        variance = np.maximum(points.variance - told, 1e-10)
        return points.cross @ self._alpha, np.sqrt(variance * self._variance)

    def told(self, scores: Floats) -> GaussianProcess:
        """The process with other scores (n,) of its points."""
        informed = copy.copy(self)
        informed._take(scores)
        return informed

    def believing(self, features: Floats) -> GaussianProcess:
        """The process with its own predictions taken for more points (k, F): kriging believer; no mean changes.

        Ginsbourger, Le Riche & Carraro, "Kriging is well-suited to parallelize optimization" (2010), section 3.2.
        """
        count = len(features)
        if count == 0:
            return self
        cross = self._correlation(self._features, features)
        likeness = self._correlation(features, features)
        side = self._inverse @ cross
        corner = self._corner(likeness, cross.T @ side)
        shift = side @ corner
        believer = copy.copy(self)
        believer._features = np.vstack([self._features, features])
        believer._alpha = np.append(self._alpha, np.zeros(count))
        believer._likeness = np.block([[self._likeness, cross], [cross.T, likeness]])
        believer._inverse = np.block([[self._inverse + shift @ side.T, -shift], [-shift.T, corner]])
        return believer

    def _corner(self, likeness: Floats, known: Floats) -> Floats:
        """The inverse covariance of scores at more points, given those told, (k, k); these tell ``known`` of it."""
        return np.asarray(np.linalg.inv(likeness + self._noise(len(likeness)) - known))

    def _correlation(self, left: Floats, right: Floats) -> Floats:
        return np.asarray(np.exp(-distances(left, right, self.weights)))

    def _noise(self, count: int) -> Floats:
        return np.asarray((np.exp(self.hyper.log_noise) + 1e-8) * np.eye(count))


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """How far each point is expected to go below ``best``: (m,), (m,) → (m,)."""
    z = (best - mean) / deviation
    below = 0.5 * np.array([math.erfc(-value / math.sqrt(2)) for value in z.tolist()])
    return np.asarray((best - mean) * below + deviation * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))


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
            new = self._history.scored_since(self._known)
            self._known = self._history.told
            self._scores = np.vstack([self._scores, self._history.scores[new]])
            self._process = self._process.believing(self._history.features[new])
            standard = self._standard_scores()
            self._informed = self._process.told(standard), float(np.min(standard))
        return self._informed

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
