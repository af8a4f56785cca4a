"""Points of a space as arrays, shape (n, genes), with −1 where a knob is off: drawn at random, and made canonical."""

from __future__ import annotations

import numpy as np

from pytest_compileiq.engines.ga.encoding import Points
from pytest_compileiq.space import OFF, Space


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
        """Those of ``points`` that ``where=`` allows."""
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
