"""Search engines: an engine is asked for candidates and told their evaluations."""

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
    """The evaluation of one candidate.

    Attributes:
        candidate: as the engine gave it.
        scores: one number per objective, lower is better (a log-ratio to a neighbouring baseline measurement);
            empty when it failed.
        failure: the reason for no score, or None.
        duplicate: ``scores`` repeats an earlier measurement of the same machine code.
        errors: the standard error of each score, in the same unit, 0 of an exact one; empty where all are exact or
            none is known.
        code: the name of its machine code and parameters, equal for all of one measurement; empty without a build.
    """

    candidate: Candidate
    scores: tuple[float, ...] = ()
    failure: FailureKind | None = None
    duplicate: bool = False
    errors: tuple[float, ...] = ()
    code: str = ""


@dataclass(frozen=True)
class Brief:
    """The arguments of an engine.

    Attributes:
        seeds: candidates to try first: the previous winner and those of ``--tune-from``.
        lessons: hints of other artifacts, the most believed first; an engine may ignore them.
        metrics: the objectives' metrics, as ``runtime``; empty where unknown.
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
        """The seeds that lie in the open space, then the first lessons, then the space's presets."""
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
    """An engine with a saved state, since telling it everything again would not restore it."""

    def checkpoint(self) -> bytes:
        """The state now, random source included."""
        ...

    def restore(self, state: bytes) -> None:
        """Go on from ``state``, in a new engine of the same brief."""
        ...


@dataclass(frozen=True)
class Outlook:
    """The prediction of an engine for its next candidate.

    Attributes:
        improvement: the expected fall of the first objective's best score: a log-ratio, >= 0.
        spread: the standard deviation of that candidate's score, in the same unit.
    """

    improvement: float
    spread: float


@runtime_checkable
class Foreseeing(Protocol):
    """An engine that predicts its next improvement; the others are judged by their latest ones."""

    def outlook(self) -> Outlook | None:
        """Predict the next improvement, None while unknown; changes no later candidate."""
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
