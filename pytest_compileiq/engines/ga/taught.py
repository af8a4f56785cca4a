"""Draws by what other kernels' artifacts taught, for as long as what is measured here bears them out.

A draw lays some of the taught points over one of the space's own sparse ones, each with the chance of its weight, in
random order: knobs that brought something one at a time elsewhere may bring it together here. So a search begins near
what was best on similar problems (Feurer, Springenberg and Hutter, AAAI 2015, section 3), and, unlike there, ends to
believe what did not hold when it was tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats, Points
from pytest_compileiq.lesson import Lesson
from pytest_compileiq.rules.likeness import tried_first
from pytest_compileiq.space import Point, Space

_LAID = 0.6  # the chance of the lesson with the most weight to be in a draw
_NAMED, _UNNAMED = 7.0, 0.6  # relevance of a gene that a lesson has on, and of the others
_LEAST = np.log(1.005)  # the gain below which a lesson brought nothing here: what the gate asks for by default
_OWN = 0.1  # the share of a draw's options that come from the space's own probabilities


class Taught:
    """The lessons of one search: believed until they have been tried here, and then as far as any of them held."""

    def __init__(self, lessons: Sequence[Lesson], space: Space, baseline: Point) -> None:
        weights: dict[Point, float] = {}
        for lesson in lessons:
            point = space.point(lesson.knobs)
            weights[point] = weights.get(point, 0.0) + lesson.weight
        tried = [space.point(knobs) for knobs in tried_first(lessons) if space.why_not(knobs) is None]
        self._watched = {*weights, *tried}
        self._points = np.array(list(weights), dtype=np.int64).reshape(-1, len(space.genes))
        self._weights = np.array(list(weights.values()), dtype=np.float64)
        self._baseline = np.array(baseline, dtype=np.int64)
        self._scores: dict[Point, float] = {}

    def told(self, scores: Mapping[Point, float]) -> None:
        """Take in how points did: a log-ratio to the baseline, lower is better; infinite where they failed."""
        self._scores |= {point: score for point, score in scores.items() if point in self._watched}

    @property
    def holds(self) -> bool:
        """Whether anything is taught, and nothing of it has been tried here yet, or something of it brought a gain."""
        return bool(self._weights.size) and min(self._scores.values(), default=-np.inf) < -_LEAST

    @property
    def relevance(self) -> Floats:
        """How much more than others each gene is expected to matter, shape (genes,); ones where nothing is known."""
        if not self.holds:
            return np.ones(len(self._baseline))
        return np.where((self._points != self._baseline).any(axis=0), _NAMED, _UNNAMED)

    @property
    def _chances(self) -> Floats:
        """The chance of each point to be in a draw: 0 for one that brought nothing here."""
        tried = [self._scores.get(tuple(point), -np.inf) for point in self._points.tolist()]
        return np.asarray(_LAID * self._weights / self._weights.max() * (np.array(tried) < -_LEAST))

    def draw(self, rng: np.random.Generator, own: Points) -> Points:
        """One for each of the space's ``own`` draws (n, genes); not canonical."""
        drawn = np.where(rng.random(own.shape) < _OWN, own, self._baseline)
        chances = self._chances
        for row in drawn:
            for number in rng.permutation(len(chances)):
                if rng.random() < chances[number]:
                    point = self._points[number]
                    row[:] = np.where(point != self._baseline, point, row)
        return drawn
