"""The space of a search: genes, what bounds them, and the points that engines work on.

A space maps a knob's name to a parameter. A nested dict is a conditional group: its key is only the group's name, the
group is switched on or off as a whole, and its members exist only when it is on.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import KnobValue
from pytest_compileiq.space.constraints import Judge, Where, no_knob
from pytest_compileiq.space.opaque import OpaqueSpace
from pytest_compileiq.space.parameters import GROUP_PROBABILITY, OFF, Gene, Parameter, Point
from pytest_compileiq.space.shape import DESCENTS, Region, Shape

if TYPE_CHECKING:  # numpy is not needed to declare a space, only to sample one
    import numpy as np

_NOTHING_LEFT = "where= leaves nothing of the space"
_NOTHING_SEEN = f"{_NOTHING_LEFT} that {2 * DESCENTS:,} random draws could find"
_DRAWS = 100
_STEPS_OF_A_CHECK, _DESCENTS_OF_A_CHECK = 1000, 100  # some milliseconds, in every run of a test


@dataclass(frozen=True)
class Space:
    """Genes, switches before their members. A point is one index a gene, ``OFF`` where knocked out or inactive."""

    genes: tuple[Gene, ...]
    opaque: OpaqueSpace | None = None  # drawn beside the genes: points, size and membership leave it out
    presets: tuple[Mapping[str, KnobValue], ...] = field(default=(), hash=False)  # worth trying first, as by hand
    where: Where | None = field(default=None, hash=False)  # the condition on every point
    compiler: str = field(default="", hash=False)  # of the options, for engines with experience of it
    # Options that are off → their values in the command that they are added to, where it sets them.
    behind: Mapping[str, KnobValue] = field(default_factory=dict, hash=False)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Space:
        """The space of a (nested) dict.

        Raises:
            MarkerError: a name or a value that is not one of a space.
        """
        if not isinstance(mapping, Mapping) or not mapping:
            raise MarkerError(f"space={mapping!r}: expected a dict of knobs, e.g. {{'-O': choice([2, 3])}}")
        genes: list[Gene] = []
        _add_genes(genes, mapping, None)
        return cls._checked(genes)

    @classmethod
    def merge(cls, *spaces: Space) -> Space:
        """All genes, presets and conditions of ``spaces``, and the opaque space that one of them may hold.

        Raises:
            MarkerError: a name stands in two of them, or two are opaque.
        """
        opaque = [space.opaque for space in spaces if space.opaque is not None]
        if len(opaque) > 1:
            raise MarkerError(f"space: {opaque[0]} and {opaque[1]}: a candidate holds one controls file; give one")
        genes: list[Gene] = []
        for space in spaces:
            shift = len(genes)
            genes += [
                replace(gene, parent=None if gene.parent is None else gene.parent + shift) for gene in space.genes
            ]
        presets = itertools.chain.from_iterable(space.presets for space in spaces)
        bounds = [space.where for space in spaces if space.where is not None]
        where = reduce(Where.joined, bounds) if bounds else None
        compiler = next((space.compiler for space in spaces if space.compiler), "")
        merged = cls._checked(genes, opaque[0] if opaque else None)
        behind = {name: value for space in spaces for name, value in space.behind.items()}
        return replace(merged, presets=tuple(presets), where=where, compiler=compiler, behind=behind)

    def bounded(self, where: Where) -> Space:
        """This space, with ``where`` besides what bounds it already.

        A small space is judged to its last point, a large one on some draws.

        Raises:
            MarkerError: nothing is left, a predicate reads a knob that does not exist or may be off, fails, or gives
                anything but a bool.
        """
        space = replace(self, where=where if self.where is None else self.where.joined(where))
        region = Region.of(space._shape, space._judge, steps=_STEPS_OF_A_CHECK, descents=_DESCENTS_OF_A_CHECK)
        if region.exact and not region.boxes:
            raise MarkerError(_NOTHING_LEFT)
        return space

    @classmethod
    def _checked(cls, genes: Sequence[Gene], opaque: OpaqueSpace | None = None) -> Space:
        names = [gene.name for gene in genes]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise MarkerError(f"space: the name {twice[0]!r} stands twice")
        return cls(tuple(genes), opaque)

    @property
    def knob_genes(self) -> tuple[Gene, ...]:
        """The genes that are knobs: the others are groups, whose keys are names alone."""
        return tuple(gene for gene in self.genes if gene.kind != "switch")

    @cached_property
    def _shape(self) -> Shape:
        return Shape(self.genes)

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.genes, self.where or Where(()))

    @cached_property
    def _region(self) -> Region:
        region = Region.of(self._shape, self._judge)
        if not region.boxes:
            raise MarkerError(_NOTHING_LEFT if region.exact else _NOTHING_SEEN)
        return region

    @cached_property
    def size(self) -> int:
        """The exact number of distinct knob sets; where too many of them decide ``where``, what there were without."""
        everything = self._shape.size(self._shape.free)
        return self._region.size if self.where is not None and self._region.exact else everything

    @property
    def size_text(self) -> str:
        """The number of points for a message: ``1,152 points of 4,096 (where=)``; an estimate has two digits."""
        everything = _count_text(self._shape.size(self._shape.free))
        if self.where is None:
            return everything
        left, size = "very few", self._region.size
        if self._region.exact:
            left = _count_text(size)
        elif size:
            left = f"about {_count_text(round(size, 1 - int(math.log10(size))))}"
        return f"{left} points of {everything} (where=)"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the space in canonical JSON."""
        text: list[list[object]] = []
        for gene in self.genes:
            values = str(gene.values) if isinstance(gene.values, range) else list(gene.values)
            text.append([gene.name, gene.kind, values, gene.knockout_prob, gene.parent])
        if self.opaque is not None:
            text.append([str(self.opaque)])
        if self.where is not None:
            defaults = sorted((name, type(value).__name__, value) for name, value in self.where.defaults.items())
            text.append(["where", *(predicate.identity for predicate in self.where.predicates), *map(list, defaults)])
        return hashlib.sha256(json.dumps(text, separators=(",", ":")).encode()).hexdigest()

    def canonical(self, point: Sequence[int]) -> Point:
        """The point with everything inactive off, and with every group off that has nothing on inside."""
        return self._shape.canonical(point)

    def allows(self, point: Sequence[int]) -> bool:
        """Whether ``where`` holds at a point.

        Raises:
            MarkerError: a predicate fails.
        """
        return self.where is None or self._judge(point).allowed

    def knobs(self, point: Sequence[int]) -> dict[str, KnobValue]:
        """The knobs that are on, in the space's order."""
        pairs = zip(self.genes, self.canonical(point), strict=True)
        return {gene.name: gene.values[index] for gene, index in pairs if index != OFF and gene.kind != "switch"}

    def point(self, knobs: Mapping[str, KnobValue]) -> Point:
        """The point of ``knobs``.

        Raises:
            MarkerError: they do not lie in the space.
        """
        judge = self._judge
        if unknown := sorted(set(knobs) - set(judge.numbers)):
            raise MarkerError(no_knob(unknown[0], judge.numbers))
        result = [OFF] * len(self.genes)
        for name, value in knobs.items():
            *groups, number = judge.lineages[judge.numbers[name]]
            result[number] = _index(self.genes[number], value)
            for group in groups:
                result[group] = 0
        for gene, index in zip(self.genes, result, strict=True):
            active = gene.parent is None or result[gene.parent] != OFF
            if active and index == OFF and gene.knockout_prob == 0:
                raise MarkerError(f"the knob {gene.name!r} is always on in the space, and is absent")
        if (refused_by := judge(result).refused_by) is not None:
            raise MarkerError(f"where= refuses it: {refused_by.text}")
        return tuple(result)

    def why_not(self, knobs: Mapping[str, KnobValue]) -> str | None:
        """Why ``knobs`` lie outside the space, or None when they lie in it."""
        try:
            self.point(knobs)
        except MarkerError as error:
            return str(error)
        return None

    def sample(self, rng: np.random.Generator, density: float | None = None) -> Point:
        """A random point; ``density`` replaces every knockable knob's own probability of being on.

        Where few draws satisfy ``where``, other densities are tried, and in the end what is known to satisfy it.
        """
        if self.where is None:
            return self._shape.draw(rng, self._shape.free, density)
        if density is None and self._region.exact:
            return self._region.draw(rng)
        for tried in range(_DRAWS):
            point = self._shape.draw(rng, self._shape.free, density if 2 * tried < _DRAWS else rng.random())
            if self.allows(point):
                return point
        return self._region.draw(rng)

    def points(self) -> Iterator[Point]:
        """Every distinct canonical point: the last knob varies fastest, off before any value.

        Knobs that ``where`` reads vary before the others.
        """
        if self.where is not None and self._region.exact:
            return self._region.points()
        return filter(self.allows, self._shape.points(self._shape.free))


