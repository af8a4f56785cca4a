"""What a search asked for, batch by batch, and what became of it: what its journal holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pytest_compileiq.model import Candidate, FailureKind, Lesson
from pytest_compileiq.samples import SampleRow

_CLOCKS = [field.name for field in fields(SampleRow)].index("clocks")


@dataclass(frozen=True)
class Evaluated:
    """One finished evaluation.

    Attributes:
        scores: a log-ratio for each objective; empty when it failed.
        reason: why it failed, in words.
        digest: of the machine code, or "" where nothing was built.
        samples: the raw samples behind the scores, as JSON-able rows.
        seconds: since the search began, earlier runs included.
        errors: of the scores, as in ``Told``. They follow from the samples of this and of earlier evaluations, so that
            they are not written.
    """

    scores: tuple[float, ...]
    failure: FailureKind | None
    reason: str
    duplicate: bool
    digest: str
    samples: Sequence[Any]
    seconds: float
    errors: tuple[float, ...] = ()

    @property
    def rows(self) -> tuple[SampleRow, ...]:
        """The samples as rows, without a GPU's clocks."""
        return tuple(SampleRow(*sample[:_CLOCKS]) for sample in self.samples)


@dataclass(frozen=True)
class Batch:
    """What one ask gave and what became of it.

    Attributes:
        wanted: how many were asked for.
        done: place among ``candidates`` → its evaluation, in the order of finishing; some lack when it was killed.
        state: the engine's checkpoint from before the ask, or None where the engine is replayed.
    """

    wanted: int
    candidates: tuple[Candidate, ...]
    done: Mapping[int, Evaluated]
    state: bytes | None


@dataclass(frozen=True)
class Earlier:
    """What a search begins with.

    Attributes:
        seeds: the candidates to try first: those of the run that began the search.
        lessons: what had been taught when it began, whatever has become of those artifacts.
        batches: what that run and those after it left; empty for a search that begins now.
        changed: what has changed of all that an earlier search depended on, so that it cannot go on; None otherwise.
    """

    seeds: tuple[Candidate, ...]
    batches: tuple[Batch, ...] = ()
    changed: str | None = None
    lessons: tuple[Lesson, ...] = ()
