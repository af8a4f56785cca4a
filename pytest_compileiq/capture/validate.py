"""Whether tuned kernels do in the program what they were proven to do on a capture of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.capture.bundle import Kernel
from pytest_compileiq.capture.in_place import DiffersInPlace, InPlace, WorkloadInPlace, gain_of, is_allowed
from pytest_compileiq.capture.program import NotWatched, Program, Routed, Series, Watched, watch
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


_FROM_OUTSIDE = {-signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL, -signal.SIGHUP}
_NOT_CALLED = (
    "the program's output was not compared: no call of the tuned builds is known of the runs for that, as where a "
    "program reads a pipe (give it a file) or leaves no account"
)

Runner = Callable[[Mapping[str, object], Path | None], "Run"]


@dataclass(frozen=True)
class Run:
    """A run of the program with its calls routed.

    Attributes:
        status: how it ended, negative for a signal.
        watched: its account, or what there is in its place: why there is none.
    """

    status: int
    watched: Watched | NotWatched

    @property
    def was_interrupted(self) -> bool:
        """Whether somebody else has ended it, so that it shows nothing."""
        return self.status in _FROM_OUTSIDE


def runner(program: Program, folder: Path) -> Runner:
    """Runs the program: each time anew, and from the start of its input, where that is a file.

    Raises:
        NotWatched: it left an account of its calls that cannot be read.
    """
    start = _place_in_input()
    made = iter(range(1 << 30))

    def run(arms: Mapping[str, object], output: Path | None) -> Run:
        if start is not None:
            os.lseek(0, start, os.SEEK_SET)
        own = folder / f"run-{next(made)}"
        own.mkdir()
        try:
            return Run(*watch(program, own, arms=arms, output=output))
        except NotWatched as why:
            if why.status is None:
                raise
            return Run(why.status, why)

    return run


def _place_in_input() -> int | None:
    with suppress(OSError):  # of a terminal, a pipe, or none
        return os.lseek(0, 0, os.SEEK_CUR)
    return None


def same_output(
    run: Runner, folder: Path, kernels: Sequence[TunedKernel], both: int
) -> tuple[dict[tuple[str, str], bool | None], str | None]:
    """Artifact → whether the program ends and prints alike with all its calls tuned and with none; and a remark.

    None where that is not known: it does not even with the same builds, somebody interrupted it, or the tuned build
    made no call. Where it does not, each kernel is tried alone.

    Args:
        run: runs it.
        folder: where its outputs go.
        kernels: those that are tried.
        both: how it ended where both arms took turns; it is to end so with the baseline.
    """
    made: list[Run] = []
    called = set()

    def said(tuned: Sequence[TunedKernel]) -> tuple[int, bytes]:
        file = folder / f"output-{len(made)}"
        arms = routing(kernels, lambda kernel: TUNED if kernel in tuned else BASELINE)
        made.append(run(arms, file))
        called.update(_called(made[-1].watched, tuned))
        if made[-1].was_interrupted:
            raise InterruptedError
        return made[-1].status, file.read_bytes()

    keys = [(kernel.name, kernel.target) for kernel in kernels]
    nothing: dict[tuple[str, str], bool | None] = dict.fromkeys(keys, None)
    try:
        plain = said(())
        if said(kernels) == plain and both == plain[0]:
            remark = None if called else _NOT_CALLED
            return {key: True if key in called else None for key in keys}, remark
        if said(()) != plain:
            return nothing, "the program prints something else each time, so its output was not compared"
        alone = [said([kernel]) == plain for kernel in kernels] if len(kernels) > 1 else [False]
    except InterruptedError:
        return nothing, "the program was interrupted, so its output was not compared"
    if all(alone):
        return dict.fromkeys(keys, False), None
    return {key: None if same and key not in called else same for key, same in zip(keys, alone, strict=True)}, None


def _called(watched: Watched | NotWatched, tuned: Sequence[TunedKernel]) -> set[tuple[str, str]]:
    """The artifacts whose tuned build made calls in a run."""
    if isinstance(watched, NotWatched):
        return set()
    routes = {(each.library, each.function) for each in watched.routed if sum(s.calls[TUNED] for s in each.series)}
    return {(each.name, each.target) for each in tuned if (each.kernel.library, each.kernel.function) in routes}
