"""The multivariate density ratio of good points against the rest.

Bergstra et al., "Algorithms for hyper-parameter optimization" (NIPS 2011), section 4; product kernels over all genes of
one observation, as in Falkner, Klein & Hutter, "BOHB" (ICML 2018), section 3.2.
"""

from __future__ import annotations

import numpy as np
import scipy

from pytest_compileiq.engines.ga.encoding import Floats, Points

GOOD_SHARE = 0.12
_KEEP = 0.8


class Parzen:
    """Two mixtures of kernels, one centred on the good points, one on the rest.

    Args:
        points: shape (n, genes), best first.
        counts: options of each gene, off included, shape (genes,).
    """

    def __init__(self, points: Points, counts: Points) -> None:
        good = max(2, round(GOOD_SHARE * len(points)))
        self._good, self._rest = points[:good], points[good:]
        self._counts = counts

    def log_ratio(self, points: Points) -> Floats:
        """Log density of good over rest: (m, genes) → (m,)."""
        return self._log_density(points, self._good) - self._log_density(points, self._rest)

    def sample(self, rng: np.random.Generator, count: int) -> Points:
        """Draws from the good mixture, shape (count, genes); not yet canonical. Off is drawn as −1."""
        centres = self._good[rng.integers(len(self._good), size=count)]
        uniform = (rng.random(centres.shape) * self._counts).astype(np.int64) - 1
        return np.where(rng.random(centres.shape) < _KEEP, centres, uniform)

    def _log_density(self, points: Points, centres: Points) -> Floats:
        if len(centres) == 0:
            return np.zeros(len(points))
        same = np.log(_KEEP + (1 - _KEEP) / self._counts)
        other = np.log((1 - _KEEP) / np.maximum(self._counts, 2))
        # SciPy's weighted Hamming distance is the share of the weight that differs.
        gain = same - other
        logs = same.sum() - gain.sum() * scipy.spatial.distance.cdist(points, centres, "hamming", w=gain)
        top = logs.max(axis=1)
        result: Floats = top + np.log(np.exp(logs - top[:, None]).mean(axis=1))
        return result
