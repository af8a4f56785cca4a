"""The evaluated points of a search: their history, order and feasibility, and the options of the best.

Marginals: Bergstra et al., "Algorithms for hyper-parameter optimization" (NIPS 2011), section 4: candidates are drawn
from the density of the good points, and judged by its ratio to that of the others, each gene on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.engines.ga.points import Encoding, Floats, Points


def best_first(scores: Floats) -> Points:
    """Indices of ``scores`` (n, objectives), lower is better, best first."""
    if scores.shape[1] == 1:
        return np.argsort(scores[:, 0], kind="stable")
    order: list[int] = []
    for front in fronts(scores):
        crowding = _crowding(scores[front])
        order += [int(front[index]) for index in np.argsort(-crowding, kind="stable")]
    return np.array(order, dtype=np.int64)


def fronts(scores: Floats) -> list[Points]:
    """Non-dominated fronts, the Pareto front first."""
    no_worse = (scores[:, None, :] <= scores[None, :, :]).all(axis=2)
    better = (scores[:, None, :] < scores[None, :, :]).any(axis=2)
    dominates = np.asarray(no_worse & better)
    left = np.arange(len(scores))
    result = []
    while left.size:
        free = left[~dominates[np.ix_(left, left)].any(axis=0)]
        result.append(free)
        left = np.setdiff1d(left, free)
    return result


def _crowding(scores: Floats) -> Floats:
    """Crowding distance of each point of one front, shape (n, objectives) → (n,)."""
    distance = np.zeros(len(scores))
    for column in scores.T:
        order = np.argsort(column, kind="stable")
        spread = column[order[-1]] - column[order[0]]
        distance[order[[0, -1]]] = np.inf
        if spread > 0:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / spread
    return distance


_RIDGE = 2.0
_FLOOR = 0.02


@dataclass(frozen=True)
class Feasibility:
    """A linear estimate of failure: ``mean`` where the features are ``centre`` (F,), changing by ``slope`` (F,)."""

    mean: float
    centre: Floats
    slope: Floats

    @classmethod
    def of(cls, features: Floats, failed: Floats) -> Feasibility:
        """Fitted on all points told, shape (n, F); ``failed`` is 1.0 where they failed, shape (n,)."""
        mean, centre = float(failed.mean()), features.mean(axis=0)
        if not failed.any():
            return cls(0.0, centre, np.zeros(len(centre)))
        centred = features - centre
        dual = np.linalg.solve(centred @ centred.T + _RIDGE * np.eye(len(failed)), failed - mean)
        return cls(mean, centre, centred.T @ dual)

    def success(self, features: Floats) -> Floats:
        """Probability that each point gives a score, from 0.02 to 1: (m, F) → (m,)."""
        return np.asarray(np.clip(1 - self.mean - (features - self.centre) @ self.slope, _FLOOR, 1.0))


_GOOD_SHARE = 0.1
# Points spread evenly over a gene's options, added to those counted: few good points must not rule an option out.
_GOOD_PRIOR, _REST_PRIOR = 3.0, 1.0


class Marginals:
    """The densities of the good points and of the rest.

    Args:
        points: shape (n, genes), best first.
        counts: options of each gene, off (−1) included, shape (genes,).
    """

    def __init__(self, points: Points, counts: Points) -> None:
        good = max(2, int(np.ceil(_GOOD_SHARE * len(points))))
        self._counts = counts
        self._good = points[:good]
        self._rest = points[good:]
        self._first = np.cumsum(counts) - counts  # of each gene's options, in a row of all of them

    def sample(self, rng: np.random.Generator, size: int) -> Points:
        """Draws from the density of the good points, shape (size, genes); not yet canonical. Off is drawn as −1."""
        copied = self._good[rng.integers(len(self._good), size=(size, self._counts.size)), np.arange(self._counts.size)]
        uniform = (rng.random(copied.shape) * self._counts).astype(np.int64) - 1
        return np.where(rng.random(copied.shape) < _GOOD_PRIOR / (_GOOD_PRIOR + len(self._good)), uniform, copied)

    def log_ratio(self, points: Points) -> Floats:
        """Log density of good over rest: (m, genes) → (m,)."""
        options = self._options(points)
        good, rest = self._log_shares
        return np.asarray(good[options].sum(axis=1) - rest[options].sum(axis=1))

    @cached_property
    def _log_shares(self) -> tuple[Floats, Floats]:
        """The logarithm of each option's share among the good points and among the rest, shape (options,) each."""
        return self._log_share(self._good, _GOOD_PRIOR), self._log_share(self._rest, _REST_PRIOR)

    def _log_share(self, told: Points, prior: float) -> Floats:
        agreeing = np.bincount(self._options(told).ravel(), minlength=int(self._counts.sum()))
        return np.asarray(np.log((agreeing + np.repeat(prior / self._counts, self._counts)) / (len(told) + prior)))

    def _options(self, points: Points) -> Points:
        """Where each point's options are in a row of all genes' options, shape (m, genes)."""
        return points + 1 + self._first


