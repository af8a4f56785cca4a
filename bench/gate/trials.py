"""What one trial is, and how it lies on disk: one compressed .npz a trial, so that recording resumes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.rules.gate import LOOKS, QUADS

KERNELS = ("stencil", "matmul", "potential")
GAINS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.2)
ROWS = 400
PROCESSES = LOOKS[-1]
ONE_PROCESS_QUADS = LOOKS[0] * QUADS  # as many samples in one process as the gate's first look takes in several
ARRAYS = ("gate", "order", "gate_seconds", "block", "block_seconds", "interleaved", "interleaved_seconds", "load")
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Cell:
    """One condition: which kernel, its true gain (0: equal arms), and whether another process keeps a core busy."""

    kernel: str
    gain: float
    loaded: bool

    @property
    def rows_left_out(self) -> int:
        """Of the tuned arm's ROWS, so that its work is 1 / (1 + gain) of the baseline's."""
        return round(ROWS * self.gain / (1 + self.gain))

    def path(self, home: Path, number: int) -> Path:
        """Where trial ``number`` lies."""
        return home / ("loaded" if self.loaded else "quiet") / self.kernel / f"{self.gain:g}" / f"{number:05}.npz"


@dataclass(frozen=True)
class Trial:
    """Raw samples of one trial in seconds, first axis baseline and tuned; nothing is left out.

    Attributes:
        gate: the gate's own plan, shape (2, PROCESSES, QUADS, 2, SAMPLES).
        order: which quads began with the tuned arm (BAAB), shape (PROCESSES, QUADS).
        gate_seconds: wall time of each process, start to end, shape (PROCESSES,).
        block: one process, all of the baseline and then all of the tuned, in the order taken, shape (2, n).
        interleaved: one process, as many samples in quads of ABBA or BAAB, shape (2, n).
        load: the machine's load average over the last minute.
    """

    cell: Cell
    number: int
    gate: Floats
    order: NDArray[np.bool_]
    gate_seconds: Floats
    block: Floats
    block_seconds: Floats
    interleaved: Floats
    interleaved_seconds: Floats
    load: Floats


def save(home: Path, trial: Trial) -> None:
    """Write a trial whole or not at all."""
    path = trial.cell.path(home, trial.number)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name("unfinished.npz")
    np.savez_compressed(unfinished, **{name: getattr(trial, name) for name in ARRAYS})
    unfinished.replace(path)


def recorded(home: Path) -> Iterator[Trial]:
    """All trials below ``home``, condition by condition."""
    for loaded in (False, True):
        for kernel in KERNELS:
            for gain in GAINS:
                cell = Cell(kernel, gain, loaded)
                for path in sorted(cell.path(home, 0).parent.glob("[0-9]*.npz")):
                    with np.load(path) as arrays:
                        yield Trial(cell, int(path.stem), *(arrays[name] for name in ARRAYS))
