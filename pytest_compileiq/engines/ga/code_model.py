"""How machine code scores, from what is known of it without running it: a Gaussian process on code and knobs.

Modelling statistics of the compiled code in place of parameters: Zhao et al., "CITROEN" (IPDPS 2025), section 4. The
kernel is a sum, as in Duvenaud, Nickisch & Rasmussen, "Additive Gaussian processes" (NIPS 2011): a squared exponential
over the features of code, which say most, and an exponential of the Hamming distance over the knobs, which tell apart
what the features do not. One scale for all features was as good as one for each (decision 20).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats
from pytest_compileiq.engines.ga.process import expected_improvement

_PRECISIONS = (0.125, 0.25, 0.5, 1.0, 2.0)  # of the mean squared distance over the features, which are standardised
_KNOB_SHARES = (0.0, 0.25, 0.5)
_NOISES = np.array([1e-3, 1e-2, 5e-2, 2e-1])  # shares of the signal's variance
_NOISE_PRIOR = (np.log(0.02), 2.0)
_KNOB_WEIGHT = 4.0  # points that differ in every knob are independent, as in ``process.Hyper.prior``
_FURTHEST = 30.0  # standard deviations: a feature that hardly varied so far must not decide by itself
_HYPER_POINTS = 100


@dataclass(frozen=True)
class Described:
    """Candidates as this model sees them.

    Attributes:
        code: standardised features of machine code, shape (n, C).
        knobs: features of the points times the root of their share of a gene, shape (n, F).
    """

    code: Floats
    knobs: Floats

    def at(self, places: slice) -> Described:
        """Those at ``places``."""
        return Described(self.code[places], self.knobs[places])


@dataclass(frozen=True)
class Expected:
    """What the process expects of m candidates: mean (m,), covariance (m, m) and the variance of the noise."""

    mean: Floats
    covariance: Floats
    noise: float

    def best_batch(self, best: float, count: int) -> list[int]:
        """Up to ``count`` places by expected improvement on ``best``, as if each before came out as expected.

        Kriging believer: Ginsbourger, Le Riche & Carraro (2010), section 3.2.
        """
        covariance, free, chosen = self.covariance, np.ones(len(self.mean), dtype=np.bool_), list[int]()
        while len(chosen) < count and free.any():
            deviation = np.sqrt(np.maximum(covariance.diagonal(), 1e-12))
            place = int(np.argmax(np.where(free, expected_improvement(self.mean, deviation, best), -1.0)))
            free[place] = False
            chosen.append(place)
            row = covariance[place]
            covariance = covariance - np.outer(row, row) / (row[place] + self.noise)
        return chosen


@dataclass
class CodeModel:
    """The process, whose scale and share of the knobs climb the evidence by a step with each fit."""

    precision: int = 3
    knob_share: int = 1

    def expected(self, told: Described, scores: Floats, asked: Described) -> Expected:
        """Fit to standardised scores (n,), newest last, and say what is to be expected of others."""
        noise = self._climb(told.at(slice(-_HYPER_POINTS, None)), scores[-_HYPER_POINTS:])
        setting = self.precision, self.knob_share
        inverse = np.linalg.inv(_correlation(told, told, setting) + noise * np.eye(len(scores)))
        cross = _correlation(asked, told, setting)
        variance = float(scores @ inverse @ scores) / len(scores)
        covariance = _correlation(asked, asked, setting) - cross @ inverse @ cross.T
        return Expected(cross @ (inverse @ scores), covariance * variance, noise * variance)

    def _climb(self, told: Described, scores: Floats) -> float:
        """Go to the neighbouring setting of most evidence; returns its share of noise."""
        _, noise, setting = max((*_evidence(told, scores, setting), setting) for setting in self._around())
        self.precision, self.knob_share = setting
        return noise

    def _around(self) -> Iterator[tuple[int, int]]:
        yield self.precision, self.knob_share
        for precision in (self.precision - 1, self.precision + 1):
            if 0 <= precision < len(_PRECISIONS):
                yield precision, self.knob_share
        for share in (self.knob_share - 1, self.knob_share + 1):
            if 0 <= share < len(_KNOB_SHARES):
                yield self.precision, share


def standardised(rows: Sequence[Mapping[str, float]], told: int) -> Floats:
    """Features by name as an array (n, C), in standard deviations of the first ``told``; what never varied is out."""
    names = dict.fromkeys(name for row in rows[:told] for name in row)
    values = np.array([[row.get(name, 0.0) for name in names] for row in rows]).reshape(len(rows), len(names))
    middle, spread = values[:told].mean(axis=0), values[:told].std(axis=0)
    varied = spread > 1e-6
    return np.asarray(np.clip((values[:, varied] - middle[varied]) / spread[varied], -_FURTHEST, _FURTHEST))


def squashed(scores: Floats) -> Floats:
    """Scores (n,), of which those above the median come nearer to it by a logarithm, standardised."""
    middle = np.median(scores)
    scale = max(float(middle - scores.min()), 1e-9)
    near = np.where(scores > middle, middle + scale * np.log1p(np.maximum(scores - middle, 0) / scale), scores)
    return np.asarray((near - near.mean()) / max(float(near.std()), 1e-9))


def _evidence(told: Described, scores: Floats, setting: tuple[int, int]) -> tuple[float, float]:
    """Log evidence plus log prior at the best share of noise, and that share (Rasmussen & Williams, eq. 5.8)."""
    values, vectors = np.linalg.eigh(_correlation(told, told, setting))
    spectrum = np.maximum(values, 0) + _NOISES[:, None]
    variance = ((vectors.T @ scores) ** 2 / spectrum).mean(axis=1)
    prior = ((np.log(_NOISES) - _NOISE_PRIOR[0]) / _NOISE_PRIOR[1]) ** 2
    evidence = -0.5 * (len(scores) * np.log(variance) + np.log(spectrum).sum(axis=1) + prior)
    best = int(np.argmax(evidence))
    return float(evidence[best]), float(_NOISES[best])


def _correlation(left: Described, right: Described, setting: tuple[int, int]) -> Floats:
    precision, share = _PRECISIONS[setting[0]], _KNOB_SHARES[setting[1]]
    code = np.exp(-precision * _mean_squares(left.code, right.code))
    return np.asarray((1 - share) * code + share * np.exp(-_KNOB_WEIGHT * _mean_squares(left.knobs, right.knobs)))


def _mean_squares(left: Floats, right: Floats) -> Floats:
    """Squared distances over the number of columns: (n, C), (m, C) → (n, m)."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.asarray(np.maximum(squares, 0) / max(left.shape[1], 1))
