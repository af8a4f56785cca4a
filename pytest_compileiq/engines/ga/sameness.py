"""How likely a candidate's machine code is new: a noisy-or over its genes, learned from which points were duplicates.

Two points have the same machine code when no gene that differs between them changes it: with probability ∏ (1 − rate)
over those genes (Pearl, Probabilistic Reasoning in Intelligent Systems, 1988, section 4.3.2). The rates are fitted to
pairs of points by expectation maximisation (Dempster, Laird & Rubin, J. R. Stat. Soc. B 39, 1977): where the code
changed, every gene that differs takes its share of the blame.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.engines.ga.encoding import Floats, Points

_PAIRED = 100  # points whose pairs are learned from
_STEPS = 30
_CHANGED, _UNCHANGED = 0.5, 2.0  # pairs in which a gene is believed to have changed the code, and not, beforehand
_FLOOR = 1e-6
_TELLING = 0.02  # that a less probable pair differs says nothing about its many genes

OneHot = NDArray[np.float32]  # half as dear to multiply as doubles, and precise enough to tell code that is known


class Sameness:
    """Which genes decide the machine code.

    Attributes:
        rates: how likely it is that another option of a gene changes the machine code, shape (genes,).
    """

    def __init__(self, counts: Points) -> None:
        self._gene_of = np.repeat(np.arange(len(counts)), counts)
        self._option = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) - 1
        self.rates: Floats = np.full(len(counts), _CHANGED / (_CHANGED + _UNCHANGED))

    def learn(self, points: Points, codes: Points) -> None:
        """Fit the rates to the first of ``points`` (n, genes) and ``codes`` (n,), going on from the last fit."""
        points, codes = points[:_PAIRED], codes[:_PAIRED]
        left, right = np.triu_indices(len(points), 1)
        differs = (points[:, None] != points)[left, right].astype(np.float32)
        changed = codes[left] != codes[right]
        telling = ~changed | (self._same(differs) > _TELLING)
        trials = differs[telling].sum(axis=0) + _CHANGED + _UNCHANGED
        causes = differs[changed & telling]
        for _ in range(_STEPS):
            blame = self.rates * ((1 / np.maximum(1 - self._same(causes), 1e-6)) @ causes)
            self.rates = np.clip((blame + _CHANGED) / trials, 1e-3, 0.99)

    def _same(self, differs: Floats) -> Floats:
        """Probability that pairs have equal code, by the genes in which they differ: (pairs, genes) → (pairs,)."""
        return np.asarray(np.exp(differs @ np.log1p(-self.rates).astype(differs.dtype)))

    def novelty(self, asked: Points, told: OneHot) -> Floats:
        """Probability above 0 that the code is not the likeliest of one-hot ``told``: (m, genes), (n, O) → (m,)."""
        if len(told) == 0:
            return np.ones(len(asked))
        weights = -np.log1p(-self.rates).astype(told.dtype)
        agreeing = (self.one_hot(asked) * weights[self._gene_of]) @ told.T
        return np.asarray(np.maximum(-np.expm1(agreeing.max(axis=1) - weights.sum()), _FLOOR))

    def one_hot(self, points: Points) -> OneHot:
        """Shape (n, genes) → (n, O) of zeros and ones, a column for each option of each gene."""
        return np.asarray(points[:, self._gene_of] == self._option, dtype=np.float32)
