"""Calls that both arms make on the same memory, and what they leave in it."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .apart import relative_difference
from .extents import parsed
from .foreign_call import given_to, number_of
from .recorder import regions_of
from .values import Memory, Refused

if TYPE_CHECKING:
    from .tally import Function
    from .values import Number

    _Left = dict[str, tuple[bytes, str]]  # place → its content, and its type as numpy spells it

BASELINE, TUNED = 0, 1
_OWN_CALLS = 4  # of the baseline beside the first, to see how far it is from itself


class Given:
    """What a call is given: its arguments, the regions that they reach, and what these hold."""

    def __init__(self, function: Function, called: Any, arguments: list[Number | Memory | None]) -> None:
        self.function = function
        self.called = called
        self.arguments = arguments
        self.regions = regions_of(arguments)
        self.before = [region.read() for region in self.regions]

    def left(self, result: Any) -> _Left:
        """What each place holds after a call: a region by the first argument that reaches it, and the result.

        Raises:
            Refused: what the call returned cannot be compared.
        """
        left: _Left = {}
        for region in self.regions:
            reaches = (
                at
                for at, each in enumerate(self.arguments, 1)
                if isinstance(each, Memory) and region.start <= each.start <= region.end
            )
            left[f"argument {min(reaches)}"] = region.read(), min(region.dtypes) if len(region.dtypes) == 1 else ""
        number = number_of(self.function, self.called, result)
        if number is not None:
            left["the result"] = number.value, f"<f{len(number.value)}" if number.code in "fd" else ""
        return left

    def put(self, contents: list[bytes]) -> None:
        """Write ``contents`` where memory holds something else: what a call only reads may not be writable."""
        for at, region in enumerate(self.regions):
            if region.read() != contents[at]:
                ctypes.memmove(region.start, contents[at], region.size)


class ComparedCalls:
    """The calls of one function that both arms made; ``extents`` is what the user said of memory.

    Attributes:
        count: how many.
        refused: why others could not be → how many.
        apart: place → calls on which the arms differ there, how far at most, and how far the baseline is from itself;
            infinite for all but floats.
    """

    def __init__(self, extents: str | None) -> None:
        self._extents = parsed(extents) if extents else None
        self.count = 0
        self.refused: Counter[str] = Counter()
        self.apart: dict[str, list[float]] = {}

    def given(self, function: Function, called: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Given | None:
        """What the call is about to be given, if that can be put back."""
        try:
            return Given(function, called, given_to(function, called, arguments, named, self._extents))
        except Refused as why:
            self.refused[str(why)] += 1
            return None

    def compare(self, given: Given, result: Any, made_by: Callable[[int], Any]) -> None:
        """Hold what the tuned arm leaves against what the baseline has just left, bit for bit.

        The program goes on with what the baseline left. ``made_by`` makes the call by an arm, and gives its result.
        """
        memory = [region.read() for region in given.regions]

        def left_by(arm: int) -> _Left:
            given.put(given.before)
            return given.left(made_by(arm))

        try:
            left = given.left(result)
            tuned = left_by(TUNED)
            if tuned != left:
                self._note(left, tuned, [left_by(BASELINE) for _ in range(_OWN_CALLS)])
            self.count += 1
        except Refused as why:
            self.refused[str(why)] += 1
        finally:
            given.put(memory)

    def told(self) -> dict[str, Any]:
        """In JSON's types."""
        return {
            "compared": self.count,
            "not_compared": list(self.refused),
            "apart": [
                {"place": place, "calls": int(calls), "tuned": _finite(tuned), "own": _finite(own)}
                for place, (calls, tuned, own) in self.apart.items()
            ],
        }

    def _note(self, left: _Left, tuned: _Left, own: list[_Left]) -> None:
        """Keep how far apart the arms are, and the baseline from itself."""
        for place, (wanted, dtype) in left.items():
            if tuned[place][0] == wanted:
                continue
            known = self.apart.setdefault(place, [0, 0.0, 0.0])
            known[0] += 1
            known[1] = max(known[1], relative_difference(tuned[place][0], wanted, dtype))
            known[2] = max(known[2], *(relative_difference(each[place][0], wanted, dtype) for each in own))


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
