"""Whether tuned kernels do in the program what they were proven to do on a capture of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.capture.bundle import Kernel
from pytest_compileiq.capture.in_place import DiffersInPlace, InPlace, WorkloadInPlace
from pytest_compileiq.capture.in_place_verdict import gain_of, is_allowed
from pytest_compileiq.capture.program import Routed, Series
from pytest_compileiq.capture.rank import Shape

BASELINE, TUNED = 0, 1


@dataclass(frozen=True)
class Asked:
    """What a program has to show on a workload: the least speed-up; and how long the baseline took in the capture."""

    least: float
    captured_s: float


@dataclass(frozen=True)
class TunedKernel:
    """A captured kernel whose artifact holds.

    Attributes:
        name, target: the artifact's.
        device: the one that its claims are about, which is here.
        arms: the libraries of the baseline and of the tuned build.
        shape_of: workload → its shape in the capture, by number; None where its test does not say which.
        asked: workload → what the program has to show; workloads without a claim on a time lack it.
        remarks: what of its claims is not held against the program, in a sentence each.
    """

    name: str
    target: str
    device: str
    kernel: Kernel
    arms: tuple[Path, Path]
    shape_of: Mapping[str, int | None]
    asked: Mapping[str, Asked]
    remarks: tuple[str, ...] = ()

    @property
    def shapes(self) -> list[Shape]:
        """What the program called it on; first what is recorded, by number."""
        beyond = self.kernel.unrecorded or ()
        return [*(each.shape for each in self.kernel.shapes), *(each.shape for each in beyond)]


def routing(kernels: Sequence[TunedKernel], only: Callable[[TunedKernel], int | None]) -> dict[str, object]:
    """The arguments of ``inside.arms.Arms``; ``only`` gives the arm that makes every call of a kernel, or None."""
    told = [
        {
            "library": each.kernel.library,
            "function": each.kernel.function,
            "shapes": each.shapes,
            "arms": [str(path) for path in each.arms],
            "extents": each.kernel.extents,
            "only": only(each),
        }
        for each in kernels
    ]
    return {"kernels": told}


def record_of(tuned: TunedKernel, routed: Routed, *, program: str, same_output: bool | None, rtol: float) -> InPlace:
    """What the program showed of one kernel.

    Args:
        tuned: the kernel.
        routed: the program's account of it.
        program: as it was typed.
        same_output: whether the program's own output was the same with either arm; None where it was not compared.
        rtol: how far floats may differ, relative to the largest value of their place.
    """
    return InPlace(
        program=program,
        device=tuned.device,
        compared=routed.compared,
        rtol=rtol,
        differing=tuple(
            DiffersInPlace(place=each.place, calls=each.calls, relative=each.tuned)
            for each in routed.apart
            if not is_allowed(each.tuned, each.own, rtol)
        ),
        output="not compared" if same_output is None else "same" if same_output else "differs",
        workloads=tuple(_workload(name, asked, tuned, routed) for name, asked in tuned.asked.items()),
    )


def _workload(name: str, asked: Asked, tuned: TunedKernel, routed: Routed) -> WorkloadInPlace:
    pairs = _series(tuned, routed, tuned.shape_of[name]).pairs
    return WorkloadInPlace(name, len(pairs), asked.least, asked.captured_s, gain_of(pairs))


def _series(tuned: TunedKernel, routed: Routed, number: int | None) -> Series:
    """The calls of one captured shape; none where it is not known which."""
    if number is None or not 0 <= number < len(tuned.shapes):
        return Series((0, 0), ())
    return routed.series[number]
