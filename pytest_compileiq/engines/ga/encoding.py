"""Points → binary features: a weighted Hamming distance costs one matrix product.

A category is one-hot (two features differ, so each weighs a half); an ordinal is a thermometer of at most 16
thresholds, so that near values are near; every gene that can be off has an on/off feature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.space import OFF, Space

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
    _columns: tuple[tuple[int, str, int], ...]

    @classmethod
    def of(cls, space: Space) -> Encoding:
        """The encoding of ``space``."""
        columns: list[tuple[int, str, int]] = []
        shares: list[float] = []
        for number, gene in enumerate(space.genes):
            count = len(gene.values)
            if gene.knockout_prob > 0 or gene.parent is not None:
                columns.append((number, "on", 0))
                shares.append(1.0)
            if gene.kind in ("choice", "switch"):
                hot = [(number, "is", value) for value in range(count)] if count > 1 else []
                columns += hot
                shares += [0.5] * len(hot)
            else:
                cuts = _cuts(count)
                columns += [(number, "at least", int(cut)) for cut in cuts]
                shares += [1.0 / max(len(cuts), 1)] * len(cuts)
        return cls(space, np.array([column[0] for column in columns]), np.array(shares), tuple(columns))

    def features(self, points: Points) -> Floats:
        """Shape (n, genes) → (n, F) of zeros and ones."""
        result = np.empty((len(points), len(self._columns)))
        for column, (gene, test, value) in enumerate(self._columns):
            index = points[:, gene]
            result[:, column] = index != OFF if test == "on" else index == value if test == "is" else index >= value
        return result

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
