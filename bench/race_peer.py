"""What other people's optimisers have in common as engines of a race.

A gene is a parameter of indices into its values, with off as one more. The first population is drawn from the space by
its own probabilities, after the seeds. A point that comes again costs nothing: it is answered from memory. What
``where=`` refuses, and what fails, is answered with the worst that was told.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import OFF, Gene, Point

REPEATS = 20


class Peer:
    """Asks an optimiser for points, one at a time, until one is new."""

    def __init__(self, brief: Brief) -> None:
        self.space = brief.space
        self._known: dict[Point, tuple[float, ...]] = {}
        self._open: dict[Point, Any] = {}
        self._worst = (0.0,) * brief.n_objectives
        self._rng = np.random.default_rng([brief.seed, 1])

    def propose(self) -> tuple[Any, Point]:
        """The optimiser's own handle of what it wants to know, and the canonical point."""
        raise NotImplementedError

    def answer(self, handle: Any, scores: tuple[float, ...]) -> None:
        raise NotImplementedError

    def ask(self, n: int) -> list[Candidate]:
        for _ in range(REPEATS):
            handle, point = self.propose()
            if point in self._known:
                self.answer(handle, self._known[point])
            elif not self.space.allows(point):
                self.answer(handle, self._worst)
            else:
                self._open[point] = handle
                return [Candidate(self.space.knobs(point))]
        return [Candidate(self.space.knobs(self.space.sample(self._rng)))]

    def tell(self, results: Sequence[Told]) -> None:
        for told in results:
            point = self.space.point(told.candidate.knobs)
            scores = told.scores or self._worst
            self._worst = tuple(map(max, self._worst, scores))
            self._known[point] = scores
            if point in self._open:
                self.answer(self._open.pop(point), scores)

    def point_of(self, indices: Iterable[Any]) -> Point:
        """The canonical point of one index for each gene."""
        return self.space.canonical([int(index) for index in indices])


def indices(gene: Gene) -> range:
    """What a gene may be, off first."""
    return range(OFF if gene.knockout_prob > 0 or gene.kind == "switch" else 0, len(gene.values))


def flat(genes: Sequence[Gene], point: Point) -> Point:
    """The point for who knows no conditions: a gene that is always on in its group has a value when that is off too."""
    return tuple(max(index, indices(gene)[0]) for gene, index in zip(genes, point, strict=True))


def is_category(gene: Gene) -> bool:
    """Whether the gene's values have no order."""
    return gene.kind in ("choice", "switch")
