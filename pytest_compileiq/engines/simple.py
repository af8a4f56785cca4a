"""Engines that learn nothing: random points, a grid, and the controls of a pack."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Point, Space

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


MOST_POINTS = 10_000  # when the budget is a time: how many points it allows is not known beforehand


class Grid:
    """The seeds, then the rest of the space in its own order: the last knob varies fastest, off before any value."""

    def __init__(self, brief: Brief) -> None:
        """Take the space.

        Raises:
            MarkerError: it has more points than the budget has evaluations, or the engine was given options.
        """
        if brief.options:
            raise MarkerError(f"engine 'grid' takes no engine_options; got {', '.join(brief.options)}")
        _check_size(brief.space, brief.budget)
        self._space = brief.space
        seeds = dict.fromkeys(brief.seed_points())
        self._points = itertools.chain(seeds, (point for point in brief.space.points() if point not in seeds))

    def ask(self, n: int) -> list[Candidate]:
        points = itertools.islice(self._points, n)
        return [Candidate(self._space.knobs(point), origin="grid") for point in points]

    def tell(self, results: Sequence[Told]) -> None:
        """Results change nothing here."""


def _check_size(space: Space, budget: int | None) -> None:
    if budget is None and space.size > MOST_POINTS:
        raise MarkerError(
            f"engine 'grid' tries every point, and the space has {space.size_text}: expected at most "
            f"{MOST_POINTS:,} where the budget is a time; narrow space=, or use --tune-engine=ga"
        )
    if budget is not None and space.size > budget:
        raise MarkerError(
            f"engine 'grid' tries every point, and the space has {space.size_text}, more than the budget of "
            f"{budget:,} evaluations: narrow space=, raise --tune-budget, or use --tune-engine=ga"
        )


class Pack:
    """Asks for every seed once, in order."""

    def __init__(self, brief: Brief) -> None:
        """Take the seeds.

        Raises:
            MarkerError: there is none, or it was given options.
        """
        if brief.options:
            raise MarkerError(f"engine 'pack' takes no engine_options; got {', '.join(brief.options)}")
        if not brief.seeds:
            raise MarkerError(
                "engine 'pack' evaluates given controls: name them with --tune-from=DIRECTORY or --tune-from=PACK.zip"
            )
        self._left = list(brief.seeds)

    def ask(self, n: int) -> list[Candidate]:
        taken, self._left = self._left[:n], self._left[n:]
        return taken

    def tell(self, results: Sequence[Told]) -> None:
        """Results change nothing here."""
