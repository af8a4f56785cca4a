"""What a program shows of controls that were tuned on a capture of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

InPlaceStanding = Literal["holds", "differs", "undecided"]


@dataclass(frozen=True)
class WorkloadInPlace:
    """The times of one workload's calls within the program.

    Attributes:
        pairs: neighbouring calls, one by each arm.
        least: the speed-up that the program has to show for the claim to hold in it.
        captured_s: how long a call of the baseline took in the capture, just before.
        speedup, speedup_low, speedup_high: of the program; None where there were too few pairs.
        baseline_s: how long a call of the baseline took in the program.
    """

    workload: str
    pairs: int
    least: float
    captured_s: float
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    baseline_s: float | None = None

    @property
    def standing(self) -> InPlaceStanding:
        """Whether all of the interval is above ``least``, or below it."""
        if self.speedup_low is None or self.speedup_high is None:
            return "undecided"
        if self.speedup_low >= self.least:
            return "holds"
        return "differs" if self.speedup_high < self.least else "undecided"


@dataclass(frozen=True)
class DiffersInPlace:
    """A place in which the arms left something else on ``calls`` of the program's calls.

    ``relative`` is the largest difference over the largest value there; None of what is no float.
    """

    place: str
    calls: int
    relative: float | None = None


@dataclass(frozen=True)
class InPlace:
    """One validation, in ``program`` as it was typed, on ``device``.

    Attributes:
        compared: calls that both arms made on the same memory.
        output: the program's own, with every call made by one arm and by the other.
        rtol: how far floats may differ, relative to the largest value of their place.
        differing: the places that differed by more than that, and than the baseline differs from itself.
    """

    program: str
    device: str
    compared: int
    output: Literal["same", "differs", "not compared"]
    rtol: float = 0.0
    differing: tuple[DiffersInPlace, ...] = ()
    workloads: tuple[WorkloadInPlace, ...] = ()
