"""Functions ranked by their share of a program's time, and each one's shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pytest_compileiq.capture.inside.shapes import by_kind, of_many_values
from pytest_compileiq.capture.program import Calls, Watched

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
    def shape(self) -> Shape: ...  # noqa: D102 - see above


_Shaped = TypeVar("_Shaped", bound=Shaped)


def few_shapes(calls: Iterable[_Shaped]) -> dict[Shape, list[_Shaped]]:
    """Calls by shape, of which there are few: see ``of_many_values``."""
    each_once = list(calls)
    places = of_many_values(each.shape for each in each_once)
    by_shape: defaultdict[Shape, list[_Shaped]] = defaultdict(list)
    for each in each_once:
        by_shape[by_kind(each.shape, places)].append(each)
    return dict(by_shape)
