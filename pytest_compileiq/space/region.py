"""What ``where=`` leaves of a space: how much that is, and draws from it however little it is.

A box is a point decided in part, of which every completion is allowed. Deciding one gene after the other that the
predicates read splits the space into boxes and what is refused; where that takes too many steps, random descents of
the same tree estimate its size without bias (Knuth, "Estimating the efficiency of backtrack programs", Mathematics of
Computation 29, 1975).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

from pytest_compileiq.space.gene import OFF, Point
from pytest_compileiq.space.shape import Shape
from pytest_compileiq.space.where import Judge, Verdict

if TYPE_CHECKING:
    import numpy as np

MOST_STEPS = 100_000
DESCENTS = 2000
_SEED = 0


@dataclass(frozen=True)
class Region:
    """What is left of ``shape``.

    Attributes:
        boxes: disjoint; all of the region where it is ``exact``, else what descents came upon.
        size: the number of points, or an estimate of it.
    """

    shape: Shape
    boxes: tuple[Point, ...]
    size: int
    exact: bool

    @classmethod
    def of(cls, shape: Shape, judge: Judge, *, steps: int = MOST_STEPS, descents: int = DESCENTS) -> Region:
        """The region that ``judge`` allows, enumerated in at most ``steps`` verdicts, else by ``descents``.

        Raises:
            MarkerError: a predicate cannot be judged.
        """
        rng = Random(_SEED)
        uniform = [_Descent.uniform(shape, judge, rng) for _ in range(descents)]
        leaves = sum(descent.paths for descent in uniform) // descents  # Knuth's estimate of the tree's own size
        boxes = _enumerated(shape, judge, steps) if leaves <= steps else None
        if boxes is not None:
            return cls(shape, tuple(boxes), sum(map(shape.size, boxes)), exact=True)
        typical = [_Descent.typical(shape, judge, rng) for _ in range(descents)]
        boxes = [descent.box for descent in [*uniform, *typical] if descent.size]
        size = sum(descent.size * descent.paths for descent in uniform) // descents
        return cls(shape, tuple(dict.fromkeys(boxes)), size, exact=False)

    def draw(self, rng: np.random.Generator) -> Point:
        """A point by the genes' own probabilities, if the region is exact; else one near what descents came upon."""
        place = bisect.bisect_right(self._cumulative, rng.random() * self._cumulative[-1])
        return self.shape.draw(rng, self.boxes[min(place, len(self.boxes) - 1)])

    def points(self) -> Iterator[Point]:
        """Every point of the boxes, box by box."""
        return itertools.chain.from_iterable(map(self.shape.points, self.boxes))

    @cached_property
    def _cumulative(self) -> list[float]:
        least = 1e-300  # a knob whose probability is 0 is still in the space
        return list(itertools.accumulate(max(self.shape.probability(box), least) for box in self.boxes))


def _enumerated(shape: Shape, judge: Judge, steps: int) -> list[Point] | None:
    """All boxes, in the space's order of the genes that are read; None where that takes more than ``steps``."""
    boxes: list[Point] = []
    stack: list[Point] = [shape.free]
    while stack:
        decided = stack.pop()
        verdict = judge(decided)
        steps -= 1
        if verdict.allowed and shape.size(decided):  # a group that is on with nothing inside is no point
            boxes.append(decided)
        elif verdict.undecided is not None:
            options = shape.options(verdict.undecided)
            if len(options) + len(stack) > steps:
                return None
            stack += [_with(decided, verdict.undecided, index) for index in reversed(options)]
    return boxes


@dataclass(frozen=True)
class _Descent:
    """One random way down the tree of decisions.

    Attributes:
        box: what was decided where it ended.
        size: the points that are allowed there.
        paths: how many such ways there are if all were alike: one over the probability of this one.
    """

    box: Point
    size: int
    paths: int

    @classmethod
    def uniform(cls, shape: Shape, judge: Judge, rng: Random) -> _Descent:
        """Every state of a gene, and of a group with all that is inside it, is as likely as the others."""
        paths = [1, 1]

        def decide(number: int) -> None:
            states, options = shape.size_of(number, point), shape.options(number)
            drawn = rng.randrange(states)
            if shape.genes[number].kind == "switch":
                point[number] = options[min(drawn, 1)]
                paths[1] *= states - 1 if drawn else 1
            else:
                point[number] = options[drawn]
            paths[0] *= states

        point = list(shape.free)
        return cls._at(shape, point, judge(point, decide), paths[0] // paths[1])

    @classmethod
    def typical(cls, shape: Shape, judge: Judge, rng: Random) -> _Descent:
        """By the genes' own probabilities, or by one density for all that may be off; its paths are not counted."""

        def decide(number: int) -> None:
            gene = shape.genes[number]
            on = 1 - gene.knockout_prob if density is None or gene.knockout_prob == 0 else density
            point[number] = rng.randrange(len(gene.values)) if rng.random() < on else OFF

        density = rng.choice([None, rng.random()])
        point = list(shape.free)
        return cls._at(shape, point, judge(point, decide), 0)

    @classmethod
    def _at(cls, shape: Shape, point: Sequence[int], verdict: Verdict, paths: int) -> _Descent:
        return cls(tuple(point), shape.size(point) if verdict.allowed else 0, paths)


def _with(decided: Point, number: int, index: int) -> Point:
    return (*decided[:number], index, *decided[number + 1 :])


def count_text(points: int) -> str:
    """A number of points, written out where a person can read it: ``1,152``, ``3.1e+12``."""
    if points < 10**12:
        return f"{points:,}"
    return f"{points:.1e}" if points < 10**300 else "more than 1e+300"


def share_text(size: int, of: int, *, exact: bool) -> str:
    """``1,152 points of 4,096 (where=)``, or with two digits ``about 3.1e+12 points of …`` for an estimate."""
    if exact:
        left = count_text(size)
    else:
        left = f"about {count_text(round(size, 1 - int(math.log10(size))))}" if size else "very few"
    return f"{left} points of {count_text(of)} (where=)"
