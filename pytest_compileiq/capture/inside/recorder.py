"""Keeps some calls whole: the arguments, and the memory that they reach, before the call and after it.

Contents are written to a directory under their digests, so that a table that every call is given lies there once, and
is gone with the last call that is kept of it.

Of each of a function's few shapes the first call is kept, and of the others those that drew the smallest numbers:
bottom-k sampling (Cohen and Kaplan, PODC 2007). Which arguments take many values, so that shapes are one, is known only
after many calls. Samples of this kind can be joined then: the smallest draws of two samples are those of all calls of
both. Where shapes come apart again, only what drew less than the bounds of all samples that it was in is still a fair
sample, and that is kept.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from . import cffi_hook
from .counters import RAISED, given_to, number_of
from .shapes import by_kind, of_many_values, told_of_shape
from .values import Memory, Number, Refused, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .counters import ForeignCall
    from .shapes import Shape, Told
    from .values import ForeignFunction

MOST_SAMPLES = 32  # of a function, before its shapes are made fewer
SAMPLED_ELEMENTS = 1024  # of an array of floats beyond the quota
_MOST_TOLD = 20_000  # shapes of a function by which it is known which arguments take many values
_PAGE = 4096
_SEED = 20  # of our own source: the program's random numbers stay as they are


class DrawnCall:
    """A call that drew a small number; ``number`` counts the calls of its function from 1."""

    __slots__ = ("draw", "number", "shape")

    def __init__(self, number: int, draw: float, shape: Shape) -> None:
        self.number = number
        self.draw = draw
        self.shape = shape


class Sample:
    """The first call on shapes that count as one, and of the others the ``size`` that drew the smallest numbers."""

    def __init__(self, size: int, shape: Shape) -> None:
        self.shape = shape  # one of its shapes
        self.bound = 1.0  # what drew more is not in it
        self.calls: list[DrawnCall] = []  # the first, and the others
        self._size = size

    def wants(self, draw: float) -> bool:
        return not self.calls or draw <= self.bound

    def add(self, call: DrawnCall) -> DrawnCall | None:
        """Keep a call; gives the one that is kept no longer, which may be the same."""
        if not self.wants(call.draw):
            return call
        self.calls.append(call)
        dropped = None
        if len(self.calls) > 1 + self._size:
            dropped = max(self.calls[1:], key=lambda each: each.draw)
            self.calls.remove(dropped)
        if len(self.calls) == 1 + self._size:
            self.bound = max((each.draw for each in self.calls[1:]), default=0.0)
        return dropped


class FunctionCalls:
    """The calls that are kept of a function: ``size`` of each shape beside the first; ``drop`` is given the others."""

    def __init__(self, size: int, drop: Callable[[DrawnCall], None]) -> None:
        self.seen = 0
        self._size = size
        self._drop = drop
        self._told: dict[Shape, Told] = {}
        self._by_kind: frozenset[int] = frozenset()
        self._samples: dict[Told, Sample] = {}
        self._known: dict[Shape, Sample] = {}  # what was looked up already
        self._may_merge = True

    def sample(self, shape: Shape) -> Sample | None:
        """The sample that takes in calls of this shape; None where there are too many, and no rule makes them fewer."""
        try:
            return self._known[shape]
        except KeyError:
            pass
        if shape not in self._told and len(self._told) < _MOST_TOLD:
            self._told[shape] = tuple(told_of_shape(shape))
        if self._key(shape) not in self._samples and len(self._samples) >= MOST_SAMPLES and self._may_merge:
            self.merge()
        key = self._key(shape)
        if key not in self._samples and len(self._samples) < MOST_SAMPLES:
            self._samples[key] = Sample(self._size, shape)
        sample = self._samples.get(key)
        if sample is not None and shape in self._told:
            self._known[shape] = sample
        return sample

    def add(self, call: DrawnCall) -> None:
        sample = self.sample(call.shape)
        if sample is not None and call.shape not in self._told:  # nobody will ask for it
            call.shape = sample.shape
        dropped = call if sample is None else sample.add(call)
        if dropped is not None:
            self._drop(dropped)

    def merge(self) -> None:
        """Make the shapes few, by the rule of the ranking."""
        self._may_merge = False
        before, earlier = self._samples, {shape: self._key(shape) for shape in self._told}
        self._by_kind = of_many_values(self._told.values())
        self._samples, self._known = {}, {}
        for shape, key in earlier.items():
            if key in before:
                sample = self._samples.setdefault(self._key(shape), Sample(self._size, shape))
                sample.bound = min(sample.bound, before[key].bound)
        for call in sorted((call for each in before.values() for call in each.calls), key=lambda call: call.number):
            self.add(call)
        self._may_merge = len(self._samples) < MOST_SAMPLES

    def kept(self, shape: Shape) -> Iterator[DrawnCall]:
        sample = self.sample(shape) if shape in self._told else None
        return (call for call in sample.calls if call.shape == shape) if sample else iter(())

    def _key(self, shape: Shape) -> Told:
        told = self._told.get(shape)
        return by_kind(tuple(told_of_shape(shape)) if told is None else told, self._by_kind)


class MemoryRegion:
    """A stretch of memory that one or several arguments reach."""

    def __init__(self, memory: Memory) -> None:
        self.start = memory.start
        self.end = memory.start + memory.size
        self.dtypes = {memory.dtype}
        self.before: dict[str, Any] = {}

    @property
    def size(self) -> int:
        return self.end - self.start

    def read(self) -> bytes:
        return ctypes.string_at(self.start, self.size)

    def sample(self) -> bytes:
        """Some of the elements that it holds now, evenly spaced."""
        step = int(min(self.dtypes)[2:])
        count = self.size // step
        places = range(0, count, max(1, count // SAMPLED_ELEMENTS))[:SAMPLED_ELEMENTS]
        return b"".join(ctypes.string_at(self.start + place * step, step) for place in places)


def regions_of(arguments: list[Number | Memory | None]) -> list[MemoryRegion]:
    """The memory that a call's arguments reach, in the order of its addresses; what touches is one region."""
    regions: list[MemoryRegion] = []
    for memory in sorted((each for each in arguments if isinstance(each, Memory)), key=lambda each: each.start):
        if regions and memory.start <= regions[-1].end:
            regions[-1].end = max(regions[-1].end, memory.start + memory.size)
            regions[-1].dtypes.add(memory.dtype)
        else:
            regions.append(MemoryRegion(memory))
    return regions


