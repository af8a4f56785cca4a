"""What a search engine is: it asks for candidates to be evaluated and is told how they did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate, FailureKind, Lesson
from pytest_compileiq.rules.likeness import tried_first
from pytest_compileiq.space import Point, Space
from pytest_compileiq.spelling import did_you_mean


@dataclass(frozen=True)
class Told:
    """How one candidate did.

    Attributes:
        candidate: as the engine gave it.
        scores: one number per objective, lower is better (a log-ratio to a neighbouring baseline measurement);
            empty when it failed.
        failure: why there is no score, or None.
        duplicate: its machine code had been seen before, so ``scores`` repeats an earlier measurement.
        errors: the standard error of each score, in the same unit, as well as it was known then; 0 of a score that is
            exact. Empty where all are exact, or nothing is known of them.
        code: what its machine code and its parameters are called: equal for all that are one measurement; empty where
            nothing was built.
    """

    candidate: Candidate
    scores: tuple[float, ...] = ()
    failure: FailureKind | None = None
    duplicate: bool = False
    errors: tuple[float, ...] = ()
    code: str = ""


@dataclass(frozen=True)
class Brief:
    """What an engine is given at the start.

    Attributes:
        seeds: to be tried first: the previous winner, what ``--tune-from`` names.
        lessons: what other artifacts taught, the most believed first; hints that an engine need not believe.
        metrics: what the objectives measure, as ``runtime``; empty where nobody says.
    """

    space: Space
    seed: int
    n_objectives: int = 1
    budget: int | None = None
    seeds: Sequence[Candidate] = ()
    options: Mapping[str, Any] | None = None
    lessons: Sequence[Lesson] = ()
    metrics: Sequence[str] = ()

    def seed_points(self) -> list[Point]:
        """The seeds that lie in the open space, then the first of what was taught, then the space's presets."""
        tried = [*(seed.knobs for seed in self.seeds if seed.blob is None), *tried_first(self.lessons)]
        return [self.space.point(knobs) for knobs in [*tried, *self.space.presets] if self.space.why_not(knobs) is None]


class Engine(Protocol):
    """Deterministic in its brief and in what it is told. An empty ask ends the search."""

    def ask(self, n: int) -> list[Candidate]:
        """At most ``n`` candidates to evaluate next; may return fewer; empty when it has nothing left to try."""
        ...

    def tell(self, results: Sequence[Told]) -> None:
        """Results of asked candidates, in any order and grouping."""
        ...


@runtime_checkable
class Checkpointed(Protocol):
    """An engine whose state is saved, since telling it everything again would not bring it back to where it was."""

    def checkpoint(self) -> bytes:
        """The state now, random source included."""
        ...

    def restore(self, state: bytes) -> None:
        """Go on from ``state``, in a new engine of the same brief."""
        ...


@dataclass(frozen=True)
class Outlook:
    """What an engine expects of its next candidates.

    Attributes:
        improvement: how far the first objective's best score is expected to fall with the next one: a log-ratio, >= 0.
        spread: the standard deviation of what that candidate may score, in the same unit.
    """

    improvement: float
    spread: float


@runtime_checkable
class Foreseeing(Protocol):
    """An engine that can tell what it still expects to find; the others are judged by what they found of late."""

    def outlook(self) -> Outlook | None:
        """What it expects now, without changing what it asks for next; None while it cannot tell."""
        ...


def integer_options(engine: str, brief: Brief, ranges: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """The given ``engine_options`` of ``engine``, all of which are integers. ``ranges``: name → least and most.

    Raises:
        MarkerError: an option is unknown, no integer, or out of its range.
    """
    options = dict(brief.options or {})
    if unknown := sorted(set(options) - set(ranges)):
        meant, known = did_you_mean(unknown[0], list(ranges)), ", ".join(ranges)
        raise MarkerError(f"engine {engine!r} has no option {unknown[0]!r}{meant}: expected {known}")
    for name, value in options.items():
        low, high = ranges[name]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise MarkerError(f"engine {engine!r}: {name} = {value!r}: expected an integer from {low} to {high}")
    return options
