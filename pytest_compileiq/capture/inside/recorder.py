"""Keeps some calls whole: the arguments, and the memory that they reach, before the call and after it.

Of each function and shape the first call and a random few, by reservoir sampling (Vitter, ACM Trans. Math. Softw. 11,
1985, algorithm R). Contents are written to a directory under their digests, so that a table that every call is given
lies there once, and is gone with the last call that is kept of it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from .ctypes_arguments import Memory, Number, Refused, returned, taken

if TYPE_CHECKING:
    from .shapes import Shape
    from .tally import Function

RAISED = object()  # in a result's place
MOST_SHAPES = 16  # of a function; the calls of later ones are not recorded
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


class Recording:
    """One call: its arguments, and the regions that they reach."""

    def __init__(self, number: int, arguments: list[Number | Memory | None]) -> None:
        self.number = number
        self.arguments = arguments
        self.result: Number | None = None
        self.after: list[dict[str, Any]] = []
        self.regions: list[Region] = []
        reached = (Region(each) for each in arguments if isinstance(each, Memory))
        for region in sorted(reached, key=lambda region: region.start):
            if not (self.regions and self.regions[-1].takes_in(region)):
                self.regions.append(region)

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


class _Reservoir:
    """The calls that are kept of one function and shape."""

    def __init__(self) -> None:
        self.seen = 0
        self.kept: dict[int, Recording] = {}  # by place; 0 is the first call's


class Recorder:
    """Records calls into ``folder``; never raises into the program.

    Args:
        folder: where contents go.
        sampled: calls kept beside the first, of each function and shape.
        quota_bytes: of all contents that are kept at one time: ``{"integers": …, "floats": …}``.
    """

    def __init__(self, folder: str, sampled: int, quota_bytes: dict[str, int]) -> None:
        self._folder = folder
        self._sampled = sampled
        self._quota = quota_bytes
        self._left = dict(quota_bytes)
        self._reservoirs: dict[tuple[Function, Shape], _Reservoir] = {}
        self._refused: dict[Function, Counter[str]] = {}
        self._shapes: Counter[Function] = Counter()
        self._uses: Counter[str | None] = Counter()
        self._lock = threading.RLock()  # a finaliser may make a watched call while this thread is in here
        self._random = random.Random(_SEED)
        self._is_closed = False

    def begin(
        self, called: Any, function: Function, shape: Shape, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Recording | None:
        """The call that is about to be made, if it is one to keep; its memory is read now."""
        with self._lock:
            reservoir = self._reservoirs.get((function, shape))
            if reservoir is None:
                self._shapes[function] += 1
                reservoir = self._reservoirs[function, shape] = _Reservoir()
            is_wanted = self._is_wanted(reservoir.seen)
            reservoir.seen += 1
            if not is_wanted:
                return None
            recording = None
            try:
                if self._shapes[function] > MOST_SHAPES:
                    raise Refused(
                        f"it is called with more than {MOST_SHAPES} shapes of arguments; each value of an integer, "
                        "as of a seed, is a shape here, and of the first ones alone calls are kept"
                    )
                if function.door != "ctypes" or named:
                    raise Refused("it is called with named arguments" if named else "it is called through cffi")
                recording = Recording(reservoir.seen, taken(called, arguments))
                for region in recording.regions:
                    region.before = self._keep(region)
            except Refused as why:
                self._refuse(function, str(why))
                self._release(recording)
                return None
            return recording

    def finish(self, called: Any, function: Function, shape: Shape, recording: Recording, result: Any) -> None:
        """The call has ended: read its memory again, and keep it, unless it ``RAISED``."""
        with self._lock:
            if self._is_closed:
                return
            try:
                if result is RAISED:
                    raise Refused("it raised an exception")
                recording.result = returned(called, result)
                for region in recording.regions:
                    recording.after.append(self._keep(region))
            except Refused as why:
                self._refuse(function, str(why))
                self._release(recording)
                return
            kept = self._reservoirs[function, shape].kept
            place = len(kept) if len(kept) <= self._sampled else 1 + self._random.randrange(self._sampled)
            self._release(kept.get(place))
            kept[place] = recording

    def close(self) -> None:
        """Keep what is kept: calls that are still being made are no longer recorded."""
        with self._lock:
            self._is_closed = True

    def kept(self, function: Function, shape: Shape) -> list[dict[str, Any]]:
        """The recorded calls of a function with this shape, in JSON's types."""
        reservoir = self._reservoirs.get((function, shape))
        return [each.told() for each in reservoir.kept.values()] if reservoir else []

    def refused(self) -> list[dict[str, Any]]:
        """Why calls were not recorded, and how many, by function and reason, in JSON's types."""
        return [
            {"library": function.library, "name": function.name, "why": why, "calls": calls}
            for function, reasons in self._refused.items()
            for why, calls in reasons.items()
        ]

    def _is_wanted(self, seen: int) -> bool:
        """Whether call ``seen``, counted from 0, is kept: all until the reservoir is full, then fewer and fewer."""
        return seen <= self._sampled or self._random.randrange(seen) < self._sampled

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

    def _release(self, recording: Recording | None) -> None:
        for content in recording.contents() if recording else ():
            digest = content["sha256"]
            if digest is None:
                continue
            self._uses[digest] -= 1
            if not self._uses[digest]:
                path = os.path.join(self._folder, digest)
                self._left[content["kind"]] += os.path.getsize(path)
                os.unlink(path)
