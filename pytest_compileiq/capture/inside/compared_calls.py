"""Calls that both arms make on the same memory, and what they leave in it."""

from __future__ import annotations

import ctypes
import math
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

from .counters import given_to, number_of
from .recorder import regions_of
from .values import Memory, Refused, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .recorder import MemoryRegion
    from .values import ForeignFunction, Number

    _Left = dict[str, tuple[bytes, str]]  # place → its content, and its type as numpy spells it

BASELINE, TUNED = 0, 1
_LARGEST_MEMORY = 256 << 20  # bytes of a call; some copies of it are held at a time
_OWN_CALLS = 4  # of the baseline beside the first, to see how far it is from itself
_FLOATS = {"f2": "e", "f4": "f", "f8": "d", "c8": "f", "c16": "d"}  # as numpy spells them → as struct does


class CallInput:
    """What a call is given: its arguments, the regions that they reach, and what these hold."""

    def __init__(self, function: ForeignFunction, called: Any, arguments: list[Number | Memory | None]) -> None:
        self.function = function
        self.called = called
        self.arguments = arguments
        self.regions = regions_of(arguments)
        if sum(region.size for region in self.regions) > _LARGEST_MEMORY:
            raise Refused(f"its arguments reach more than {_LARGEST_MEMORY >> 20} MiB")
        self.before = [region.read() for region in self.regions]

    def left(self, result: Any) -> _Left:
        """What each place holds after a call: a region by the first argument that reaches it, and the result."""
        left: _Left = {}
        for region in self.regions:
            reaching = {
                at: each
                for at, each in enumerate(self.arguments, 1)
                if isinstance(each, Memory) and region.start <= each.start <= region.end
            }
            left[f"argument {min(reaching)}"] = region.read(), _dtype(region, reaching.values())
        number = number_of(self.function, self.called, result)
        if number is not None:
            left["the result"] = number.value, f"<f{len(number.value)}" if number.code in "fd" else ""
        return left

    def put(self, contents: list[bytes]) -> None:
        """Write ``contents`` where memory holds something else: what a call only reads may not be writable."""
        for at, region in enumerate(self.regions):
            if region.read() != contents[at]:
                ctypes.memmove(region.start, contents[at], region.size)


def _dtype(region: MemoryRegion, reaching: Iterable[Memory]) -> str:
    """The type of all that lies in a region, one value after the other; empty where other things lie between."""
    if len(region.dtypes) > 1:
        return ""
    size = int(min(region.dtypes)[2:]) or 1
    places = (place for each in reaching for place in (each.start - region.start, *each.strides))
    return "" if any(place % size for place in places) else min(region.dtypes)


class ComparedCalls:
    """The calls of one function that both arms made on the same memory; ``extents`` is what the user said of memory."""

    def __init__(self, extents: str | None) -> None:
        self._extents = parsed(extents) if extents else None
        self._count = 0
        self._refused: Counter[str] = Counter()  # why others could not be
        # Place → calls on which the arms differ, how far at most, and how far the baseline is from itself.
        self._apart: dict[str, list[float]] = {}

    def given(
        self, function: ForeignFunction, called: Any, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> CallInput | None:
        """What the call is about to be given, if that can be put back."""
        try:
            return CallInput(function, called, given_to(function, called, arguments, named, self._extents))
        except Refused as why:
            self._refused[str(why)] += 1
            return None

    def compare(self, given: CallInput, result: Any, made_by: Callable[[int], Any]) -> None:
        """Compare what the tuned arm leaves with what the baseline has just left, with which the program goes on."""
        memory = [region.read() for region in given.regions]

        def left_by(arm: int) -> _Left:
            given.put(given.before)
            return given.left(made_by(arm))

        try:
            left = given.left(result)
            tuned = left_by(TUNED)
            own = [left_by(BASELINE) for _ in range(_OWN_CALLS)] if tuned != left else []
            for place, (wanted, dtype) in left.items():
                if tuned[place][0] != wanted:
                    known = self._apart.setdefault(place, [0, 0.0, 0.0])
                    known[0] += 1
                    known[1] = max(known[1], relative_difference(tuned[place][0], wanted, dtype))
                    known[2] = max(known[2], *(relative_difference(each[place][0], wanted, dtype) for each in own))
            self._count += 1
        except Refused as why:
            self._refused[str(why)] += 1
        finally:
            given.put(memory)

    def told(self) -> dict[str, Any]:
        apart = [
            {"place": place, "calls": int(calls), "tuned": _finite(tuned), "own": _finite(own)}
            for place, (calls, tuned, own) in self._apart.items()
        ]
        return {"compared": self._count, "not_compared": list(self._refused), "apart": apart}


def _finite(value: float) -> float | None:
    return value if value < math.inf else None


def relative_difference(got: bytes, wanted: bytes, dtype: str) -> float:
    """The largest difference of two values over the largest magnitude that is wanted; infinite for all but floats."""
    if got == wanted:
        return 0.0
    code = _FLOATS.get(dtype[1:])
    if code is None or len(got) != len(wanted) or len(got) % struct.calcsize(code):
        return math.inf
    values = struct.Struct(dtype[0] + code)
    largest = scale = 0.0
    for (one,), (other,) in zip(values.iter_unpack(got), values.iter_unpack(wanted)):  # noqa: B905 - for Python 3.9
        if math.isfinite(other):
            scale = max(scale, abs(other))
        if one == other or (math.isnan(one) and math.isnan(other)):
            continue
        if not (math.isfinite(one) and math.isfinite(other)):
            return math.inf
        largest = max(largest, abs(one - other))
    return largest / scale if scale else math.inf if largest else 0.0
