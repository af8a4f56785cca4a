"""``where=``: predicates over knobs, and their rulings on partly decided points.

A predicate is called with a mapping that answers decided knobs and notes the first gene that it cannot answer, so that
an enumeration decides only the genes that a predicate reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import KnobValue
from pytest_compileiq.space.parameters import OFF, UNDECIDED, Gene
from pytest_compileiq.spelling import did_you_mean, first_of

_MOST_NAMED = 8


@dataclass(frozen=True)
class Predicate:
    """A condition on knobs."""

    call: Callable[[Mapping[str, Any]], object]  # a mapping of knobs → whether they are allowed
    text: str  # its quotation in messages
    identity: str  # equal for equal conditions: its syntax, and the values that it takes from outside


@dataclass(frozen=True)
class Where:
    """The bounds of a space: every predicate has to hold."""

    predicates: tuple[Predicate, ...]
    # Knob → its value for predicates where it is off: the baseline's own.
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
    """The predicates of ``where`` on points of ``genes``."""

    def __init__(self, genes: Sequence[Gene], where: Where) -> None:
        self.genes = genes
        self.defaults = where.defaults
        # Knob → its gene; gene → the groups that it is in, outermost first, and itself.
        self.numbers = {gene.name: number for number, gene in enumerate(genes) if gene.kind != "switch"}
        self.lineages: list[list[int]] = []
        for number, gene in enumerate(genes):
            self.lineages.append([*(self.lineages[gene.parent] if gene.parent is not None else ()), number])
        self._predicates = where.predicates

    def __call__(self, point: Sequence[int], decide: Callable[[int], None] | None = None) -> Ruling:
        """Judge a point that may be decided in part; ``decide`` is called with an undecided gene, to decide it there.

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
