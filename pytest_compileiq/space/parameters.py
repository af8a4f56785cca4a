"""The values of one knob, in CompileIQ's words."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import INTEGERS, LARGEST_NUMBER, LONGEST_TEXT, KnobValue

Kind = Literal["choice", "ordinal", "integer", "log", "switch"]

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
