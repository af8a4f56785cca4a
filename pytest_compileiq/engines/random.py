"""Uniform random search: the honest floor every other engine is measured against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Point

_TRIES = 1000


class RandomSearch:
    """Distinct samples of the space, seeds first; ends when a thousand draws in a row bring nothing new."""

    def __init__(self, brief: Brief) -> None:
        if brief.options:
            raise MarkerError(f"engine 'random' takes no engine_options; got {', '.join(brief.options)}")
        self._space = brief.space
        self._rng = np.random.default_rng(brief.seed)
        self._seeds = brief.seed_points()
        self._asked: set[Point] = set()

    def ask(self, n: int) -> list[Candidate]:
        """Up to ``n`` points not asked before."""
        points = [point for point in (self._next() for _ in range(n)) if point is not None]
        return [Candidate(self._space.knobs(point), origin="random") for point in points]

    def tell(self, results: Sequence[Told]) -> None:
        """Results change nothing here."""

    def _next(self) -> Point | None:
        while self._seeds:
            seed = self._seeds.pop(0)
            if seed not in self._asked:
                self._asked.add(seed)
                return seed
        if len(self._asked) >= self._space.size:
            return None
        for _ in range(_TRIES):
            point = self._space.sample(self._rng)
            if point not in self._asked:
                self._asked.add(point)
                return point
        return None
