"""Engines that learn nothing: random points, a grid, and the controls of a pack."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Point

_TRIES = 1000
MOST_POINTS = 10_000  # when the budget is a time: how many points it allows is not known beforehand


class _Unlearning:
    """An engine without options that ignores results."""

    name: str

    def __init__(self, brief: Brief) -> None:
        if brief.options:
            raise MarkerError(f"engine {self.name!r} takes no engine_options; got {', '.join(brief.options)}")
        self._space = brief.space

    def tell(self, results: Sequence[Told]) -> None:
        """Ignore the results."""


class RandomSearch(_Unlearning):
    """Distinct samples of the space, seeds first; ends when a thousand draws in a row bring nothing new."""

    name = "random"

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief)
        self._rng = np.random.default_rng(brief.seed)
        self._seeds = iter(brief.seed_points())
        self._asked: set[Point] = set()

    def ask(self, n: int) -> list[Candidate]:
        points = [point for point in (self._next() for _ in range(n)) if point is not None]
        return [Candidate(self._space.knobs(point), origin=self.name) for point in points]

    def _next(self) -> Point | None:
        tries = _TRIES if len(self._asked) < self._space.size else 0
        draws = (self._space.sample(self._rng) for _ in range(tries))
        point = next((point for point in itertools.chain(self._seeds, draws) if point not in self._asked), None)
        if point is not None:
            self._asked.add(point)
        return point


class Grid(_Unlearning):
    """The seeds, then the rest of the space in its own order: the last knob varies fastest, off before any value.

    Raises:
        MarkerError: the space has more points than the budget has evaluations, or the engine was given options.
    """

    name = "grid"

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief)
        space, budget = brief.space, brief.budget
        if space.size > (MOST_POINTS if budget is None else budget):
            narrow = f": expected at most {MOST_POINTS:,} where the budget is a time; narrow space="
            if budget is not None:
                narrow = f", more than the budget of {budget:,} evaluations: narrow space=, raise --tune-budget"
            raise MarkerError(
                f"engine 'grid' tries every point, and the space has {space.size_text}{narrow}, or use --tune-engine=ga"
            )
        seeds = dict.fromkeys(brief.seed_points())
        self._points = itertools.chain(seeds, (point for point in space.points() if point not in seeds))

    def ask(self, n: int) -> list[Candidate]:
        points = itertools.islice(self._points, n)
        return [Candidate(self._space.knobs(point), origin=self.name) for point in points]


class Pack(_Unlearning):
    """Every seed once, in order.

    Raises:
        MarkerError: there is no seed, or the engine was given options.
    """

    name = "pack"

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief)
        if not brief.seeds:
            raise MarkerError(
                "engine 'pack' evaluates given controls: name them with --tune-from=DIRECTORY or --tune-from=PACK.zip"
            )
        self._seeds = iter(brief.seeds)

    def ask(self, n: int) -> list[Candidate]:
        return list(itertools.islice(self._seeds, n))
