"""The multivariate density ratio of good points against the rest.

Bergstra et al., "Algorithms for hyper-parameter optimization" (NIPS 2011), section 4; product kernels over all genes of
one observation, as in Falkner, Klein & Hutter, "BOHB" (ICML 2018), section 3.2.
"""

from __future__ import annotations

import numpy as np

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
        self._points = points
        self._good = max(2, round(GOOD_SHARE * len(points)))
        self._counts = counts

    def log_ratio(self, points: Points) -> Floats:
        """Log density of good over rest: (m, genes) → (m,)."""
        logs = self._log_kernels(points)
        return _log_mean(logs[:, : self._good]) - _log_mean(logs[:, self._good :])

    def sample(self, rng: np.random.Generator, count: int) -> Points:
        """Draws from the good mixture, shape (count, genes); not yet canonical. Off is drawn as −1."""
        good = self._points[: self._good]
        centres = good[rng.integers(len(good), size=count)]
        uniform = (rng.random(centres.shape) * self._counts).astype(np.int64) - 1
        return np.where(rng.random(centres.shape) < _KEEP, centres, uniform)

    def _log_kernels(self, points: Points) -> Floats:
        """Log density of each point around each centre, but for a constant: (m, genes) → (m, n)."""
        gain = np.log(_KEEP + (1 - _KEEP) / self._counts) - np.log((1 - _KEEP) / np.maximum(self._counts, 2))
        # One-hot over the options that centres have, so that the weight of the genes that agree is one matrix product.
        first = np.cumsum(self._counts) - self._counts
        met = np.unique(self._points + 1 + first)
        gene = np.searchsorted(first, met, side="right") - 1
        option = met - first[gene] - 1
        centres = (self._points[:, gene] == option).astype(np.float64)
        return np.asarray(((points[:, gene] == option) * gain[gene]) @ centres.T)


def _log_mean(logs: Floats) -> Floats:
    """Log of the mean of the exponentials of each row; 0 where there is none."""
    if logs.shape[1] == 0:
        return np.zeros(len(logs))
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.exp(logs - top[:, None]).mean(axis=1)))