def _add_genes(genes: list[Gene], mapping: Mapping[str, Any], parent: int | None) -> None:
    for name, given in mapping.items():
        if not isinstance(name, str) or not name or any(character.isspace() for character in name):
            raise MarkerError(f"space: {name!r}: expected a knob's name without spaces")
        if isinstance(given, Parameter):
            genes.append(Gene(name, given.kind, given.values, given.knockout_prob, parent))
        elif isinstance(given, Mapping) and given:
            genes.append(Gene(name, "switch", (True,), GROUP_PROBABILITY, parent))
            _add_genes(genes, given, len(genes) - 1)
        else:
            raise MarkerError(
                f"space: {name!r}: {given!r}: expected range, choice, literal, log_sampling or a dict of them"
            )


def _index(gene: Gene, value: KnobValue) -> int:
    for index, known in enumerate(gene.values) if not isinstance(gene.values, range) else ():
        if type(known) is type(value) and known == value:
            return index
    if isinstance(gene.values, range) and type(value) is int and value in gene.values:
        return gene.values.index(value)
    raise MarkerError(f"the knob {gene.name!r} has no value {value!r}")


def _count_text(points: int) -> str:
    if points < 10**12:
        return f"{points:,}"
    return f"{points:.1e}" if points < 10**300 else "more than 1e+300"
