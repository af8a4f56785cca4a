"""Counters of a search, and its observers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from pytest_compileiq.config import Budget


class Progress(Protocol):
    """Who watches a search."""

    def evaluated(self, tally: SearchCounts, budget: Budget, shift: float | None) -> None:
        """Called after every evaluation.

        Args:
            shift: the difference that the best score stands for, as a share of the baseline's magnitude; positive is
                higher. None where the score is a log-ratio.
        """
        ...

    def say(self, text: str) -> None:
        """One line of what happens now."""
        ...


@dataclass
class SearchCounts:
    """The spending and the finds of a search."""

    started: float = field(default_factory=time.monotonic)
    earlier_s: float = 0.0  # in runs that were killed
    evaluations: int = 0
    valid: int = 0  # with scores, repeated machine code included
    duplicates: int = 0
    best: float = 0.0  # the first objective's, negative is better: a log-ratio, or a difference by Scorer.shift
    improvements: list[tuple[int, float]] = field(default_factory=list)  # evaluation, from 1, and the new best
    invalid: dict[str, int] = field(default_factory=dict)
    first_reason: dict[str, str] = field(default_factory=dict)
    _ended: float | None = None

    @property
    def seconds(self) -> float:
        """Wall time from the start to the end of the search, or to now, with earlier runs of it."""
        return (self._ended or time.monotonic()) - self.started + self.earlier_s

    def end(self) -> None:
        """The search is over, or pauses: what is proven and measured after it takes none of its time."""
        self._ended = time.monotonic()

    def go_on(self) -> None:
        """The search goes on after a pause."""
        self.earlier_s, self.started, self._ended = self.seconds, time.monotonic(), None

    def score(self, score: float) -> None:
        """Take in the first objective's score of the evaluation that is about to be counted."""
        if score < self.best:
            self.best = score
            self.improvements.append((self.evaluations + 1, score))

    def fail(self, kind: str, reason: str) -> None:
        """Count one invalid evaluation and keep the first reason of its kind."""
        self.invalid[kind] = self.invalid.get(kind, 0) + 1
        self.first_reason.setdefault(kind, reason)
