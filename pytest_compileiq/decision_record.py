"""How a measured claim was decided, on disk: strict and bounded, as in ``artifact``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from pytest_compileiq.stored import Count, Finite, Level, Ratio, Seconds, Stored

MOST_FLIPS = 1 << 20  # of one claim's randomisation test


class FirstSample(Stored):
    """What the first of a proof's two samples showed, which the gate judged; a ``Claim`` has the second's numbers."""

    speedup: Ratio
    speedup_low: Finite
    speedup_high: Finite


class DecisionRecord(Stored):
    """The parameters of the decision, enough to repeat it from the samples.

    Decisions of before all thresholds were recorded lack some: the marker's defaults apply. Those of one sample have
    no ``first``, ``second`` and ``gap_s``.

    Attributes:
        processes: of the sample that the gate judged, whose numbers are the lowest.
        first: of the sample that the gate judged, where another one confirmed it; of reduced controls, whose own sample
            the gate judged in that other one's place, the first sample of the controls that they were reduced from.
        second: the processes of the sample that confirmed; None of reduced controls.
        gap_s: seconds from the end of the first sample to the start of the second.
    """

    alpha: Level
    level: Level
    look: Annotated[int, Field(ge=1, le=100)]
    processes: Annotated[int, Field(ge=1, le=1000)]
    flips: Annotated[int, Field(ge=0, le=MOST_FLIPS)]
    seed: Count
    finalists: Annotated[int, Field(ge=1, le=1000)]
    min_speedup: Annotated[float, Field(ge=1, le=1000)] | None = None
    min_effect: Annotated[float, Field(ge=0, le=100)] | None = None
    max_regression: Annotated[float, Field(ge=0, le=0.5)] | None = None
    first: FirstSample | None = None
    second: Annotated[int, Field(ge=1, le=1000)] | None = None
    gap_s: Seconds | None = None

    @model_validator(mode="after")
    def _samples(self) -> DecisionRecord:
        if (self.first is None) != (self.gap_s is None) or (self.first is None and self.second is not None):
            raise ValueError("a decision on two samples records first and gap_s, and one on one sample neither")
        return self

    @property
    def sampled(self) -> str:
        """How many processes gave samples, in words."""
        return f"{self.processes} processes" if self.second is None else f"{self.processes} + {self.second} processes"
