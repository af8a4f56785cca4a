"""Runs of a program whose calls of tuned kernels are made by their builds, and whether it prints the same with them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.capture.bundle import CapturedKernel
from pytest_compileiq.capture.inside.compared_calls import BASELINE, TUNED
from pytest_compileiq.capture.program import CallAccount, NotWatched, Program, watch

_FROM_OUTSIDE = {-signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL, -signal.SIGHUP}
_NOT_CALLED = (
    "the program's output was not compared: no call of the tuned builds is known of the runs for that, as where a "
    "program reads a pipe (give it a file) or leaves no account"
)
Key = tuple[str, str]  # an artifact's name and target


@dataclass(frozen=True)
class TunedKernel:
    """A captured kernel whose artifact, of this name and target, holds."""

    name: str
    target: str
    device: str  # the one that its claims are about, which is here
    kernel: CapturedKernel
    arms: tuple[Path, Path]  # the libraries of the baseline and of the tuned build
    shape_of: Mapping[str, int | None]  # workload → its shape by number; None where its test does not say
    required: Mapping[str, tuple[float, float]]  # workload → the least speed-up; how long the baseline took, seconds
    remarks: tuple[str, ...] = ()  # what of its claims is not held against the program, in a sentence each

    @property
    def key(self) -> Key:
        return self.name, self.target


@dataclass(frozen=True)
class RoutedRun:
    """A run of the program with its calls routed: how it ended, negative for a signal; its account, or why none."""

    status: int
    watched: CallAccount | NotWatched

    @property
    def was_interrupted(self) -> bool:
        return self.status in _FROM_OUTSIDE


def routing(kernels: Sequence[TunedKernel], only: Callable[[TunedKernel], int | None]) -> dict[str, object]:
    """The arguments of ``inside.both_arms.Arms``; ``only`` gives the arm that makes every call of a kernel, or None."""
    told = [
        {
            "library": each.kernel.library,
            "function": each.kernel.function,
            "shapes": [shape.shape for shape in each.kernel.all_shapes],
            "arms": [str(path) for path in each.arms],
            "extents": each.kernel.extents,
            "only": only(each),
        }
        for each in kernels
    ]
    return {"kernels": told}


class RoutedRuns:
    """Runs the program: each time anew, and from the start of its input, where that is a file."""

    def __init__(self, program: Program, folder: Path, kernels: Sequence[TunedKernel]) -> None:
        self._program = program
        self._folder = folder
        self._kernels = kernels
        self._count = 0
        self._start = None
        with suppress(OSError):  # of a terminal, a pipe, or none
            self._start = os.lseek(0, 0, os.SEEK_CUR)

    def make(self, only: Callable[[TunedKernel], int | None], output: Path | None = None) -> RoutedRun:
        """Run it; ``only`` gives the arm that makes every call of a kernel, or None for both in turn."""
        if self._start is not None:
            os.lseek(0, self._start, os.SEEK_SET)
        own = self._folder / f"run-{self._count}"
        own.mkdir()
        self._count += 1
        try:
            return RoutedRun(*watch(self._program, own, arms=routing(self._kernels, only), output=output))
        except NotWatched as why:
            if why.status is None:
                raise
            return RoutedRun(why.status, why)

    def compare_output(self, both: int) -> tuple[dict[Key, bool | None], str | None]:
        """Artifact → whether the program ends and prints alike with all its calls tuned and with none; and a remark.

        None: not known. Where it does not, each kernel is tried alone. ``both`` is the status with both arms.
        """
        called: set[Key] = set()

        def said(tuned: Sequence[TunedKernel]) -> tuple[int, bytes]:
            file = self._folder / f"output-{self._count}"
            run = self.make(lambda kernel: TUNED if kernel in tuned else BASELINE, file)
            if isinstance(run.watched, CallAccount):
                by_tuned = [each for each in run.watched.routed if sum(one.calls[TUNED] for one in each.series)]
                routes = {(each.library, each.function) for each in by_tuned}
                called.update(each.key for each in tuned if (each.kernel.library, each.kernel.function) in routes)
            if run.was_interrupted:
                raise InterruptedError
            return run.status, file.read_bytes()

        keys = [kernel.key for kernel in self._kernels]
        try:
            plain = said(())
            if said(self._kernels) == plain and both == plain[0]:
                remark = None if called else _NOT_CALLED
                return {key: True if key in called else None for key in keys}, remark
            if said(()) != plain:
                remark = "the program prints something else each time, so its output was not compared"
                return dict.fromkeys(keys), remark
            alone = [said([kernel]) == plain for kernel in self._kernels] if len(keys) > 1 else [False]
        except InterruptedError:
            return dict.fromkeys(keys), "the program was interrupted, so its output was not compared"
        if all(alone):
            return dict.fromkeys(keys, False), None
        known = zip(keys, alone, strict=True)
        return {key: None if same and key not in called else same for key, same in known}, None
