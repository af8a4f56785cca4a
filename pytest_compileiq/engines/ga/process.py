"""A Gaussian process over weighted Hamming distances, and expected improvement on it.

Rasmussen & Williams, Gaussian Processes for Machine Learning (2006): prediction eq. 2.25 and 2.26, evidence eq. 5.8 and
its gradient 5.9. Expected improvement: Jones, Schonlau & Welch, J. Global Optimization 13 (1998), eq. 15.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np

from pytest_compileiq.engines.ga.encoding import Encoding, Floats, distances

_RATE = 0.4
_PRIOR_SD = 1.2
_NOISE_PRIOR = (np.log(0.05), 1.0)


@dataclass(frozen=True)
class Hyper:
    """Log weights of the genes (genes,) and the log of the noise's share of the variance."""

    log_weights: Floats
    log_noise: float

    @classmethod
    def prior(cls, genes: int, relevance: Floats | float = 1.0) -> Hyper:
        """A weight of two over all genes: points that differ everywhere are correlated by an eighth.

        Args:
            relevance: how much more than that each gene is expected to matter, shape (genes,).
        """
        return cls(np.log(np.full(genes, 2.0 / max(genes, 1)) * relevance), float(_NOISE_PRIOR[0]))


class GaussianProcess:
    """A Gaussian process on features (n, F) and standardised scores (n,).

    Attributes:
        weights: of the features in the kernel, shape (F,).
    """

    def __init__(self, encoding: Encoding, features: Floats, scores: Floats, hyper: Hyper) -> None:
        self._encoding = encoding
        self._features = features
        self.hyper = hyper
        self.weights = encoding.weights(np.exp(hyper.log_weights))
        self._signal = self._correlation(features, features)
        # Inverted, not factored: the noise keeps the matrix far from singular, and the gradient needs all the inverse.
        self._inverse = np.linalg.inv(self._signal + self._noise(len(features)))
        self._take(scores)

    def _take(self, scores: Floats) -> None:
        self._alpha = self._inverse @ scores
        self._variance = max(float(scores @ self._alpha) / max(len(scores), 1), 1e-12)

    def improved_hyper(self, prior: Hyper | None = None) -> Hyper:
        """One normalised gradient step up log evidence plus log prior, normal around ``prior`` or ``Hyper.prior``."""
        prior = prior or Hyper.prior(len(self.hyper.log_weights))
        excess = np.outer(self._alpha, self._alpha) / self._variance - self._inverse
        pull = excess * self._signal
        by_feature = 2 * self._features.T @ pull.sum(axis=1) - 2 * np.einsum(
            "if,if->f", self._features, pull @ self._features
        )
        gradient = -0.5 * np.bincount(
            self._encoding.gene_of, by_feature * self.weights, minlength=len(self.hyper.log_weights)
        )
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
        cross = self._correlation(features, self._features)
        variance = np.maximum(1 - np.einsum("ij,ij->i", cross @ self._inverse, cross), 1e-10)
        return cross @ self._alpha, np.sqrt(variance * self._variance)

    @property
    def noise(self) -> float:
        """The standard deviation of what a score has besides: the noise of measuring it."""
        return math.sqrt(self._variance * math.exp(self.hyper.log_noise))

    def difference(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """How far the noise-free score of each ``left`` point lies above that of its ``right`` one: (m, F), (m, F).

        Returns:
            Mean and standard deviation of the joint posterior, (m,) each: what both points share cancels out.
        """
        cross = self._correlation(left, self._features) - self._correlation(right, self._features)
        apart = np.abs(left - right) @ self.weights
        variance = 2 * (1 - np.exp(-apart)) - np.einsum("ij,ij->i", cross @ self._inverse, cross)
        return cross @ self._alpha, np.sqrt(np.maximum(variance, 1e-10) * self._variance)

    def told(self, scores: Floats) -> GaussianProcess:
        """The process with other scores (n,) of its points."""
        informed = copy.copy(self)
        informed._take(scores)
        return informed

    def believing(self, features: Floats) -> GaussianProcess:
        """The process with its own predictions taken for more points (k, F): kriging believer.

        They leave every mean as it is, so only the matrices grow, by a block.

        Ginsbourger, Le Riche & Carraro, "Kriging is well-suited to parallelize optimization" (2010), section 3.2.
        """
        count = len(features)
        if count == 0:
            return self
        cross = self._correlation(self._features, features)
        side = self._inverse @ cross
        among = self._correlation(features, features)
        corner = np.linalg.inv(among + self._noise(count) - cross.T @ side)
        shift = side @ corner
        believer = copy.copy(self)
        believer._features = np.vstack([self._features, features])
        believer._alpha = np.append(self._alpha, np.zeros(count))
        believer._signal = np.block([[self._signal, cross], [cross.T, among]])
        believer._inverse = np.block([[self._inverse + shift @ side.T, -shift], [-shift.T, corner]])
        return believer

    def _correlation(self, left: Floats, right: Floats) -> Floats:
        return np.asarray(np.exp(-distances(left, right, self.weights)))

    def _noise(self, count: int) -> Floats:
        return np.asarray((np.exp(self.hyper.log_noise) + 1e-8) * np.eye(count))


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """How far each point is expected to go below ``best``: (m,), (m,) → (m,)."""
    z = (best - mean) / deviation
    below = 0.5 * np.array([math.erfc(-value / math.sqrt(2)) for value in z.tolist()])
    return np.asarray((best - mean) * below + deviation * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))
