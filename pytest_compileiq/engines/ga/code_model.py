"""How machine code scores, from what is known of it without running it: a Gaussian process on code and knobs.

Modelling statistics of the compiled code in place of parameters: Zhao et al., "CITROEN" (IPDPS 2025), section 4. The
kernel is a sum, as in Duvenaud, Nickisch & Rasmussen, "Additive Gaussian processes" (NIPS 2011): a squared exponential
over the features of code, which say most, and an exponential of the Hamming distance over the knobs, which tell apart
what the features do not. One scale for all features was as good as one for each (decision 20).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats
from pytest_compileiq.engines.ga.process import SLOPE, SLOPE_SD, Trend, expected_improvement

_PRECISIONS = (0.125, 0.25, 0.5, 1.0, 2.0)  # of the mean squared distance over the features, which are standardised
_KNOB_SHARES = (0.0, 0.25, 0.5)
_NOISES = np.array([1e-3, 1e-2, 5e-2, 2e-1])  # shares of the signal's variance
_NOISE_PRIOR = (np.log(0.02), 2.0)
_KNOB_WEIGHT = 4.0  # points that differ in every knob are independent, as in ``process.Hyper.prior``
_LEAST_VARIANCE = 1e-12  # where scores are all equal
_NOTHING = 1e-9  # an improvement below it says nothing: then the lowest mean decides
_FURTHEST = 30.0  # standard deviations: a feature that hardly varied so far must not decide by itself


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
            worth = np.maximum(expected_improvement(self.mean, deviation, best), _NOTHING)
            place = int(np.lexsort((self.mean, -np.where(free, worth, -1.0)))[0])
            free[place] = False
            chosen.append(place)
            row = covariance[place]
            covariance = covariance - np.outer(row, row) / (row[place] + self.noise)
        return chosen


@dataclass(frozen=True)
class _Scale:
    """Features by name → columns, in standard deviations of those it was made of; what did not vary there is left out.

    Attributes:
        names: of the columns.
        middle, spread: of each column, shape (C,).
    """

    names: Sequence[str]
    middle: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, float]]) -> tuple[_Scale, Floats]:
        """The scale of ``rows``, and their columns on it, shape (n, C)."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        values = _values(rows, names)
        spread = values.std(axis=0)
        varied = np.flatnonzero(spread > 1e-6)
        scale = cls([names[column] for column in varied], values.mean(axis=0)[varied], spread[varied])
        return scale, scale.standardised(values[:, varied])

    def columns(self, rows: Sequence[Mapping[str, float]]) -> Floats:
        """Shape (n, C)."""
        return self.standardised(_values(rows, self.names))

    def standardised(self, values: Floats) -> Floats:
        return np.asarray(np.clip((values - self.middle) / self.spread, -_FURTHEST, _FURTHEST))


@dataclass(frozen=True)
class _Described:
    """Candidates as the process sees them: columns of their code, shape (n, C), and of their knobs, shape (n, F).

    Attributes:
        expected: what was expected of them beforehand, in standard deviations, shape (n,).
    """

    code: Floats
    knobs: Floats
    expected: Floats

    def covariance(self, other: _Described, setting: tuple[int, int]) -> Floats:
        precision, share = _PRECISIONS[setting[0]], _KNOB_SHARES[setting[1]]
        code = np.exp(-precision * _mean_squares(self.code, other.code))
        knobs = np.exp(-_KNOB_WEIGHT * _mean_squares(self.knobs, other.knobs))
        slope = SLOPE_SD**2 * np.outer(self.expected, other.expected)
        return np.asarray((1 - share) * code + share * knobs + slope)


