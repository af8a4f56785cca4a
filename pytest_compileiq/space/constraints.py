"""``where=``: predicates over knobs, their rulings on partly decided points, and the region that they leave.

A predicate is called with a mapping that answers decided knobs and notes the first gene that it cannot answer, so that
an enumeration decides only the genes that a predicate reads.

A box is a partly decided point, of which every completion is allowed. Deciding one gene after the other that the
predicates read splits the space into boxes and refusals; where that takes too many steps, random descents of the same
tree estimate its size without bias (Knuth, "Estimating the efficiency of backtrack programs", Mathematics of
Computation 29, 1975).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import KnobValue
from pytest_compileiq.space.parameters import OFF, UNDECIDED, Gene, Point
from pytest_compileiq.space.shape import Shape
from pytest_compileiq.spelling import did_you_mean, first_of

if TYPE_CHECKING:
    import numpy as np


_MOST_NAMED = 8


@dataclass(frozen=True)
class Predicate:
    """A condition on knobs.

    Attributes:
        call: a mapping of knobs → whether they are allowed.
        text: its quotation in messages.
        identity: equal for equal conditions: its syntax, and the values that it takes from outside.
    """

    call: Callable[[Mapping[str, Any]], object]
    text: str
    identity: str


@dataclass(frozen=True)
class Where:
    """The bounds of a space: every predicate has to hold.

    Attributes:
        defaults: knob → its value for predicates where it is off: the baseline's own.
    """

    predicates: tuple[Predicate, ...]
    defaults: Mapping[str, KnobValue] = field(default_factory=dict, hash=False)

    def joined(self, other: Where) -> Where:
        """Both conditions."""
        return Where(self.predicates + other.predicates, {**self.defaults, **other.defaults})


@dataclass(frozen=True)
class Ruling:
    """The predicate that refuses a point, or the gene to decide before the predicates can be judged; else allowed."""

    refused_by: Predicate | None = None
    undecided: int | None = None

    @property
    def allowed(self) -> bool:
        """Whether every predicate holds, whatever is still undecided."""
        return self.refused_by is None and self.undecided is None


class Judge:
    """The predicates of ``where`` on points of ``genes``.

    Attributes:
        numbers: knob → its gene.
        lineages: gene → the groups that it is in, outermost first, and itself.
    """

    def __init__(self, genes: Sequence[Gene], where: Where) -> None:
        self.genes = genes
        self.defaults = where.defaults
        self.numbers = {gene.name: number for number, gene in enumerate(genes) if gene.kind != "switch"}
        self.lineages: list[list[int]] = []
        for number, gene in enumerate(genes):
            self.lineages.append([*(self.lineages[gene.parent] if gene.parent is not None else ()), number])
        self._predicates = where.predicates

    def __call__(self, point: Sequence[int], decide: Callable[[int], None] | None = None) -> Ruling:
        """Judge a point that may be decided in part.

        Args:
            point: indices of the genes, ``UNDECIDED`` or not.
            decide: called with each undecided gene that is read, to decide it in ``point``, which is then a list.

        Raises:
            MarkerError: a predicate reads a knob that does not exist or is off, fails, or gives no bool.
        """
        undecided: int | None = None
        for predicate in self._predicates:
            knobs = _Knobs(self, point, decide)
            if (holds := _answer(predicate, knobs)) is None:
                undecided = knobs.undecided if undecided is None else undecided
            elif not holds:
                return Ruling(refused_by=predicate)
        return Ruling(undecided=undecided)


@dataclass(slots=True, eq=False, repr=False)
class _Knobs(Mapping[str, KnobValue]):
    """The knobs of a point, as a predicate reads them."""

    judge: Judge
    point: Sequence[int]
    decide: Callable[[int], None] | None
    undecided: int | None = None  # the first gene that was read undecided
    misspelt: str | None = None  # the first unknown name that was read
    read: dict[str, KnobValue] = field(default_factory=dict)  # all answers, for messages
    off: set[str] = field(default_factory=set)  # names that were read of knobs that are off

    def __getitem__(self, name: str) -> KnobValue:
        number = self.judge.numbers.get(name)
        if number is None:
            self.misspelt = self.misspelt or str(name)
            raise KeyError(name)
        index = self._index(number)
        if index == UNDECIDED:
            raise KeyError(name)
        if index != OFF:
            value = self.judge.genes[number].values[index]
        elif name in self.judge.defaults:
            value = self.judge.defaults[name]
        else:
            self.off.add(name)
            raise KeyError(name)
        self.read[name] = value
        return value

    def __iter__(self) -> Iterator[str]:
        """The names of what is on, and of what has a default."""
        for name in self.judge.numbers:
            if name in self:
                yield name
            elif self.undecided is not None:
                raise KeyError(name)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _index(self, number: int) -> int:
        """The gene's index; off where a group that it is in is off."""
        index = UNDECIDED
        for gene in self.judge.lineages[number]:
            if self.point[gene] == UNDECIDED and self.decide is not None:
                self.decide(gene)
            index = self.point[gene]
            if index == UNDECIDED and self.undecided is None:
                self.undecided = gene
            if index < 0:
                break
        return index


def _answer(predicate: Predicate, knobs: _Knobs) -> bool | None:
    """The answer of ``predicate``; None where it read an undecided gene, whatever it made of that."""
    failure: Exception | None = None
    answer: Any = None
    try:
        answer = predicate.call(knobs)
    except Exception as error:  # the user's code may raise anything
        failure = error
    where = f"where= ({predicate.text})"
    if knobs.misspelt is not None:
        raise MarkerError(f"{where}: {no_knob(knobs.misspelt, knobs.judge.numbers)}")
    if knobs.undecided is not None:
        return None
    if isinstance(failure, KeyError) and failure.args and failure.args[0] in knobs.off:
        name = failure.args[0]
        raise MarkerError(
            f"{where} reads the knob {name!r}, which is off in some candidates: write k.get({name!r}, default)"
        )
    if failure is not None:
        raise MarkerError(f"{where} failed on {knobs.read}: {type(failure).__name__}: {failure}") from failure
    kind = type(answer)
    if kind is not bool and not (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")):
        raise MarkerError(f"{where} gave {answer!r:.80} for {knobs.read}: expected True or False")
    return bool(answer)


def no_knob(name: str, known: Sequence[str] | Mapping[str, object]) -> str:
    """The sentence about a knob that a space does not have."""
    names = list(known)
    expected = f": expected {', '.join(first_of(names, _MOST_NAMED))}" if names else ": it has no named knobs"
    return f"the space has no knob {name!r}{did_you_mean(name, names)}{expected}"


MOST_STEPS = 100_000
DESCENTS = 2000
_SEED = 0


@dataclass(frozen=True)
class Region:
    """The allowed part of ``shape``.

    Attributes:
        boxes: disjoint; all of the region where it is ``exact``, else those that descents came upon.
        size: the number of points, or an estimate of it.
    """

    shape: Shape
    boxes: tuple[Point, ...]
    size: int
    exact: bool

    @classmethod
    def of(cls, shape: Shape, judge: Judge, *, steps: int = MOST_STEPS, descents: int = DESCENTS) -> Region:
        """The region that ``judge`` allows, enumerated in at most ``steps`` rulings, else by ``descents``.

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
    """One random way down the tree of decisions.

    Attributes:
        box: the decisions at its end.
        size: the number of allowed points there.
        paths: one over its probability: the number of ways if all were alike.
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
    def _at(cls, shape: Shape, point: Sequence[int], ruling: Ruling, paths: int) -> _Descent:
        return cls(tuple(point), shape.size(point) if ruling.allowed else 0, paths)


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
