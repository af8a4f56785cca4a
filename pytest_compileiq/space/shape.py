"""The tree of genes: its points, their number, and draws from them.

A point may be decided in part: ``UNDECIDED`` genes are free. A gene is decided after the groups that it is in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_compileiq.space.parameters import OFF, UNDECIDED, Gene, Point

if TYPE_CHECKING:  # numpy is not needed to declare a space, only to sample one
    import numpy as np


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
