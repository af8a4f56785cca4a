"""The functions of a program whose calls were recorded, as they are stored."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pytest_compileiq.capture.bundle import DATA, SCHEMA, Kernel, KernelShape, UnrecordedShape
from pytest_compileiq.capture.program import Calls, Watched
from pytest_compileiq.capture.rank import RankedFunction, Shape, few_shapes
from pytest_compileiq.capture.recorded_calls import fitting

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]|^[.-]")


def kernels_of(
    watched: Watched, functions: Sequence[RankedFunction], extents: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Kernel]:
    """Name → kernel, of those of ``functions`` of which a call was recorded; shapes in the order of their time.

    ``extents`` has, by function, what the user said of the memory of its arguments.
    """
    calls: defaultdict[tuple[str, str], list[Calls]] = defaultdict(list)
    for each in watched.calls:
        calls[each.library, each.name].append(each)
    kernels: dict[str, Kernel] = {}
    for function in functions:
        every = [_together(*alike) for alike in few_shapes(calls[function.library, function.name]).items()]
        every.sort(key=lambda shape: -shape.own_ns)
        shapes = tuple(shape for shape in every if shape.kept)
        if shapes:
            kernels[_name(function, kernels)] = Kernel(
                schema=SCHEMA,
                function=function.name,
                library=function.library,
                library_sha256=_digest_of(Path(function.library)),
                share=function.share,
                shapes=shapes,
                unrecorded=tuple(UnrecordedShape(each.shape, each.calls) for each in every if not each.kept),
                extents=extents.get(function.name),
            )
    return kernels


def _together(shape: Shape, alike: Sequence[Calls]) -> KernelShape:
    kept = {
        call.number: call for each in alike for call in each.kept
    }  # which each door that it is called through tells
    in_order = fitting(kept[number] for number in sorted(kept))
    return KernelShape(shape, sum(each.calls for each in alike), sum(each.own_ns for each in alike), in_order)


def _name(function: RankedFunction, taken: dict[str, Kernel]) -> str:
    """The directory of a kernel: its function's name, with its library's digest where that is another's."""
    name = _UNSAFE.sub("_", function.name)[:100]
    if name not in (*taken, DATA):
        return name
    return f"{name}-{hashlib.sha256(function.library.encode()).hexdigest()[:8]}"


def _digest_of(library: Path) -> str | None:
    try:
        with library.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None
