"""Whether a program still calls what was captured of it, on the shapes of then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.capture.bundle import Bundle, Kernel, KernelShape, UnrecordedShape
from pytest_compileiq.capture.inside.shapes import is_of
from pytest_compileiq.capture.program import Calls, Watched
from pytest_compileiq.capture.rank import Shape, few_shapes
from pytest_compileiq.errors import UserError


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
