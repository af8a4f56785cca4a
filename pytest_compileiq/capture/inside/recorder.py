"""Keeps some calls whole: the arguments, and the memory that they reach, before the call and after it.

Contents are written to a directory under their digests, so that a table that every call is given lies there once, and
is gone with the last call that is kept of it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from . import cffi_memory
from .extents import parsed
from .foreign_call import RAISED, given_to
from .samples import MOST_SAMPLES, Drawn, FunctionCalls
from .values import Memory, Number, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .foreign_call import ForeignCall
    from .shapes import Shape
    from .tally import Function

SAMPLED_ELEMENTS = 1024  # of an array of floats beyond the quota
_PAGE = 4096
_SEED = 20  # of our own source: the program's random numbers stay as they are


class Region:
    """A stretch of memory that one or several arguments reach."""

    def __init__(self, memory: Memory) -> None:
        self.start = memory.start
        self.end = memory.start + memory.size
        self.dtypes = {memory.dtype}
        self.before: dict[str, Any] = {}

    def takes_in(self, other: Region) -> bool:
        """Grow over ``other`` if both touch."""
        if other.start > self.end or self.start > other.end:
            return False
        self.start, self.end = min(self.start, other.start), max(self.end, other.end)
        self.dtypes |= other.dtypes
        return True

    @property
    def size(self) -> int:
        """In bytes."""
        return self.end - self.start

    def read(self) -> bytes:
        """What it holds now."""
        return ctypes.string_at(self.start, self.size)

    def sample(self) -> bytes:
        """Some of the elements that it holds now, evenly spaced."""
        step = int(min(self.dtypes)[2:])
        count = self.size // step
        places = range(0, count, max(1, count // SAMPLED_ELEMENTS))[:SAMPLED_ELEMENTS]
        return b"".join(ctypes.string_at(self.start + place * step, step) for place in places)

    @property
    def is_of_floats(self) -> bool:
        """Whether its values may be told by a sample: those of all others decide what a kernel does."""
        return len(self.dtypes) == 1 and min(self.dtypes)[1] in "fc"


def regions_of(arguments: list[Number | Memory | None]) -> list[Region]:
    """The memory that a call's arguments reach, in the order of its addresses."""
    regions: list[Region] = []
    reached = (Region(each) for each in arguments if isinstance(each, Memory))
    for region in sorted(reached, key=lambda region: region.start):
        if not (regions and regions[-1].takes_in(region)):
            regions.append(region)
    return regions


class Recording(Drawn):
    """One call: its arguments, and the regions that they reach."""

    def __init__(self, drawn: Drawn, arguments: list[Number | Memory | None]) -> None:
        super().__init__(drawn.number, drawn.draw, drawn.shape)
        self.arguments = arguments
        self.result: Number | None = None
        self.after: list[dict[str, Any]] = []
        self.regions = regions_of(arguments)

    def contents(self) -> list[dict[str, Any]]:
        """All that is kept of its memory."""
        return [*(region.before for region in self.regions if region.before), *self.after]

    def told(self) -> dict[str, Any]:
        """In JSON's types."""
        return {
            "number": self.number,
            "arguments": [self._told_argument(argument) for argument in self.arguments],
            "regions": [
                {
                    "size": region.size,
                    "page_offset": region.start % _PAGE,
                    "before": region.before,
                    "after": self.after[at],
                }
                for at, region in enumerate(self.regions)
            ],
            "result": _told_number(self.result),
        }

    def _told_argument(self, argument: Number | Memory | None) -> dict[str, Any]:
        if not isinstance(argument, Memory):
            return {"number": _told_number(argument), "memory": None}
        at, region = next(
            (at, each) for at, each in enumerate(self.regions) if each.start <= argument.start <= each.end
        )
        return {
            "number": None,
            "memory": {
                "region": at,
                "offset": argument.pointer - region.start,
                "dtype": argument.dtype,
                "extents": list(argument.extents),
                "strides": list(argument.strides),
            },
        }


def _told_number(number: Number | None) -> dict[str, str] | None:
    return number and {"code": number.code, "value": number.value.hex()}


