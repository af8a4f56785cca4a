"""What a search has been told, as far as it is kept: a candidate costs no more in a long search than in a short one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.engines.ga.encoding import Encoding, Floats, Points
from pytest_compileiq.engines.ga.ranking import best_first

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
        """Take in ``points`` (k, genes) with their ``scores`` (k, objectives) and what their machine code is called."""
        for point, score, code in zip(points, scores, codes, strict=True):
            self._add(point, score, code)
        self._best_and_newest = None
        if len(self.points) > 2 * KEPT:
            self._forget()

    def _add(self, point: Points, score: Floats, code: str) -> None:
        self.codes = np.append(self.codes, self._numbers.setdefault(code, self.told) if code else self.told)
        self.points = np.vstack([self.points, point])
        self.features = np.vstack([self.features, self._encoding.features(point[None])])
        self.scores = np.vstack([self.scores, score])
        self.told += 1

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
