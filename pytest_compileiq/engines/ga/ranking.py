"""The order of scored points: by score, or by NSGA-II's fronts and crowding (Deb et al., IEEE TEC 6, 2002, III)."""

from __future__ import annotations

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats, Points


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
