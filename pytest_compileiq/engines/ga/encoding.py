"""Points → binary features: a weighted Hamming distance costs one matrix product.

A category is one-hot (two features differ, so each weighs a half); an ordinal is a thermometer of at most 16
thresholds, so that near values are near; every gene that can be off has an on/off feature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.space import Space

Floats = NDArray[np.float64]
Points = NDArray[np.int64]
_MAX_THRESHOLDS = 16


@dataclass(frozen=True)
class Encoding:
    """The features of a space.

    Attributes:
        gene_of: which gene each feature belongs to, shape (F,).
        share: the feature's share of its gene's weight, shape (F,).
    """

    space: Space
    gene_of: NDArray[np.int64]
    share: Floats
    _exact: NDArray[np.bool_]
    _value: NDArray[np.int64]

    @classmethod
    def of(cls, space: Space) -> Encoding:
        """The encoding of ``space``."""
        columns: list[tuple[int, bool, int, float]] = []  # gene, whether its value has to be equal, value, share
        for number, gene in enumerate(space.genes):
            count = len(gene.values)
            if gene.knockout_prob > 0 or gene.parent is not None:
                columns.append((number, False, 0, 1.0))
            if gene.kind in ("choice", "switch"):
                columns += [(number, True, value, 0.5) for value in range(count) if count > 1]
            else:
                cuts = _cuts(count)
                columns += [(number, False, cut, 1.0 / len(cuts)) for cut in cuts]
        gene_of, exact, value, share = np.array(columns, dtype=np.float64).reshape(-1, 4).T
        return cls(space, gene_of.astype(np.int64), share, exact.astype(np.bool_), value.astype(np.int64))

    def features(self, points: Points) -> Floats:
        """Shape (n, genes) → (n, F) of zeros and ones."""
        index = points[:, self.gene_of]
        return np.where(self._exact, index == self._value, index >= self._value).astype(np.float64)

    def weights(self, by_gene: Floats) -> Floats:
        """Gene weights (genes,) → feature weights (F,)."""
        return by_gene[self.gene_of] * self.share


def _cuts(count: int) -> list[int]:
    """Thresholds between ``count`` ordered values."""
    if count < 2:
        return []
    return [int(cut) for cut in np.unique(np.linspace(1, count - 1, min(_MAX_THRESHOLDS, count - 1)).astype(int))]


def distances(left: Floats, right: Floats, weights: Floats) -> Floats:
    """Weighted Hamming distances of binary features: (n, F), (m, F), (F,) → (n, m)."""
    return np.maximum((left @ weights)[:, None] + right @ weights - 2 * (left * weights) @ right.T, 0)
