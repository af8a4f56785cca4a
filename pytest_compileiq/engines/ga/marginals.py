"""The marginals of the best: univariate marginal distribution (Mühlenbein & Paaß, PPSN 1996)."""

from __future__ import annotations

import numpy as np

from pytest_compileiq.engines.ga.encoding import Points

BEST_SHARE = 0.15
_SMOOTHING = 0.5


def sample_marginals(points: Points, counts: Points, rng: np.random.Generator, size: int) -> Points:
    """Each gene drawn from the smoothed frequencies of the best.

    Args:
        points: shape (n, genes), best first.
        counts: options of each gene, off (−1) included, shape (genes,).

    Returns:
        Shape (size, genes), not yet canonical.
    """
    best = points[: max(4, round(BEST_SHARE * len(points)))]
    uniform_share = _SMOOTHING / (_SMOOTHING + np.sqrt(len(best)))
    copied = best[rng.integers(len(best), size=(size, best.shape[1])), np.arange(best.shape[1])]
    uniform = (rng.random(copied.shape) * counts).astype(np.int64) - 1
    return np.where(rng.random(copied.shape) < uniform_share, uniform, copied)
