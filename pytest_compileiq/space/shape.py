"""The tree of genes: its points, their number, draws from them, and the region that ``where=`` leaves.

A point may be decided in part: ``UNDECIDED`` genes are free. A gene is decided after the groups that it is in.

A box is a partly decided point, of which every completion is allowed. Deciding one gene after the other that the
predicates read splits the space into boxes and refusals; where that takes too many steps, random descents of the same
tree estimate its size without bias (Knuth, "Estimating the efficiency of backtrack programs", Mathematics of
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

from pytest_compileiq.space.constraints import Judge, Ruling
from pytest_compileiq.space.parameters import OFF, UNDECIDED, Gene, Point

if TYPE_CHECKING:  # numpy is not needed to declare a space, only to sample one
    import numpy as np

_MOST_STEPS = 100_000
DESCENTS = 2000
_SEED = 0


class Shape:
    """The points of ``genes``, switches before their members. ``free`` is the point with nothing decided."""

    def __init__(self, genes: Sequence[Gene]) -> None:
        self.genes = genes
        self.free: Point = (UNDECIDED,) * len(genes)

    @cached_property
    def members(self) -> dict[int, list[int]]:
        """Group → the genes right inside."""
        groups = [number for number, gene in enumerate(self.genes) if gene.kind == "switch"]
        return {group: [child for child, gene in enumerate(self.genes) if gene.parent == group] for group in groups}

    @cached_property
    def _tops(self) -> list[int]:
        return [number for number, gene in enumerate(self.genes) if gene.parent is None]

    @cached_property
    def _states(self) -> list[int]:
        return [len(self.options(number)) for number in range(len(self.genes))]

    def options(self, number: int) -> range:
        """The indices that a gene may have where its group is on, off first."""
        gene = self.genes[number]
        return range(OFF if gene.knockout_prob > 0 else 0, len(gene.values))

    def size(self, decided: Sequence[int]) -> int:
        """The exact number of distinct knob sets that agree with ``decided``."""
        return math.prod(self.size_of(number, decided) for number in self._tops)

    def size_of(self, number: int, decided: Sequence[int]) -> int:
        """How many distinct states a gene has with all that is inside it, where its own group is on."""
        if self.genes[number].kind != "switch":
            return self._states[number] if decided[number] == UNDECIDED else 1
        if decided[number] == OFF:
            return 1
        members = self.members[number]
        # A group with nothing on inside is the group that is off.
        inside = math.prod(self.size_of(member, decided) for member in members)
        on = inside - all(self._may_be_off(member, decided) for member in members)
        return on + 1 if decided[number] == UNDECIDED else on

    def _may_be_off(self, number: int, decided: Sequence[int]) -> bool:
        return decided[number] == OFF or (decided[number] == UNDECIDED and self.genes[number].knockout_prob > 0)

    def probability(self, decided: Sequence[int]) -> float:
        """How likely a draw by the genes' own probabilities agrees with ``decided``, groups with nothing on aside."""
        return math.prod(
            gene.knockout_prob if index == OFF else (1 - gene.knockout_prob) / len(gene.values)
            for gene, index in zip(self.genes, decided, strict=True)
            if index != UNDECIDED
        )

    def canonical(self, point: Sequence[int]) -> Point:
        """The point with everything inactive off, and with every group off that has nothing on inside."""
        result: list[int] = []
        for gene, index in zip(self.genes, point, strict=True):
            active = gene.parent is None or result[gene.parent] != OFF
            result.append(int(index) if active else OFF)
        for group, members in reversed(self.members.items()):
            if all(result[member] == OFF for member in members):
                result[group] = OFF
        return tuple(result)

    def draw(self, rng: np.random.Generator, decided: Sequence[int], density: float | None = None) -> Point:
        """A random point that agrees with ``decided``; ``density`` as in ``Space.sample``."""
        result = list(decided)
        for number, gene in enumerate(self.genes):
            if result[number] == UNDECIDED:
                on = 1 - gene.knockout_prob if density is None or gene.knockout_prob == 0 else density
                result[number] = int(rng.integers(len(gene.values))) if rng.random() < on else OFF
        return self.canonical(result)

    def points(self, decided: Sequence[int]) -> Iterator[Point]:
        """Every canonical point that agrees with ``decided``: the last gene varies fastest, off before any value."""
        point: list[int] = []
        while True:
            while len(point) < len(self.genes):
                point.append(self._choices(point, decided)[0])
            if self.canonical(point) == (candidate := tuple(point)):
                yield candidate
            while point:
                following = point.pop() + 1
                if following in self._choices(point, decided):
                    point.append(following)
                    break
            else:
                return

    def _choices(self, point: Sequence[int], decided: Sequence[int]) -> range:
        """What the gene after ``point`` may be."""
        number = len(point)
        parent = self.genes[number].parent
        if parent is not None and point[parent] == OFF:
            return range(OFF, OFF + 1)
        if decided[number] != UNDECIDED:
            return range(decided[number], decided[number] + 1)
        return self.options(number)


@dataclass(frozen=True)
class Region:
    """The allowed part of ``shape``."""

    shape: Shape
    boxes: tuple[Point, ...]  # disjoint; all of the region where it is ``exact``, else those that descents came upon
    size: int  # the number of points, or an estimate of it
    exact: bool

    @classmethod
    def of(cls, shape: Shape, judge: Judge, *, steps: int = _MOST_STEPS, descents: int = DESCENTS) -> Region:
        """The region that ``judge`` allows, enumerated in at most ``steps`` rulings, else by ``descents``."""
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
        """A point by the genes' own probabilities, if the region is exact; else one of the boxes found."""
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
        ruling = judge(decided)
        steps -= 1
        if ruling.allowed and shape.size(decided):  # a group that is on with nothing inside is no point
            boxes.append(decided)
        elif (number := ruling.undecided) is not None:
            options = shape.options(number)
            if len(options) + len(stack) > steps:
                return None
            stack += [(*decided[:number], index, *decided[number + 1 :]) for index in reversed(options)]
    return boxes


@dataclass(frozen=True)
class _Descent:
    """One random way down the tree of decisions."""

    box: Point  # the decisions at its end
    size: int  # the number of allowed points there
    paths: int  # one over its probability: the number of ways if all were alike

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
    def _at(cls, shape: Shape, point: Sequence[int], ruling: Ruling, paths: int) -> _Descent:
        return cls(tuple(point), shape.size(point) if ruling.allowed else 0, paths)
