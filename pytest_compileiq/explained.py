"""What a model of its scores says of a search, as values: no measurement, and nothing that an artifact holds.

Scores are log-ratios to the baseline or, of a metric that may be zero or negative, differences in shares of the
baseline's magnitude. Lower is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pytest_compileiq.model import Direction, KnobValue

Series = tuple[float | None, ...]
BAND = 0.9  # of what a model expects, the share that lies within its band


@dataclass(frozen=True)
class KnobEffect:
    """What the best candidate has of one knob, against the same candidate with that knob set otherwise.

    Attributes:
        value: the best candidate's, None where it leaves the knob off; ``instead`` is the other.
        loss: by how much the score is expected to rise with ``instead``; below zero it falls.
        low, high: its interval, which holds simultaneously with all others of the search at 95 %.
    """

    knob: str
    value: KnobValue | None
    instead: KnobValue | None
    loss: float
    low: float
    high: float

    @property
    def is_told_apart(self) -> bool:
        """Whether the model tells it apart from no effect."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Curve:
    """The scores of a search in the order of its evaluations, and what was expected of each before it was measured.

    Attributes:
        scores: None where a candidate failed.
        best: the best so far, the baseline's 0 included.
        expected, low, high: the mean and the band of a measured score by what had been told before; None where that
            was too little, as in the initial pool, and where the score repeats that of known machine code.
    """

    scores: Series
    best: tuple[float, ...]
    expected: Series
    low: Series
    high: Series

    @property
    def foreseen(self) -> int:
        """How many scores were measured that something had been expected of."""
        return sum(1 for _ in self._foreseen())

    @property
    def within(self) -> int:
        """How many of these lie within the band."""
        return sum(low <= score <= high for score, low, high in self._foreseen())

    def _foreseen(self) -> Iterator[tuple[float, float, float]]:
        for score, low, high in zip(self.scores, self.low, self.high, strict=True):
            if score is not None and low is not None and high is not None:
                yield score, low, high


@dataclass(frozen=True)
class Explained:
    """One search by the model.

    Attributes:
        objective: the metric that it is of, the first of ``objectives``.
        by_share: whether scores are differences in shares of the baseline's magnitude.
        knobs: how many the space holds.
        effects: of the knobs that were tried otherwise than in the best candidate, the largest loss first.
        why_none: why there are no effects; empty where there are some.
    """

    objective: str
    direction: Direction
    objectives: int
    by_share: bool
    knobs: int
    effects: tuple[KnobEffect, ...]
    curve: Curve
    why_none: str = ""

    @property
    def told_apart(self) -> tuple[KnobEffect, ...]:
        """The effects that differ from none."""
        return tuple(effect for effect in self.effects if effect.is_told_apart)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Explained:
        """The inverse of ``dataclasses.asdict``, also where JSON made lists of the tuples."""
        effects = tuple(KnobEffect(**effect) for effect in content["effects"])
        curve = Curve(**{field.name: tuple(content["curve"][field.name]) for field in fields(Curve)})
        return cls(**{**content, "effects": effects, "curve": curve})


def rounded(number: float) -> float | None:
    """Six digits, which is more than any score holds; None for what is no number."""
    return float(f"{number:.6g}") if math.isfinite(number) else None
