"""The value of a slot: the median of its samples, or a tail of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from pytest_compileiq.model import tail_of

if TYPE_CHECKING:
    from pytest_compileiq.rules.stats import Floats

Value = TypeVar("Value", "float", "Floats")


def slot_value(metric: str, values: Sequence[float]) -> float:
    """The median of ``values``, or the quantile that ``metric`` names: ``runtime@p99``."""
    return quantile(sorted(values), tail_of(metric)[1])


def samples_needed(metric: str, at_least: int) -> int:
    """How many samples a slot needs so that one of them is expected in the tail."""
    share = tail_of(metric)[1]
    return max(at_least, round(1 / (1 - share))) if share > 0.5 else at_least


def quantile(ordered: Sequence[Value], share: float) -> Value:
    """The quantile of sorted values, interpolated (Hyndman and Fan 1996, definition 7; numpy's default).

    Args:
        ordered: numbers, or arrays of one shape, sorted at each place.
    """
    position = share * (len(ordered) - 1)
    index = int(position)
    following = ordered[min(index + 1, len(ordered) - 1)]
    return ordered[index] + (position - index) * (following - ordered[index])