class Recorder:
    """Records calls into ``folder``; never raises into the program.

    Args:
        folder: where contents go.
        sampled: calls kept beside the first, of each function and each of its few shapes.
        quota_bytes: of all contents that are kept at one time: ``{"integers": …, "floats": …}``.
        extents: what ``extents.parsed`` takes.
    """

    def __init__(self, folder: str, sampled: int, quota_bytes: dict[str, int], extents: Sequence[str] = ()) -> None:
        self._folder = folder
        self._sampled = sampled
        self._quota = quota_bytes
        self._left = dict(quota_bytes)
        self._extents = {each.function: each for each in map(parsed, extents)}
        self._functions: dict[tuple[str, str], FunctionCalls] = {}  # by library and name, whatever it is called through
        self._refused: dict[Function, Counter[str]] = {}
        self._uses: Counter[str | None] = Counter()
        self._lock = threading.RLock()  # a finaliser may make a watched call while this thread is in here
        self._random = random.Random(_SEED)
        self._is_closed = False
        cffi_memory.is_recording = True

    def begin(
        self, called: Any, function: Function, shape: Shape, arguments: tuple[Any, ...], named: dict[str, Any]
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
            drawn, recording = Drawn(calls.seen, draw, shape), None
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
                recording.result = made.returned
                for region in recording.regions:
                    recording.after.append(self._keep(region))
            except Refused as why:
                self._give_up(made.function, Drawn(recording.number, recording.draw, made.shape), recording, why)
                return
            self._calls(made.function).add(recording)

    def close(self) -> None:
        """Keep what is kept, of few shapes: calls that are still being made are no longer recorded."""
        with self._lock:
            self._is_closed = True
            for calls in self._functions.values():
                calls.merge()

    def kept(self, function: Function, shape: Shape) -> list[dict[str, Any]]:
        """The recorded calls of a function with this shape, in JSON's types."""
        kept = self._calls(function).kept(shape)
        return [each.told() for each in kept if isinstance(each, Recording)]

    def refused(self) -> list[dict[str, Any]]:
        """Why calls were not recorded, and how many, by function and reason, in JSON's types."""
        return [
            {"library": function.library, "name": function.name, "why": why, "calls": calls}
            for function, reasons in self._refused.items()
            for why, calls in reasons.items()
        ]

    def _calls(self, function: Function) -> FunctionCalls:
        key = function.library, function.name
        if key not in self._functions:
            self._functions[key] = FunctionCalls(self._sampled, self._release)
        return self._functions[key]

    def _give_up(self, function: Function, drawn: Drawn, recording: Recording | None, why: Refused) -> None:
        """Say why, and keep the call's place in its sample: that costs as little as where calls are recorded."""
        self._refuse(function, str(why))
        if recording is not None:
            self._release(recording)
        self._calls(function).add(drawn)

    def _refuse(self, function: Function, why: str) -> None:
        self._refused.setdefault(function, Counter())[why] += 1

    def _keep(self, region: Region) -> dict[str, Any]:
        kind = "floats" if region.is_of_floats else "integers"
        digest = self._stored(region, kind) if region.size <= self._quota[kind] else None
        if digest is None and kind == "integers":
            raise Refused("its integers are beyond the quota")
        self._uses[digest] += 1
        return {"sha256": digest, "sample": None if digest else region.sample().hex(), "kind": kind}

    def _stored(self, region: Region, kind: str) -> str | None:
        """The digest under which the content lies in the folder, or None where the quota is used up."""
        data = region.read()
        digest = hashlib.sha256(data).hexdigest()
        if not self._uses[digest]:
            if len(data) > self._left[kind]:
                return None
            self._left[kind] -= len(data)
            with open(os.path.join(self._folder, digest), "wb") as stream:
                stream.write(data)
        return digest

    def _release(self, call: Drawn) -> None:
        for content in call.contents() if isinstance(call, Recording) else ():
            digest = content["sha256"]
            if digest is None:
                continue
            self._uses[digest] -= 1
            if not self._uses[digest]:
                path = os.path.join(self._folder, digest)
                self._left[content["kind"]] += os.path.getsize(path)
                os.unlink(path)
