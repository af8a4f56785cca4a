"""The evaluated points of a search: their history, order and feasibility, the options of the best, and what is new.

Marginals: Bergstra et al., "Algorithms for hyper-parameter optimization" (NIPS 2011), section 4: candidates are drawn
from the density of the good points, and judged by its ratio to that of the others, each gene on its own.

Sameness: two points have the same machine code when no gene that differs between them changes it: with probability
∏ (1 − rate) over those genes, a noisy-or (Pearl, Probabilistic Reasoning in Intelligent Systems, 1988, section 4.3.2).
The rates are fitted to pairs of points by expectation maximisation (Dempster, Laird & Rubin, J. R. Stat. Soc. B 39,
1977): where the code changed, every gene that differs takes its share of the blame.
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


_PAIRED = 100  # points whose pairs are learned from
_STEPS = 30
_CHANGED, _UNCHANGED = 0.5, 2.0  # pairs in which a gene is believed to have changed the code, and not, beforehand
_BEFOREHAND = 0.05  # points of one code that the rates are worth against what these points show
_LEAST_NOVEL = 1e-6
_TELLING = 0.02  # that a less probable pair differs says nothing about its many genes
_SUREST = 0.5  # else a gene that is found to change the code would lose its own evidence: the pairs it is sure to tell


@dataclass(frozen=True)
class Known:
    """Points whose code is known, as novelty is judged by them; single precision is enough, and half the work."""

    agreeing: Floats  # what each option of each gene adds to the agreement with each point, shape (n, options)
    total: Floats  # the agreement of each point with itself, shape (n,)

    def and_new(self, others: Known) -> Known:
        """These points and ``others``, of which each has a code of its own."""
        return Known(np.vstack([self.agreeing, others.agreeing]), np.append(self.total, others.total))


class Sameness:
    """Which genes decide the machine code.

    Attributes:
        rates: how likely it is that another option of a gene changes the machine code, shape (genes,).
    """

    def __init__(self, counts: Points) -> None:
        self._counts = counts
        self._first = np.cumsum(counts) - counts
        self._gene_of = np.repeat(np.arange(len(counts)), counts)
        self._option = np.arange(counts.sum()) - self._first[self._gene_of] - 1
        self.rates: Floats = np.full(len(counts), _CHANGED / (_CHANGED + _UNCHANGED))

    def learn(self, points: Points, codes: Points) -> None:
        """Fit the rates to the first of ``points`` (n, genes) and ``codes`` (n,), going on from the last fit."""
        points, codes = points[:_PAIRED], codes[:_PAIRED]
        left, right = np.triu_indices(len(points), 1)
        differs = (points[:, None] != points)[left, right].astype(np.float32)
        changed = codes[left] != codes[right]
        doubted = np.minimum(self.rates, _SUREST)
        telling = ~changed | (_same(differs, doubted) > _TELLING)
        trials = differs[telling].sum(axis=0) + _CHANGED + _UNCHANGED
        causes = differs[changed & telling]
        for _ in range(_STEPS):
            blame = self.rates * ((1 / np.maximum(1 - _same(causes, self.rates), 1e-6)) @ causes)
            self.rates = np.clip((blame + _CHANGED) / trials, 1e-3, 0.99)

    def known(self, told: Points, codes: Points) -> Known:
        """What ``told`` (n, genes) with their ``codes`` (n,) make of the novelty of others."""
        one_hot = self._one_hot(told)
        weights = -np.log1p(-self._rates_within(one_hot, codes))
        return Known(one_hot * np.repeat(weights, self._counts, axis=1), weights.sum(axis=1, dtype=np.float32))

    def novelty(self, asked: Points, known: Known) -> Floats:
        """Probability above 0 that the code is not the likeliest of those known: (m, genes) → (m,)."""
        if len(known.total) == 0:
            return np.ones(len(asked))
        differing = known.total - self._one_hot(asked) @ known.agreeing.T
        return np.asarray(np.maximum(-np.expm1(-differing.min(axis=1).astype(np.float64)), _LEAST_NOVEL))

    def _rates_within(self, one_hot: Floats, codes: Points) -> Floats:
        """The rates around each told point, (n, genes): less for each point of its code that departs in the gene.

        What a gene does depends on the others: one that changes most code may be without effect beside some option. The
        points that have one code show which genes have no effect on it.
        """
        distinct, code = np.unique(codes, return_inverse=True)
        members = np.zeros((len(distinct), len(code)), dtype=np.float32)
        members[code, np.arange(len(code))] = 1.0
        counts = members @ one_hot
        usual = np.maximum.reduceat(counts, self._first, axis=1)
        departing = members.sum(axis=1)[:, None] - usual
        return np.asarray(self.rates.astype(np.float32) * (_BEFOREHAND / (_BEFOREHAND + departing))[code])

    def _one_hot(self, points: Points) -> Floats:
        return np.asarray(points[:, self._gene_of] == self._option, dtype=np.float32)


def _same(differs: Floats, rates: Floats) -> Floats:
    """How likely pairs have equal code, by the genes in which they differ: (pairs, genes), (genes,) → (pairs,)."""
    return np.asarray(np.exp(differs @ np.log1p(-rates).astype(differs.dtype)))
