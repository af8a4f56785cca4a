"""Search spaces: what a search may vary, in CompileIQ's words, and the genes that engines work on.

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
from typing import TYPE_CHECKING, Any, Literal

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import INTEGERS, LARGEST_NUMBER, LONGEST_TEXT, KnobValue

if TYPE_CHECKING:  # numpy is not needed to declare a space, only to sample one
    import numpy as np

Kind = Literal["choice", "ordinal", "integer", "log", "switch"]
Point = tuple[int, ...]

OFF = -1
GROUP_PROBABILITY = 0.5
SEARCH_SPACES_TAG = "search-spaces-2026.05.22"
SEARCH_SPACES_OF = "13.3"  # the one minor version of NVIDIA's compilers that the release is for
_VARIANTS = {"ptxas": ("default", "att"), "nvcc": ("default",)}  # of the release
_MAX_VALUES = 100_000
_NUMBER = f"a number up to {LARGEST_NUMBER:g}, an integer of 64 bits"


@dataclass(frozen=True)
class Parameter:
    """One knob's values and how they are ordered; ``knockout_prob`` is the probability that the knob is off."""

    kind: Kind
    values: Sequence[KnobValue]
    knockout_prob: float


def range(start: float, end: float, step: float = 1, knockout_prob: float | None = None) -> Parameter:
    """Numbers from ``start`` by ``step`` up to ``end``, included where the steps meet it.

    Raises:
        MarkerError: not numbers, no positive step, or an empty or endless grid.
    """
    for name, number in (("start", start), ("end", end), ("step", step)):
        _number(f"range({name}=", number)
    if step <= 0 or end < start:
        raise MarkerError(f"range({start}, {end}, step={step}): expected start ≤ end and a positive step")
    count = math.floor((end - start) / step + 1e-9) + 1
    if all(isinstance(number, int) for number in (start, end, step)):
        return Parameter("integer", builtins.range(int(start), int(end) + 1, int(step)), _knockout(knockout_prob))
    if count > _MAX_VALUES:
        raise MarkerError(f"range({start}, {end}, step={step}): {count} values; expected at most {_MAX_VALUES}")
    return Parameter(
        "ordinal", tuple(start + index * step for index in builtins.range(count)), _knockout(knockout_prob)
    )


def choice(choice_list: Sequence[KnobValue], knockout_prob: float | None = None) -> Parameter:
    """One of several values.

    Raises:
        MarkerError: not a list, empty, or with a value twice or of another type.
    """
    if isinstance(choice_list, str) or not isinstance(choice_list, Sequence) or not choice_list:
        raise MarkerError(f"choice({choice_list!r}): expected a list of at least one value")
    values = tuple(_value("choice", value) for value in choice_list)
    if len({(type(value), value) for value in values}) < len(values):
        raise MarkerError(f"choice({choice_list!r}): a value stands twice")
    ordered = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return Parameter(
        "ordinal" if ordered and list(values) == sorted(values) else "choice", values, _knockout(knockout_prob)
    )


def literal(const_value: KnobValue, knockout_prob: float | None = None) -> Parameter:
    """One value, on or off.

    Raises:
        MarkerError: not a simple value.
    """
    return Parameter("choice", (_value("literal", const_value),), _knockout(knockout_prob))


def log_sampling(start: float, end: float, total: int = 10, knockout_prob: float | None = None) -> Parameter:
    """``total`` numbers in geometric steps from ``start`` to ``end``; integers when both ends are.

    Raises:
        MarkerError: not positive numbers, or fewer than two of them.
    """
    for name, number in (("start", start), ("end", end)):
        _number(f"log_sampling({name}=", number)
    if isinstance(total, bool) or not isinstance(total, int) or not 2 <= total <= _MAX_VALUES or not 0 < start < end:
        raise MarkerError(
            f"log_sampling({start}, {end}, total={total}): expected 0 < start < end and at least 2 values"
        )
    exact = [start * (end / start) ** (index / (total - 1)) for index in builtins.range(total - 1)] + [end]
    if isinstance(start, int) and isinstance(end, int):
        return Parameter("log", tuple(dict.fromkeys(round(value) for value in exact)), _knockout(knockout_prob))
    return Parameter("log", tuple(map(float, exact)), _knockout(knockout_prob))


@dataclass(frozen=True)
class Gene:
    """One dimension: a knob, or the switch of a group (which no knob shows). ``parent`` is the index of its switch."""

    name: str
    kind: Kind
    values: Sequence[KnobValue]
    knockout_prob: float
    parent: int | None = None


@dataclass(frozen=True)
class OpaqueSpace:
    """A compiler's hidden controls, published encrypted: only NVIDIA's CompileIQ draws from it.

    Attributes:
        compiler: whose controls file a draw is.
        version: the compiler's line.
        variant: ``default``, or one curated for a kind of kernel (``att`` for attention).
        tag: the release of the search spaces; pinned, since ``latest`` would be another space tomorrow.
    """

    compiler: Literal["ptxas", "nvcc"]
    version: str
    variant: str
    tag: str

    @property
    def line(self) -> str:
        """The compiler's line that takes its draws, e.g. ``ptxas13.3``."""
        return self.compiler + self.version

    def why_not(self) -> str | None:
        """Why the pinned release has no such space; None where it has, and for other releases, which are not known."""
        variants = _VARIANTS[self.compiler]
        if self.tag != SEARCH_SPACES_TAG or (self.version == SEARCH_SPACES_OF and self.variant in variants):
            return None
        there = " and ".join(repr(variant) for variant in variants)
        what = f"{self.compiler} {self.version} space {self.variant!r}"
        return f"CompileIQ's release {self.tag} has no {what}: of {self.compiler} it has {SEARCH_SPACES_OF}, {there}"

    def __str__(self) -> str:
        return f"CompileIQ's {self.compiler} {self.version} space {self.variant!r} ({self.tag})"


def PtxasSearchSpace(  # noqa: N802 - CompileIQ's name
    version: str = SEARCH_SPACES_OF, variant: str = "default", tag: str = SEARCH_SPACES_TAG
) -> OpaqueSpace:
    """CompileIQ's space of ptxas controls; ``variant="att"`` is curated for attention kernels."""
    return OpaqueSpace("ptxas", version, variant, tag)


def NvccSearchSpace(  # noqa: N802 - CompileIQ's name
    version: str = SEARCH_SPACES_OF, variant: str = "default", tag: str = SEARCH_SPACES_TAG
) -> OpaqueSpace:
    """CompileIQ's space of nvcc controls, which take effect on sm_100 and newer."""
    return OpaqueSpace("nvcc", version, variant, tag)


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


def _value(where: str, value: object) -> KnobValue:
    if isinstance(value, str):
        if len(value) <= LONGEST_TEXT:
            return value
        raise MarkerError(f"{where}: a string of {len(value)} characters: an artifact holds {LONGEST_TEXT} of one")
    if isinstance(value, int | float) and _can_be_stored(value):
        return value
    raise MarkerError(f"{where}: {value!r}: expected a bool, {_NUMBER} or a string")


def _number(where: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _can_be_stored(value):
        raise MarkerError(f"{where}{value!r}): expected {_NUMBER}")


def _can_be_stored(number: float) -> bool:
    return number in INTEGERS if isinstance(number, int) else abs(number) <= LARGEST_NUMBER


def _knockout(probability: object) -> float:
    if probability is None:
        return 0.0
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise MarkerError(f"knockout_prob={probability!r}: expected a probability from 0 to 1")
    return float(probability)
