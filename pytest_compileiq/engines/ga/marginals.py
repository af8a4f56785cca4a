"""How often each option of each gene occurs among the best, and how much more often than among the rest.

Bergstra et al., "Algorithms for hyper-parameter optimization" (NIPS 2011), section 4: candidates are drawn from the
density of the good points, and judged by its ratio to that of the others, each gene on its own.
"""

from __future__ import annotations

from functools import cached_property

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
