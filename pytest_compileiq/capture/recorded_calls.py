"""A recorded call: its arguments, the memory that they reach, and what was in it before and after. Untrusted."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct

_LONG_DOUBLE = 16  # bytes; struct does not know it
MOST_BYTES = 1 << 34  # of a stretch of memory
MOST_AT_ONCE = 2 << 30  # bytes of the calls of one shape, which a replay lays out together
_Size = Annotated[int, Meta(ge=0, le=MOST_BYTES)]
_Offset = Annotated[int, Meta(ge=-MOST_BYTES, le=MOST_BYTES)]
_Axes = Annotated[tuple[_Offset, ...], Meta(max_length=64)]
_Hex = Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*\Z", max_length=1 << 16)]


class Number(Struct, frozen=True):
    """A number by its type's code in ctypes (``l``, ``d``) and its bytes, in hexadecimal digits."""

    code: Annotated[str, Meta(pattern=r"^[?cbBhHiIlLqQfdg]\Z")]
    value: Annotated[str, Meta(pattern=r"^([0-9a-f]{2}){1,16}\Z")]


class Memory(Struct, frozen=True):
    """Where a pointer points: ``offset`` bytes into a region; the elements that its object has there."""

    region: Annotated[int, Meta(ge=0, le=1 << 10)]
    offset: _Size
    dtype: Annotated[str, Meta(pattern=r"^[<>|][fcbiuV][0-9]{1,9}\Z")]
    extents: _Axes
    strides: _Axes


class Argument(Struct, frozen=True):
    """A number, or memory, or neither: NULL."""

    number: Number | None
    memory: Memory | None


class Content(Struct, frozen=True):
    """What a region held: exactly, under its digest, or a ``sample`` of its floats, evenly spaced."""

    kind: Literal["integers", "floats"]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None
    sample: _Hex | None


class Region(Struct, frozen=True):
    """A stretch of memory that one or several arguments reach; ``page_offset`` is its address modulo 4096."""

    size: _Size
    page_offset: Annotated[int, Meta(ge=0, lt=4096)]
    before: Content
    after: Content


class Call(Struct, frozen=True):
    """One call; ``number`` counts the calls of its function from 1."""

    number: Annotated[int, Meta(ge=1, le=1 << 62)]
    arguments: Annotated[tuple[Argument, ...], Meta(max_length=1 << 10)]
    regions: Annotated[tuple[Region, ...], Meta(max_length=1 << 10)]
    result: Number | None

    @property
    def contents(self) -> tuple[Content, ...]:
        """What its regions held before and after."""
        return tuple(content for region in self.regions for content in (region.before, region.after))

    @property
    def is_exact(self) -> bool:
        """Whether all that it was given and gave is there."""
        return all(content.sha256 is not None for content in self.contents)


def bytes_at_once(calls: Iterable[Call]) -> int:
    """The memory that it takes to make ``calls`` again: their regions, and what these held before and after."""
    exact = [call for call in calls if call.is_exact]
    regions = [region for call in exact for region in call.regions]
    contents = {content.sha256: region.size for region in regions for content in (region.before, region.after)}
    return sum(region.size for region in regions) + sum(contents.values())


def fitting(calls: Iterable[Call]) -> tuple[Call, ...]:
    """The first of ``calls`` that can be made again together."""
    kept: list[Call] = []
    for call in calls:
        if bytes_at_once([*kept, call]) > MOST_AT_ONCE:
            break
        kept.append(call)
    return tuple(kept)


def fault_in(call: Call) -> str | None:
    """What is inconsistent in a call that has the right types, or None."""
    reached = {argument.memory.region for argument in call.arguments if argument.memory}
    if unreached := set(range(len(call.regions))) - reached:
        return f"region {min(unreached)} is reached by no argument"
    for number in (call.result, *(argument.number for argument in call.arguments)):
        if number and len(number.value) != 2 * _size_of(number.code):
            return f"{number.value} is no number of type {number.code}"
    for place, argument in enumerate(call.arguments, 1):
        memory = argument.memory
        if memory is None:
            continue
        if argument.number is not None:
            return f"argument {place} is a number and memory"
        if memory.region >= len(call.regions):
            return f"argument {place} is in region {memory.region}, which is not there"
        low, high = _reach(memory)
        if memory.offset + low < 0 or memory.offset + high > call.regions[memory.region].size:
            return f"argument {place} reaches out of its region"
    for content in call.contents:
        if (content.sha256 is None) == (content.sample is None) or (content.sample and content.kind != "floats"):
            return "a region is neither kept nor sampled as floats"
    return None


def _size_of(code: str) -> int:
    """The size of a C type in bytes."""
    return _LONG_DOUBLE if code == "g" else struct.calcsize(code)


def _reach(memory: Memory) -> tuple[int, int]:
    """The first byte and the one behind the last, from where the pointer points."""
    if len(memory.extents) != len(memory.strides) or any(extent < 0 for extent in memory.extents):
        return -1 << 62, 0
    if 0 in memory.extents:
        return 0, 0
    ends = [stride * (extent - 1) for extent, stride in zip(memory.extents, memory.strides, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + int(memory.dtype[2:])
