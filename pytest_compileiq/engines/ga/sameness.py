"""How likely a candidate's machine code is new: a noisy-or over its genes, learned from which points were duplicates.

Two points have the same machine code when no gene that differs between them changes it: with probability ∏ (1 − rate)
over those genes (Pearl, Probabilistic Reasoning in Intelligent Systems, 1988, section 4.3.2). The rates are fitted to
pairs of points by expectation maximisation (Dempster, Laird & Rubin, J. R. Stat. Soc. B 39, 1977): where the code
changed, every gene that differs takes its share of the blame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_compileiq.engines.ga.points import Floats, Points

_PAIRED = 100  # points whose pairs are learned from
_STEPS = 30
_CHANGED, _UNCHANGED = 0.5, 2.0  # pairs in which a gene is believed to have changed the code, and not, beforehand
_BEFOREHAND = 0.05  # points of one code that the rates are worth against what these points show
_FLOOR = 1e-6
_TELLING = 0.02  # that a less probable pair differs says nothing about its many genes
_SUREST = 0.5  # else a gene that is found to change the code would lose its own evidence: the pairs it is sure to tell


@dataclass(frozen=True)
class Known:
    """Points whose code is known, as novelty is judged by them; single precision is enough, and half the work."""

    agreeing: Floats  # what each option of each gene adds to the agreement with each point, shape (n, options)
    total: Floats  # the agreement of each point with itself, shape (n,)

    def and_new(self, others: Known) -> Known:
        """These points and ``others``, of which each has a code of its own."""
        return Known(np.vstack([self.agreeing, others.agreeing]), np.append(self.total, others.total))


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
        doubted = np.minimum(self.rates, _SUREST)
        telling = ~changed | (_same(differs, doubted) > _TELLING)
        trials = differs[telling].sum(axis=0) + _CHANGED + _UNCHANGED
        causes = differs[changed & telling]
        for _ in range(_STEPS):
            blame = self.rates * ((1 / np.maximum(1 - _same(causes, self.rates), 1e-6)) @ causes)
            self.rates = np.clip((blame + _CHANGED) / trials, 1e-3, 0.99)

    def known(self, told: Points, codes: Points) -> Known:
        """What ``told`` (n, genes) with their ``codes`` (n,) make of the novelty of others."""
        one_hot = self._one_hot(told)
        weights = -np.log1p(-self._rates_within(one_hot, codes))
        return Known(one_hot * np.repeat(weights, self._counts, axis=1), weights.sum(axis=1, dtype=np.float32))

    def novelty(self, asked: Points, known: Known) -> Floats:
        """Probability above 0 that the code is not the likeliest of those known: (m, genes) → (m,)."""
        if len(known.total) == 0:
            return np.ones(len(asked))
        differing = known.total - self._one_hot(asked) @ known.agreeing.T
        return np.asarray(np.maximum(-np.expm1(-differing.min(axis=1).astype(np.float64)), _FLOOR))

    def _rates_within(self, one_hot: Floats, codes: Points) -> Floats:
        """The rates around each told point, (n, genes): less for each point of its code that departs in the gene.

        What a gene does depends on the others: one that changes most code may be without effect beside some option. The
        points that have one code show which genes have no effect on it.
        """
        distinct, code = np.unique(codes, return_inverse=True)
        members = np.zeros((len(distinct), len(code)), dtype=np.float32)
        members[code, np.arange(len(code))] = 1.0
        counts = members @ one_hot
        usual = np.maximum.reduceat(counts, self._first, axis=1)
        departing = members.sum(axis=1)[:, None] - usual
        return np.asarray(self.rates.astype(np.float32) * (_BEFOREHAND / (_BEFOREHAND + departing))[code])

    def _one_hot(self, points: Points) -> Floats:
        return np.asarray(points[:, self._gene_of] == self._option, dtype=np.float32)


def _same(differs: Floats, rates: Floats) -> Floats:
    """How likely pairs have equal code, by the genes in which they differ: (pairs, genes), (genes,) → (pairs,)."""
    return np.asarray(np.exp(differs @ np.log1p(-rates).astype(differs.dtype)))
