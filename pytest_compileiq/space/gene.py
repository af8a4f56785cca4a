"""One dimension of a space, and the words for what a point says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_compileiq.model import KnobValue
from pytest_compileiq.space.parameters import Kind

Point = tuple[int, ...]

OFF = -1
UNDECIDED = -2  # of a gene that a partly decided point leaves free
GROUP_PROBABILITY = 0.5


@dataclass(frozen=True)
class Gene:
    """One dimension: a knob, or the switch of a group (which no knob shows). ``parent`` is the index of its switch."""

    name: str
    kind: Kind
    values: Sequence[KnobValue]
    knockout_prob: float
    parent: int | None = None