KEPT = 400


class History:
    """Points in the order told, with their features and scores: all of them at first, later the best and the newest.

    Attributes:
        points: shape (n, genes).
        features: of the points, shape (n, F).
        scores: shape (n, objectives), NaN where a candidate failed.
        codes: the machine code of each point: equal numbers are equal code, shape (n,).
        told: how many points have been told in all, forgotten ones included.
    """

    def __init__(self, encoding: Encoding, objectives: int) -> None:
        self._encoding = encoding
        self.points: Points = np.empty((0, len(encoding.space.genes)), dtype=np.int64)
        self.features = encoding.features(self.points)
        self.scores: Floats = np.empty((0, objectives))
        self.codes = np.empty(0, dtype=np.int64)
        self.told = 0
        self._numbers: dict[str, int] = {}
        self._best_and_newest: Points | None = None

    def add(self, points: Points, scores: Floats, codes: Sequence[str]) -> None:
        """Add ``points`` (k, genes), k > 0, with their ``scores`` (k, objectives) and the names of their code (k)."""
        numbers = [self._numbers.setdefault(code, told) if code else told for told, code in enumerate(codes, self.told)]
        self.points = np.vstack([self.points, points])
        features = np.ascontiguousarray(self._encoding.features(points))  # products round by layout
        self.features = np.vstack([self.features, features])
        self.scores = np.vstack([self.scores, scores])
        self.codes = np.append(self.codes, numbers)
        self.told += len(points)
        self._best_and_newest = None
        if len(self.points) > 2 * KEPT:
            self._forget()

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Which candidates failed, shape (n,)."""
        return np.asarray(np.isnan(self.scores[:, 0]))

    def scored_since(self, told: int) -> Points:
        """Indices of the scored points that came after the first ``told``, as far as they are kept."""
        count = len(self.points)
        newest = np.arange(max(count - (self.told - told), 0), count)
        return newest[~self.failed[newest]]

    def best_and_newest(self) -> Points:
        """Indices of the best half and the newest half of at most 400 scored points, best first."""
        if self._best_and_newest is None:
            self._best_and_newest = self._chosen()
        return self._best_and_newest

    def _chosen(self) -> Points:
        scored = np.flatnonzero(~self.failed)
        order = scored[best_first(self.scores[scored])]
        if len(order) <= KEPT:
            return order
        newest = np.argsort(-order, kind="stable")
        chosen = dict.fromkeys([*range(KEPT // 2), *newest.tolist()])
        return order[sorted(list(chosen)[:KEPT])]

    def _forget(self) -> None:
        count = len(self.points)
        kept = np.union1d(self._chosen(), np.arange(count - KEPT, count))
        self.points, self.features = self.points[kept], self.features[kept]
        self.scores, self.codes = self.scores[kept], self.codes[kept]