class Recording(DrawnCall):
    """One call: its arguments, and the regions that they reach."""

    def __init__(self, drawn: DrawnCall, arguments: list[Number | Memory | None]) -> None:
        super().__init__(drawn.number, drawn.draw, drawn.shape)
        self.arguments = arguments
        self.result: Number | None = None
        self.after: list[dict[str, Any]] = []
        self.regions = regions_of(arguments)

    def told(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "arguments": list(map(self._told_argument, self.arguments)),
            "regions": [
                {"size": each.size, "page_offset": each.start % _PAGE, "before": each.before, "after": after}
                for each, after in zip(self.regions, self.after)  # noqa: B905 - for Python 3.9
            ],
            "result": _told_number(self.result),
        }

    def _told_argument(self, argument: Number | Memory | None) -> dict[str, Any]:
        if not isinstance(argument, Memory):
            return {"number": _told_number(argument), "memory": None}
        around = (at for at, each in enumerate(self.regions) if each.start <= argument.start <= each.end)
        region = next(around)
        memory = {
            "region": region,
            "offset": argument.pointer - self.regions[region].start,
            "dtype": argument.dtype,
            "extents": list(argument.extents),
            "strides": list(argument.strides),
        }
        return {"number": None, "memory": memory}


def _told_number(number: Number | None) -> dict[str, str] | None:
    return number and {"code": number.code, "value": number.value.hex()}


