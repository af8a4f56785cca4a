"""Results of a validation: tuned controls within the program of their capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

InPlaceStanding = Literal["holds", "differs", "undecided"]


@dataclass(frozen=True)
class Gain:
    """The tuned arm's speed-up within the program, its bounds at 99 %, and the median time of a baseline call."""

    speedup: float
    low: float
    high: float
    baseline_ns: float


@dataclass(frozen=True)
class WorkloadInPlace:
    """The times of one workload's calls within the program.

    Attributes:
        pairs: neighbouring calls, one by each arm.
        least: the speed-up that the claim requires in the program.
        captured_s: the time of a baseline call in the capture, measured just before.
        gain: None for too few pairs.
    """

    workload: str
    pairs: int
    least: float
    captured_s: float
    gain: Gain | None = None

    @property
    def standing(self) -> InPlaceStanding:
        """Whether all of the interval is above ``least``, or below it."""
        if self.gain is not None and self.gain.low >= self.least:
            return "holds"
        return "differs" if self.gain is not None and self.gain.high < self.least else "undecided"


@dataclass(frozen=True)
class DiffersInPlace:
    """A place whose values differ between the arms on ``calls`` of the program's calls.

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
