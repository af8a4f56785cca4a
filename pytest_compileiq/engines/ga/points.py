"""Points of a space as arrays: encoded, crossed and mutated.

Points are encoded as binary features: a weighted Hamming distance costs one matrix product.

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
    """The features of a space."""

    space: Space
    gene_of: NDArray[np.int64]  # which gene each feature belongs to, shape (F,)
    share: Floats  # the feature's share of its gene's weight, shape (F,)
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
    if count < 2:
        return []
    return [int(cut) for cut in np.unique(np.linspace(1, count - 1, min(_MAX_THRESHOLDS, count - 1)).astype(int))]


def distances(left: Floats, right: Floats, weights: Floats) -> Floats:
    """Weighted Hamming distances of binary features: (n, F), (m, F), (F,) → (n, m)."""
    return np.maximum((left @ weights)[:, None] + right @ weights - 2 * (left * weights) @ right.T, 0)


class PointSpace:
    """A space, for many points at a time.

    Attributes:
        counts: options of each gene, off included even where a gene may not be off, shape (genes,).
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.counts = np.array([len(gene.values) + 1 for gene in space.genes], dtype=np.int64)
        self._on_prob = np.array([1 - gene.knockout_prob for gene in space.genes])
        self._parents = [(child, gene.parent) for child, gene in enumerate(space.genes) if gene.parent is not None]
        self._members = {
            number: [child for child, parent in self._parents if parent == number]
            for number, gene in enumerate(space.genes)
            if gene.kind == "switch"
        }

    def draw(self, rng: np.random.Generator, size: int) -> Points:
        """Points by the space's own probabilities."""
        if self._space.where is not None:
            return np.array([self._space.sample(rng) for _ in range(size)], dtype=np.int64)
        on = rng.random((size, self.counts.size)) < self._on_prob
        return np.where(on, self._any_value(rng, size), OFF)

    def canonical(self, points: Points, rng: np.random.Generator) -> Points:
        """Distinct points of the space, one for each set of knobs.

        A gene that may not be off gets a random value; what is inactive is off, and so is a group with nothing on. What
        ``where=`` refuses is left out.
        """
        result = np.where((points == OFF) & (self._on_prob == 1), self._any_value(rng, len(points)), points)
        for child, parent in self._parents:
            result[result[:, parent] == OFF, child] = OFF
        for switch, members in reversed(self._members.items()):
            result[(result[:, members] == OFF).all(axis=1), switch] = OFF
        return self._allowed(distinct(result))

    def _allowed(self, points: Points) -> Points:
        if self._space.where is None:
            return points
        return points[np.fromiter(map(self._space.allows, points.tolist()), dtype=np.bool_, count=len(points))]

    def _any_value(self, rng: np.random.Generator, size: int) -> Points:
        return (rng.random((size, self.counts.size)) * (self.counts - 1)).astype(np.int64)


def distinct(points: Points) -> Points:
    """The distinct rows of ``points`` in the order of their first occurrence, told apart by a 64-bit hash."""
    multipliers = np.random.default_rng(0).integers(1, 2**62, size=points.shape[1], dtype=np.int64)
    _, first = np.unique((points * multipliers).sum(axis=1), return_index=True)
    return points[np.sort(first)]


def crossover(elite: Points, rng: np.random.Generator, size: int) -> Points:
    """Uniform crossover of random pairs (Syswerda, ICGA 1989)."""
    mothers, fathers = elite[rng.integers(len(elite), size=size)], elite[rng.integers(len(elite), size=size)]
    return np.where(rng.random(mothers.shape) < 0.5, mothers, fathers)


def mutate(points: Points, counts: Points, rng: np.random.Generator, relevance: Floats | None = None) -> Points:
    """Change a geometric number of genes (at least one), chosen by ``relevance`` (genes,) or uniformly.

    Numeric genes may step to a neighbour; the geometric number is that of Doerr et al., "Fast genetic algorithms"
    (GECCO 2017), in its light-tailed form.
    """
    size, genes = points.shape
    chances = np.full(genes, 1 / genes) if relevance is None else relevance / relevance.sum()
    # The genes with the shortest exponential waiting times are a draw by their chances, without replacement.
    waiting = rng.exponential(size=(size, genes)) / chances
    place = waiting.argsort(axis=1).argsort(axis=1)
    changed = place < rng.geometric(0.4, size=(size, 1))
    return np.where(changed, _others(points, counts, rng), points)


def neighbours(points: Points, counts: Points, rng: np.random.Generator, size: int) -> Points:
    """``size`` points for each of ``points`` that differ from it in one gene each."""
    repeated = np.repeat(points, size, axis=0)
    changed = rng.integers(points.shape[1], size=(len(repeated), 1)) == np.arange(points.shape[1])
    return np.where(changed, _others(repeated, counts, rng), repeated)


def _others(values: Points, counts: Points, rng: np.random.Generator) -> Points:
    """A different option of −1 … count − 2 everywhere; half of the time a step of one, which suits numeric genes."""
    drawn = (rng.random(values.shape) * (counts - 1)).astype(np.int64) - 1
    drawn += drawn >= values
    steps = np.clip(values + np.where(rng.random(values.shape) < 0.5, -1, 1), -1, counts - 2)
    stepping = (counts > 3) & (rng.random(values.shape) < 0.5)
    return np.where(counts < 2, values, np.where(stepping, steps, drawn))
