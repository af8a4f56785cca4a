"""What an artifact records of a validation: how its controls did within the program that its kernel is of."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pytest_compileiq.stored import Array, Count, Ratio, Seconds, Stored, Text
from pytest_compileiq.stressed import Share

InPlaceStanding = Literal["holds", "differs", "undecided"]


class WorkloadInPlace(Stored):
    """The times of one workload's calls within the program.

    ``pairs`` counts neighbouring calls, one by each arm. ``speedup`` and its bounds are of the program; None where
    there were too few pairs. ``least`` is what the program has to show for the claim to hold in it. ``baseline_s`` is
    how long a call of the baseline took in the program, and ``captured_s`` in the capture, just before.
    """

    workload: Text
    pairs: Count
    speedup: Ratio | None = None
    speedup_low: Ratio | None = None
    speedup_high: Ratio | None = None
    least: Ratio
    baseline_s: Seconds | None = None
    captured_s: Seconds | None = None

    @property
    def standing(self) -> InPlaceStanding:
        """Whether all of the interval is above ``least``, or below it."""
        if self.speedup_low is None or self.speedup_high is None:
            return "undecided"
        if self.speedup_low >= self.least:
            return "holds"
        return "differs" if self.speedup_high < self.least else "undecided"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        bounds = (self.speedup_low, self.speedup, self.speedup_high)
        if any(bound is None for bound in bounds) != all(bound is None for bound in bounds):
            raise ValueError(f"workload {self.workload!r} needs speedup, speedup_low and speedup_high, or none of them")
        if self.speedup_low is not None and not self.speedup_low <= (self.speedup or 0) <= (self.speedup_high or 0):
            raise ValueError(f"workload {self.workload!r} has bounds that are not in order")
        return self


class DiffersInPlace(Stored):
    """A place in which the arms left something else on ``calls`` of the program's calls.

    ``relative`` is the largest difference over the largest value there; None of what is no float.
    """

    place: Text
    calls: Count
    relative: Share | None = None


class InPlace(Stored):
    """One validation, in ``program`` as it was typed, on ``device``.

    ``compared`` counts the calls that both arms made on the same memory, and ``differing`` are the places that differed
    by more than ``rtol`` of their largest value, and than the baseline differs from itself. ``output`` is the program's
    own, with every call made by one arm and by the other. ``explanation`` is a person's, of what differs.
    """

    program: Text
    device: Text
    compared: Count
    rtol: Share = 0.0
    differing: Annotated[Array[DiffersInPlace], Field(max_length=1000)] = ()
    output: Literal["same", "differs", "not compared"]
    workloads: Annotated[Array[WorkloadInPlace], Field(max_length=1000)] = ()
    explanation: Text | None = None
