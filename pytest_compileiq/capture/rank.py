"""Functions ranked by their share of a program's time, held against an earlier capture, and made ready to be stored."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeVar

from pytest_compileiq.capture.bundle import DATA, SCHEMA, Bundle, Kernel, KernelShape, UnrecordedShape
from pytest_compileiq.capture.inside.shapes import by_kind, is_of, of_many_values
from pytest_compileiq.capture.program import Calls, Watched
from pytest_compileiq.capture.recorded_calls import fitting
from pytest_compileiq.errors import UserError

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class RankedShape:
    """The calls of a function with arguments of one shape. Where a part says ``int`` or ``[…]``, it varies."""

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


def ranked(watched: Watched) -> list[RankedFunction]:
    """All functions by share, the largest first."""
    net_ns = max(watched.elapsed_ns - watched.watching_ns, 1)
    functions: defaultdict[tuple[str, str], list[Calls]] = defaultdict(list)
    for calls in watched.calls:
        functions[calls.library, calls.name].append(calls)
    found = [_function(*key, calls, net_ns) for key, calls in functions.items()]
    return sorted(found, key=lambda function: (-function.own_ns, function.library, function.name))


def that_count(functions: Sequence[RankedFunction], top: int, share: float) -> list[RankedFunction]:
    """The first ``top``, or fewer if these already hold ``share`` of the time of all."""
    wanted_ns = share * sum(function.own_ns for function in functions)
    kept: list[RankedFunction] = []
    for function in functions[:top]:
        if kept and sum(each.own_ns for each in kept) >= wanted_ns:
            break
        kept.append(function)
    return kept


def _function(library: str, name: str, calls: Sequence[Calls], net_ns: int) -> RankedFunction:
    shapes = [
        RankedShape(shape, sum(each.calls for each in alike), own_ns, own_ns / net_ns)
        for shape, alike in few_shapes(calls).items()
        for own_ns in [sum(each.own_ns for each in alike)]
    ]
    shapes.sort(key=lambda each: -each.own_ns)
    total_ns = sum(each.own_ns for each in shapes)
    count = sum(each.calls for each in shapes)
    return RankedFunction(library, name, count, total_ns, total_ns / net_ns, tuple(shapes))


class Shaped(Protocol):
    """Calls on one shape."""

    @property
    def shape(self) -> Shape: ...


_Shaped = TypeVar("_Shaped", bound=Shaped)


def few_shapes(calls: Iterable[_Shaped]) -> dict[Shape, list[_Shaped]]:
    """Calls by shape, of which there are few: see ``of_many_values``."""
    each_once = list(calls)
    places = of_many_values(each.shape for each in each_once)
    by_shape: defaultdict[Shape, list[_Shaped]] = defaultdict(list)
    for each in each_once:
        by_shape[by_kind(each.shape, places)].append(each)
    return dict(by_shape)


@dataclass(frozen=True)
class Compared:
    """A captured kernel, and what the program calls of it now.

    Attributes:
        captured: shape → calls of then; an argument of many values is told by its kind alone.
        calls: of now.
        gone: the shapes of ``captured`` on which it is no longer called.
        new: shape → calls of now, on shapes that are none of ``captured``.
    """

    name: str
    captured: Mapping[Shape, int]
    calls: int
    gone: tuple[Shape, ...]
    new: Mapping[Shape, int]

    @property
    def is_as_captured(self) -> bool:
        """Whether nothing changed."""
        return bool(self.calls) and not self.gone and not self.new


def captured_kernels(bundle: Bundle) -> dict[str, Kernel]:
    """Name → kernel, each with all shapes that it was called on.

    Raises:
        UserError: there is no capture, or there are no kernels in it, or not all their shapes.
        StoreError: a kernel cannot be read.
    """
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


def compared(kernels: Mapping[str, Kernel], watched: Watched) -> list[Compared]:
    """Each captured kernel beside what was watched now."""
    return [_compared(name, kernel, _calls_of(kernel, watched)) for name, kernel in kernels.items()]


def _compared(name: str, kernel: Kernel, calls: list[Calls]) -> Compared:
    captured = _few([*kernel.shapes, *(kernel.unrecorded or ())])
    now = [each.shape for each in calls]
    gone = [shape for shape in captured if not any(is_of(each, shape) for each in now)]
    new = [each for each in calls if not any(is_of(each.shape, shape) for shape in captured)]
    return Compared(
        name=name,
        captured=captured,
        calls=sum(each.calls for each in calls),
        gone=tuple(shape for shape in gone if shape or len(captured) == 1),  # () beside others: not told apart then
        new=_few(new),
    )


def _few(calls: Iterable[Calls | KernelShape | UnrecordedShape]) -> dict[Shape, int]:
    """Few shapes → calls."""
    return {shape: sum(each.calls for each in alike) for shape, alike in few_shapes(calls).items()}


def _calls_of(kernel: Kernel, watched: Watched) -> list[Calls]:
    """The calls of its function: in the library at its path, else in one of that name, as of another checkout."""
    named = [each for each in watched.calls if each.name == kernel.function]
    at_its_path = [each for each in named if each.library == kernel.library]
    return at_its_path or [each for each in named if Path(each.library).name == Path(kernel.library).name]


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
