"""How often each option of each gene occurs among the best, and how much more often than among the rest.

Bergstra et al., "Algorithms for hyper-parameter optimization" (NIPS 2011), section 4: candidates are drawn from the
density of the good points, and judged by its ratio to that of the others, each gene on its own.
"""

from __future__ import annotations

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats, Points

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

    def sample(self, rng: np.random.Generator, size: int) -> Points:
        """Draws from the density of the good points, shape (size, genes); not yet canonical. Off is drawn as −1."""
        copied = self._good[rng.integers(len(self._good), size=(size, self._counts.size)), np.arange(self._counts.size)]
        uniform = (rng.random(copied.shape) * self._counts).astype(np.int64) - 1
        return np.where(rng.random(copied.shape) < _GOOD_PRIOR / (_GOOD_PRIOR + len(self._good)), uniform, copied)

    def log_ratio(self, points: Points) -> Floats:
        """Log density of good over rest: (m, genes) → (m,)."""
        return self._log_density(points, self._good, _GOOD_PRIOR) - self._log_density(points, self._rest, _REST_PRIOR)

    def _log_density(self, points: Points, told: Points, prior: float) -> Floats:
        agreeing = (points[:, None, :] == told[None, :, :]).sum(axis=1)
        return np.asarray(np.log((agreeing + prior / self._counts) / (len(told) + prior)).sum(axis=1))
