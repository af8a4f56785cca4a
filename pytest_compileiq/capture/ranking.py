"""Functions ranked by their share of a program's time, compared with an earlier capture, and prepared for storage."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

from pytest_compileiq.capture.bundle import (
    SCHEMA,
    Bundle,
    CapturedKernel,
    KernelShape,
    UnrecordedShape,
    fitting,
    free_name,
)
from pytest_compileiq.capture.inside.shapes import by_kind, is_of, of_many_values
from pytest_compileiq.capture.inside.values import at_path
from pytest_compileiq.capture.program import CallAccount, Calls
from pytest_compileiq.errors import UserError

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class RankedShape:
    """The calls of a function with arguments of one shape, in their usual time.

    Where a part says ``int`` or ``[…]``, it varies.
    """

    shape: Shape
    calls: int
    own_ns: int
    share: float


@dataclass(frozen=True)
class RankedFunction:
    """A function's share of the program's time, watching subtracted; its shapes are in the order of theirs."""

    library: str
    name: str
    calls: int
    own_ns: int
    share: float
    shapes: tuple[RankedShape, ...]


def ranked(account: CallAccount) -> list[RankedFunction]:
    """Rank all functions by share, the largest first."""
    net_ns = max(account.elapsed_ns - account.watching_ns, 1)
    found = []
    for (library, name), calls in _by_function(account).items():
        shapes = []
        for shape, alike in few_shapes(calls).items():
            own_ns = sum(each.usual_ns for each in alike)
            shapes.append(RankedShape(shape, sum(each.calls for each in alike), own_ns, own_ns / net_ns))
        shapes.sort(key=lambda each: -each.own_ns)
        own_ns = sum(each.own_ns for each in shapes)
        count = sum(each.calls for each in shapes)
        found.append(RankedFunction(library, name, count, own_ns, own_ns / net_ns, tuple(shapes)))
    return sorted(found, key=lambda function: (-function.own_ns, function.library, function.name))


def _by_function(account: CallAccount) -> dict[tuple[str, str], list[Calls]]:
    functions: defaultdict[tuple[str, str], list[Calls]] = defaultdict(list)
    for calls in account.calls:
        functions[calls.library, calls.name].append(calls)
    return functions


_Ranked = TypeVar("_Ranked")


def leading(kernels: Sequence[_Ranked], weight: Callable[[_Ranked], int], top: int, share: float) -> list[_Ranked]:
    """The first ``top``, or fewer if these already hold ``share`` of the weight of all."""
    wanted = share * sum(map(weight, kernels))
    kept: list[_Ranked] = []
    for kernel in kernels[:top]:
        if kept and sum(map(weight, kept)) >= wanted:
            break
        kept.append(kernel)
    return kept


_Shaped = TypeVar("_Shaped", bound=Calls | KernelShape | UnrecordedShape)


def few_shapes(calls: Iterable[_Shaped]) -> dict[Shape, list[_Shaped]]:
    """Calls by shape, of which there are few: see ``of_many_values``."""
    each_once = list(calls)
    places = of_many_values(each.shape for each in each_once)
    by_shape: defaultdict[Shape, list[_Shaped]] = defaultdict(list)
    for each in each_once:
        by_shape[by_kind(each.shape, places)].append(each)
    return dict(by_shape)


_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Compared(Generic[_Part]):
    """A captured kernel, and the calls of it now; a part is a shape, or of a launched kernel a specialisation."""

    name: str
    captured: Sequence[tuple[_Part, int]]  # each part with its calls when it was captured
    calls: int  # of all parts, now
    gone: Sequence[tuple[_Part, int]]  # captured, and no longer called
    new: Sequence[tuple[_Part, int]]  # called now, and not captured
    changed: Sequence[_Part] = ()  # captured and called now, with other code

    @property
    def is_as_captured(self) -> bool:
        return bool(self.calls) and not (self.gone or self.new or self.changed)


def captured_kernels(bundle: Bundle) -> dict[str, CapturedKernel]:
    """Name → kernel, each with all shapes that it was called on."""
    kernels = {name: bundle.read(name) for name in bundle.names()}
    if not kernels:
        raise UserError(f"{bundle.root} holds no kernel, so there is nothing to check")
    for name, kernel in kernels.items():
        if kernel.unrecorded is None:
            raise UserError(
                f"{bundle.root}/{name} was captured by an earlier acf, which did not keep all shapes: capture again, "
                "to another directory, with acf capture --to DIR -- python PROGRAM …"
            )
    return kernels


def compared(kernels: Mapping[str, CapturedKernel], account: CallAccount) -> list[Compared[Shape]]:
    """Compare each captured kernel with what was called now."""

    def few(calls: Iterable[Calls | KernelShape | UnrecordedShape]) -> list[tuple[Shape, int]]:
        return [(shape, sum(each.calls for each in alike)) for shape, alike in few_shapes(calls).items()]

    found = []
    for name, kernel in kernels.items():
        of_its_name = [each for each in account.calls if each.name == kernel.function]
        calls = at_path(of_its_name, kernel.library, lambda each: each.library)
        captured = few(kernel.all_shapes)
        gone = [(shape, count) for shape, count in captured if not any(is_of(each.shape, shape) for each in calls)]
        new = [each for each in calls if not any(is_of(each.shape, shape) for shape, _ in captured)]
        if len(captured) > 1:  # () beside others: not told apart then
            gone = [(shape, count) for shape, count in gone if shape]
        found.append(Compared(name, captured, sum(each.calls for each in calls), gone, few(new)))
    return found


def kernels_of(
    account: CallAccount, functions: Sequence[RankedFunction], extents: Mapping[str, str] = MappingProxyType({})
) -> dict[str, CapturedKernel]:
    """Name → kernel, of those of ``functions`` of which a call was recorded; shapes in the order of their time."""
    calls = _by_function(account)
    kernels: dict[str, CapturedKernel] = {}
    for function in functions:
        every = []
        for shape, alike in few_shapes(calls[function.library, function.name]).items():
            # A call is told by each hook that its function is called through.
            kept = {call.number: call for each in alike for call in each.kept}
            in_order = fitting(kept[number] for number in sorted(kept))
            count, own_ns = sum(each.calls for each in alike), sum(each.usual_ns for each in alike)
            every.append(KernelShape(shape, count, own_ns, in_order))
        every.sort(key=lambda shape: -shape.own_ns)
        if shapes := tuple(shape for shape in every if shape.kept):
            digest = None
            with suppress(OSError), Path(function.library).open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            kernels[free_name(function.name, kernels, function.library)] = CapturedKernel(
                schema=SCHEMA,
                function=function.name,
                library=function.library,
                library_sha256=digest,
                share=function.share,
                shapes=shapes,
                unrecorded=tuple(UnrecordedShape(each.shape, each.calls) for each in every if not each.kept),
                extents=extents.get(function.name),
            )
    return kernels
