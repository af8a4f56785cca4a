"""How likely a candidate's machine code is new: a noisy-or over its genes, learned from which points were duplicates.

Two points have the same machine code when no gene that differs between them changes it: with probability ∏ (1 − rate)
over those genes (Pearl, Probabilistic Reasoning in Intelligent Systems, 1988, section 4.3.2). The rates are fitted to
pairs of points by expectation maximisation (Dempster, Laird & Rubin, J. R. Stat. Soc. B 39, 1977): where the code
changed, every gene that differs takes its share of the blame.
"""

from __future__ import annotations

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats, Points

_PAIRED = 100  # points whose pairs are learned from
_STEPS = 30
_CHANGED, _UNCHANGED = 0.5, 2.0  # pairs in which a gene is believed to have changed the code, and not, beforehand
_BEFOREHAND = 0.05  # points of one code that the rates are worth against what these points show
_FLOOR = 1e-6
_TELLING = 0.02  # that a less probable pair differs says nothing about its many genes


class Sameness:
    """Which genes decide the machine code.

    Attributes:
        rates: how likely it is that another option of a gene changes the machine code, shape (genes,).
    """

    def __init__(self, counts: Points) -> None:
        self._counts = counts
        self._first = np.cumsum(counts) - counts
        self._gene_of = np.repeat(np.arange(len(counts)), counts)
        self._option = np.arange(counts.sum()) - self._first[self._gene_of] - 1
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

    def novelty(self, asked: Points, told: Points, codes: Points) -> Floats:
        """Probability above 0 that the code is not the likeliest of ``told``: (m, genes), (n, genes), (n,) → (m,)."""
        if len(told) == 0:
            return np.ones(len(asked))
        one_hot = self._one_hot(told)
        weights = -np.log1p(-self._rates_within(one_hot, codes))
        agreeing = self._one_hot(asked) @ (one_hot * np.repeat(weights, self._counts, axis=1)).T
        return np.asarray(np.maximum(-np.expm1((agreeing - weights.sum(axis=1)).max(axis=1)), _FLOOR))

    def _rates_within(self, one_hot: Floats, codes: Points) -> Floats:
        """The rates around each told point, (n, genes): less for each point of its code that departs in the gene.

        What a gene does depends on the others: one that changes most code may be without effect beside some option. The
        points that have one code show which genes have no effect on it.
        """
        _, code = np.unique(codes, return_inverse=True)
        members = np.zeros((code.max() + 1, len(code)))
        members[code, np.arange(len(code))] = 1.0
        counts = members @ one_hot
        usual = np.maximum.reduceat(counts, self._first, axis=1)
        departing = members.sum(axis=1)[:, None] - usual
        return np.asarray(self.rates * (_BEFOREHAND / (_BEFOREHAND + departing))[code])

    def _one_hot(self, points: Points) -> Floats:
        return np.asarray(points[:, self._gene_of] == self._option, dtype=np.float64)
