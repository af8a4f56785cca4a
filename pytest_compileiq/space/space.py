"""Genes, which engines work on, and the space that they make up.

A space maps a knob's name to a parameter. A nested dict is a conditional group: its key is only the group's name, the
group is switched on or off as a whole, and its members exist only when it is on.
"""

from __future__ import annotations

import builtins
import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import KnobValue
from pytest_compileiq.space.opaque import OpaqueSpace
from pytest_compileiq.space.parameters import Kind, Parameter

if TYPE_CHECKING:  # numpy is not needed to declare a space, only to sample one
    import numpy as np

Point = tuple[int, ...]

OFF = -1
GROUP_PROBABILITY = 0.5


@dataclass(frozen=True)
class Gene:
    """One dimension: a knob, or the switch of a group (which no knob shows). ``parent`` is the index of its switch."""

    name: str
    kind: Kind
    values: Sequence[KnobValue]
    knockout_prob: float
    parent: int | None = None


@dataclass(frozen=True)
class Space:
    """Genes, switches before their members. A point is one index a gene, ``OFF`` where knocked out or inactive.

    Attributes:
        opaque: drawn beside the genes, by the one engine that can: points, size and membership leave it out.
        presets: knobs worth trying first, as somebody who knows the compiler would set them by hand.
    """

    genes: tuple[Gene, ...]
    opaque: OpaqueSpace | None = None
    presets: tuple[Mapping[str, KnobValue], ...] = field(default=(), hash=False)

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
        """All genes and presets of ``spaces``, and the opaque space that one of them may hold.

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
                Gene(
                    gene.name,
                    gene.kind,
                    gene.values,
                    gene.knockout_prob,
                    None if gene.parent is None else gene.parent + shift,
                )
                for gene in space.genes
            ]
        presets = itertools.chain.from_iterable(space.presets for space in spaces)
        return replace(cls._checked(genes, opaque[0] if opaque else None), presets=tuple(presets))

    @classmethod
    def _checked(cls, genes: Sequence[Gene], opaque: OpaqueSpace | None = None) -> Space:
        names = [gene.name for gene in genes]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise MarkerError(f"space: the name {twice[0]!r} stands twice")
        return cls(tuple(genes), opaque)

    @cached_property
    def size(self) -> int:
        """The exact number of distinct knob sets."""
        return math.prod(self._size_of(index) for index, gene in enumerate(self.genes) if gene.parent is None)

    def _size_of(self, index: int) -> int:
        gene = self.genes[index]
        if gene.kind == "switch":
            inside = math.prod(map(self._size_of, self._members[index]))
            empty = all(self.genes[member].knockout_prob > 0 for member in self._members[index])
            return inside if empty else 1 + inside  # an empty group is one that is off
        return len(gene.values) + (gene.knockout_prob > 0)

    @cached_property
    def _members(self) -> dict[int, list[int]]:
        """Group → the genes right inside."""
        groups = [number for number, gene in enumerate(self.genes) if gene.kind == "switch"]
        return {group: [child for child, gene in enumerate(self.genes) if gene.parent == group] for group in groups}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the space in canonical JSON."""
        text: list[list[object]] = [
            [gene.name, gene.kind, _values_text(gene.values), gene.knockout_prob, gene.parent] for gene in self.genes
        ]
        if self.opaque is not None:
            text.append([str(self.opaque)])
        return hashlib.sha256(json.dumps(text, separators=(",", ":")).encode()).hexdigest()

    def canonical(self, point: Sequence[int]) -> Point:
        """The point with everything inactive off, and with every group off that has nothing on inside."""
        result: list[int] = []
        for gene, index in zip(self.genes, point, strict=True):
            active = gene.parent is None or result[gene.parent] != OFF
            result.append(int(index) if active else OFF)
        for group, members in reversed(self._members.items()):
            if all(result[member] == OFF for member in members):
                result[group] = OFF
        return tuple(result)

    def knobs(self, point: Sequence[int]) -> dict[str, KnobValue]:
        """What the compiler or the kernel is told: knobs that are on, in the space's order."""
        pairs = zip(self.genes, self.canonical(point), strict=True)
        return {gene.name: gene.values[index] for gene, index in pairs if index != OFF and gene.kind != "switch"}

    def point(self, knobs: Mapping[str, KnobValue]) -> Point:
        """The point of ``knobs``.

        Raises:
            MarkerError: they do not lie in the space.
        """
        by_name = {gene.name: number for number, gene in enumerate(self.genes) if gene.kind != "switch"}
        if unknown := sorted(set(knobs) - set(by_name)):
            raise MarkerError(f"the space has no knob {unknown[0]!r}")
        result = [OFF] * len(self.genes)
        for name, value in knobs.items():
            number = by_name[name]
            result[number] = _index(self.genes[number], value)
            parent = self.genes[number].parent
            while parent is not None:
                result[parent] = 0
                parent = self.genes[parent].parent
        for gene, index in zip(self.genes, result, strict=True):
            active = gene.parent is None or result[gene.parent] != OFF
            if active and index == OFF and gene.knockout_prob == 0:
                raise MarkerError(f"the knob {gene.name!r} is always on in the space, and is absent")
        return tuple(result)

    def why_not(self, knobs: Mapping[str, KnobValue]) -> str | None:
        """Why ``knobs`` lie outside the space, or None when they lie in it."""
        try:
            self.point(knobs)
        except MarkerError as error:
            return str(error)
        return None

    def sample(self, rng: np.random.Generator, density: float | None = None) -> Point:
        """A random point; ``density`` replaces every knockable knob's own probability of being on."""
        result = []
        for gene in self.genes:
            on = 1 - gene.knockout_prob if density is None or gene.knockout_prob == 0 else density
            result.append(int(rng.integers(len(gene.values))) if rng.random() < on else OFF)
        return self.canonical(result)

    def points(self) -> Iterator[Point]:
        """Every distinct canonical point."""
        options = [
            ([OFF] if gene.knockout_prob > 0 else []) + list(builtins.range(len(gene.values))) for gene in self.genes
        ]
        firsts = [indices[0] for indices in options]
        for point in itertools.product(*options):
            canonical = self.canonical(point)
            # Inactive genes are enumerated too: only their first option counts, so that each knob set comes once.
            if all(index in (known, first) for index, known, first in zip(point, canonical, firsts, strict=True)):
                yield canonical


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
    for index, known in enumerate(gene.values) if not isinstance(gene.values, builtins.range) else ():
        if type(known) is type(value) and known == value:
            return index
    if isinstance(gene.values, builtins.range) and type(value) is int and value in gene.values:
        return gene.values.index(value)
    raise MarkerError(f"the knob {gene.name!r} has no value {value!r}")


def _values_text(values: Sequence[KnobValue]) -> object:
    return str(values) if isinstance(values, builtins.range) else list(values)