@dataclass(frozen=True)
class Fitted:
    """The process, fitted to what was measured."""

    scale: _Scale
    slopes: Floats
    trend: Trend
    told: _Described
    scores: Floats
    setting: tuple[int, int]
    noise: float

    @cached_property
    def _inverse(self) -> Floats:
        signal = self.told.covariance(self.told, self.setting)
        return np.asarray(np.linalg.inv(signal + self.noise * np.eye(len(self.scores))))

    def expected(self, features: Sequence[Mapping[str, float]], knobs: Floats) -> Expected:
        """What it expects of others; the arguments are as those of ``CodeModel.fit``."""
        asked = _Described(self.scale.columns(features), knobs, self.trend.standardised(knobs @ self.slopes))
        cross = asked.covariance(self.told, self.setting)
        departures = self.scores - SLOPE * self.told.expected
        weights = self._inverse @ departures
        variance = max(float(departures @ weights) / len(self.scores), _LEAST_VARIANCE)
        covariance = asked.covariance(asked, self.setting) - cross @ self._inverse @ cross.T
        return Expected(SLOPE * asked.expected + cross @ weights, covariance * variance, self.noise * variance)

    def best_batch(self, features: Sequence[Mapping[str, float]], knobs: Floats, count: int) -> list[int]:
        """Places of up to ``count``, as ``Expected.best_batch``."""
        return self.expected(features, knobs).best_batch(float(self.scores.min()), count)


class CodeModel:
    """What the process has learned: its scale and the share of knobs, which climb the evidence step by step.

    Args:
        slopes: what each column of ``knobs`` is expected to add to a score, in any unit, shape (F,); None: nothing.
    """

    def __init__(self, slopes: Floats | None = None) -> None:
        self._slopes = slopes
        self._setting = (3, 1)
        self._noise = float(_NOISES[1])

    def fit(self, features: Sequence[Mapping[str, float]], knobs: Floats, scores: Floats, *, learn: bool) -> Fitted:
        """Fit the process to what was measured.

        Args:
            features: of the machine code of each, by name.
            knobs: features of their points times the root of each one's share of its gene, shape (n, F).
            scores: standardised, shape (n,).
            learn: take a step up the evidence, which costs some five inversions.
        """
        scale, columns = _Scale.of(features)
        slopes = np.zeros(knobs.shape[1]) if self._slopes is None else self._slopes
        beforehand = knobs @ slopes
        trend = Trend.of(beforehand)
        told = _Described(columns, knobs, trend.standardised(beforehand))
        if learn:
            climbed = ((*_evidence(told, scores, setting), setting) for setting in self._around())
            _, self._noise, self._setting = max(climbed)
        return Fitted(scale, slopes, trend, told, scores, self._setting, self._noise)

    def _around(self) -> Iterator[tuple[int, int]]:
        precision, share = self._setting
        yield precision, share
        yield from ((other, share) for other in (precision - 1, precision + 1) if 0 <= other < len(_PRECISIONS))
        yield from ((precision, other) for other in (share - 1, share + 1) if 0 <= other < len(_KNOB_SHARES))


def squashed(scores: Floats) -> Floats:
    """Scores (n,), of which those above the median come nearer to it by a logarithm, standardised."""
    middle = np.median(scores)
    scale = max(float(middle - scores.min()), 1e-9)
    near = np.where(scores > middle, middle + scale * np.log1p(np.maximum(scores - middle, 0) / scale), scores)
    return np.asarray((near - near.mean()) / max(float(near.std()), 1e-9))


def _values(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> Floats:
    return np.array([[row.get(name, 0.0) for name in names] for row in rows]).reshape(len(rows), len(names))


def _evidence(told: _Described, scores: Floats, setting: tuple[int, int]) -> tuple[float, float]:
    """Log evidence plus log prior at the best share of noise, and that share (Rasmussen & Williams, eq. 5.8)."""
    scores = scores - SLOPE * told.expected
    values, vectors = np.linalg.eigh(told.covariance(told, setting))
    spectrum = np.maximum(values, 0) + _NOISES[:, None]
    variance = np.maximum(((vectors.T @ scores) ** 2 / spectrum).mean(axis=1), _LEAST_VARIANCE)
    prior = ((np.log(_NOISES) - _NOISE_PRIOR[0]) / _NOISE_PRIOR[1]) ** 2
    evidence = -0.5 * (len(scores) * np.log(variance) + np.log(spectrum).sum(axis=1) + prior)
    best = int(np.argmax(evidence))
    return float(evidence[best]), float(_NOISES[best])


def _mean_squares(left: Floats, right: Floats) -> Floats:
    """Squared distances over the number of columns: (n, C), (m, C) → (n, m)."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.asarray(np.maximum(squares, 0) / max(left.shape[1], 1))