class Recorder:
    """Records calls into ``folder``; never raises into the program.

    Args:
        folder: where contents go.
        sampled: calls kept beside the first, of each function and each of its few shapes.
        quota_bytes: of all contents that are kept at one time: ``{"integers": …, "floats": …}``.
        extents: what ``values.parsed`` takes.
    """

    def __init__(self, folder: str, sampled: int, quota_bytes: dict[str, int], extents: Sequence[str] = ()) -> None:
        self._folder = folder
        self._sampled = sampled
        self._quota = quota_bytes
        self._left = dict(quota_bytes)
        self._extents = {each.function: each for each in map(parsed, extents)}
        self._functions: dict[tuple[str, str], FunctionCalls] = {}  # by library and name, whatever it is called through
        self._refused: dict[ForeignFunction, Counter[str]] = {}
        self._uses: Counter[str | None] = Counter()
        self._lock = threading.RLock()  # a finaliser may make a watched call while this thread is in here
        self._random = random.Random(_SEED)
        self._is_closed = False
        cffi_hook.is_recording = True

    def begin(
        self, called: Any, function: ForeignFunction, shape: Shape, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Recording | None:
        """The call that is about to be made, if it is one to keep; its memory is read now."""
        with self._lock:
            calls = self._calls(function)
            calls.seen += 1
            draw = self._random.random()
            sample = calls.sample(shape)
            if sample is None:
                self._refuse(function, f"it is called with more than {MOST_SAMPLES} kinds of arguments")
            if sample is None or not sample.wants(draw):
                return None
            drawn, recording = DrawnCall(calls.seen, draw, shape), None
        try:
            # Not under the lock: the arguments' own methods are the program's code.
            given = given_to(function, called, arguments, named, self._extents.get(function.name))
            recording = Recording(drawn, given)
            with self._lock:
                for region in recording.regions:
                    region.before = self._keep(region)
        except Refused as why:
            with self._lock:
                self._give_up(function, drawn, recording, why)
            return None
        return recording

    def finish(self, recording: Recording, made: ForeignCall) -> None:
        """The call has ended: read its memory again, and keep it, unless it ``RAISED``."""
        with self._lock:
            if self._is_closed:
                return
            try:
                if made.result is RAISED:
                    raise Refused("it raised an exception")
                recording.result = number_of(made.function, made.called, made.result)
                for region in recording.regions:
                    recording.after.append(self._keep(region))
            except Refused as why:
                self._give_up(made.function, DrawnCall(recording.number, recording.draw, made.shape), recording, why)
                return
            self._calls(made.function).add(recording)

    def close(self) -> None:
        """Keep what is kept, of few shapes: calls that are still being made are no longer recorded."""
        with self._lock:
            self._is_closed = True
            for calls in self._functions.values():
                calls.merge()

    def kept(self, function: ForeignFunction, shape: Shape) -> list[dict[str, Any]]:
        return [each.told() for each in self._calls(function).kept(shape) if isinstance(each, Recording)]

    def refused(self) -> list[dict[str, Any]]:
        return [
            {"library": function.library, "name": function.name, "why": why, "calls": calls}
            for function, reasons in self._refused.items()
            for why, calls in reasons.items()
        ]

    def _calls(self, function: ForeignFunction) -> FunctionCalls:
        key = function.library, function.name
        if key not in self._functions:
            self._functions[key] = FunctionCalls(self._sampled, self._release)
        return self._functions[key]

    def _give_up(self, function: ForeignFunction, drawn: DrawnCall, recording: Recording | None, why: Refused) -> None:
        """Say why, and keep the call's place in its sample: that costs as little as where calls are recorded."""
        self._refuse(function, str(why))
        if recording is not None:
            self._release(recording)
        self._calls(function).add(drawn)

    def _refuse(self, function: ForeignFunction, why: str) -> None:
        self._refused.setdefault(function, Counter())[why] += 1

    def _keep(self, region: MemoryRegion) -> dict[str, Any]:
        # Floats may be told by a sample; values of all other types decide what a kernel does.
        is_of_floats = len(region.dtypes) == 1 and min(region.dtypes)[1] in "fc"
        kind = "floats" if is_of_floats else "integers"
        digest = None
        if region.size <= self._quota[kind]:
            data = region.read()
            digest = hashlib.sha256(data).hexdigest()
            if not self._uses[digest] and len(data) > self._left[kind]:
                digest = None
            elif not self._uses[digest]:
                self._left[kind] -= len(data)
                with open(os.path.join(self._folder, digest), "wb") as stream:
                    stream.write(data)
        if digest is None and kind == "integers":
            raise Refused("its integers are beyond the quota")
        self._uses[digest] += 1
        return {"sha256": digest, "sample": None if digest else region.sample().hex(), "kind": kind}

    def _release(self, call: DrawnCall) -> None:
        if not isinstance(call, Recording):
            return
        for content in (*(region.before for region in call.regions if region.before), *call.after):
            digest = content["sha256"]
            if digest is None:
                continue
            self._uses[digest] -= 1
            if not self._uses[digest]:
                path = os.path.join(self._folder, digest)
                self._left[content["kind"]] += os.path.getsize(path)
                os.unlink(path)
