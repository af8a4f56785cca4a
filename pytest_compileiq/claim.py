"""The claims of an artifact, on disk: the tables below ``[[claims]]``, strict and bounded as in ``artifact``."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from pytest_compileiq.model import (
    EXACT_OBJECTIVES,
    FLEET,
    L2,
    LARGEST_NUMBER,
    LEAST_PROCESSES,
    MOST_DEVICES,
    MOST_DRAWS,
    TIMED_OBJECTIVES,
    CheckedBy,
    Direction,
    Launch,
    tail_of,
)
from pytest_compileiq.table import (
    Array,
    Count,
    FileName,
    Finite,
    Integer,
    Level,
    Probability,
    Ratio,
    Seconds,
    Table,
    Text,
    Unit,
)

MOST_FLIPS = 1 << 20  # of one claim's randomisation test
Value = Annotated[str, StringConstraints(max_length=100)]
Share = Annotated[float, Field(ge=0, le=LARGEST_NUMBER, allow_inf_nan=False)]
Draws = Annotated[int, Field(ge=0, le=MOST_DRAWS)]


class FirstSample(Table):
    """What the first of a proof's two samples showed, which the gate judged; a ``Claim`` has the second's numbers."""

    speedup: Ratio
    speedup_low: Finite
    speedup_high: Finite


class DecisionRecord(Table):
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


class Farthest(Table):
    """Where two runs of the body are farthest apart: the element ``index``, flat, of what it compares as ``output``.

    ``baseline`` and ``other`` are the two values in words. ``relative`` is their distance over the largest magnitude of
    the baseline's output, and ``ulps`` counts the floating-point numbers between them.
    """

    output: Text
    workload: Text
    draw: Count
    index: Count
    baseline: Value
    other: Value
    ulps: Count
    relative: Share


class Accuracy(Table):
    """One output that the body gives a reference for: on how many draws the tuned arm was farther off, and nearer.

    ``ratio`` is the median over the draws of the tuned arm's error over the baseline's, each at least half an ulp.
    """

    output: Text
    workload: Text
    worse: Draws
    better: Draws
    ratio: Ratio


class Stress(Table):
    """The body, run with other seeds of ``acf.rng`` than the search's: ``seed``, ``seed + 1``, … .

    ``draws`` is 0 where the body does not read ``acf.rng``. On ``usable`` draws the baseline held, and so did the tuned
    arm: else there were no claim. ``outputs`` counts what the body compares on all workloads. ``largest`` is between
    the arms, None where all bits are the same; ``spread`` is between two runs of the baseline. With
    ``repeats`` the marker says that production repeats its inputs: the gain may be one of remembered input.
    """

    draws: Draws
    usable: Draws = 0
    seed: Count | None = None
    repeats: bool = False
    outputs: Count = 0
    largest: Farthest | None = None
    spread: Farthest | None = None
    accuracy: Annotated[Array[Accuracy], Field(max_length=1000)] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.usable > self.draws:
            raise ValueError(f"{self.usable} draws cannot be usable of {self.draws}")
        if self.draws and self.seed is None:
            raise ValueError(f"{self.draws} draws have no seed")
        if more := [output for output in self.accuracy if output.worse + output.better > self.usable]:
            raise ValueError(f"output {more[0].output!r} differs on more than the {self.usable} usable draws")
        return self


class ClaimedDevice(Table):
    """What one of a claim's several devices showed, with the two-sided 95 % interval of its own.

    ``unit`` is which specimen of the claim's device model it is: a GPU's UUID, or what a processor's machine is called.
    ``outlier``: its gain is not of a kind with that of the others.
    """

    unit: Unit
    processes: Annotated[int, Field(ge=LEAST_PROCESSES, le=1000)]
    speedup: Finite
    speedup_low: Finite
    speedup_high: Finite
    outlier: bool = False


class FleetTable(Table):
    """How the devices of a fleet differ, and what another one would show.

    ``between_sd`` is the standard deviation of the gain between devices: 0.02 is 2 %. Measured as these were, the gain
    of another device lies between ``another_low`` and ``another_high`` with a probability of 95 %.
    """

    between_sd: Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
    another_low: Finite
    another_high: Finite


class Summary(Table):
    """Distribution of one arm's slot values, in the metric's unit. ``n`` counts slots."""

    n: Count
    mean: Finite
    std: Finite
    p5: Finite
    p50: Finite
    p95: Finite
    p99: Finite


class ConditionsTable(Table):
    """How the samples of a claim on a GPU were taken: ``Conditions`` on disk, with the clocks that the samples record.

    ``diluted``: the call is so short that what every sample holds besides it, ``empty_s``, counts: the gain of the
    kernel itself is larger than the claimed one. ``baseline_mhz`` and ``tuned_mhz`` are the medians of the arms' SM
    clocks, and ``held_by`` is why they were not higher.
    """

    launch: Launch
    l2: L2
    all_streams: bool = False
    empty_s: Seconds
    eager_ratio: Ratio | None = None
    diluted: bool = False
    locked_mhz: Count | None = None
    warm_up_s: Seconds | None = None
    settled: bool | None = None
    baseline_mhz: Count | None = None
    tuned_mhz: Count | None = None
    memory_mhz: Count | None = None
    held_by: Annotated[Array[Text], Field(max_length=32)] = ()


class ChecksTable(Table):
    """How often the tuned arm's outputs were looked at between the samples of a claim: ``ChecksMade`` on disk."""

    by: CheckedBy
    checks: Count
    slots: Count


class Claim(Table):
    """On ``device``, for ``workload``, tuned against baseline on ``objective``.

    ``kind`` is ``gain`` or ``non-inferior`` (with statistics and a samples file) or ``exact`` (with two numbers: of the
    build, or recorded and the same in every process). ``speedup`` is baseline over tuned for minimised metrics, tuned
    over baseline for maximised ones. Where ``scale`` is given, values may be zero or negative, and ``speedup`` is 1
    plus the difference that is better, in units of ``scale``: ``rules.comparison``. Claims that were written before
    ``direction`` was recorded have none: ``rules.claims.direction_of`` reads them. ``conditions`` are those of a GPU's
    clock, which a replay takes its samples under, too. ``checks`` is absent where nothing was looked at between them.
    ``stress`` is of all workloads together. A claim on several specimens of ``device`` names them, in ``devices``; from
    5 of them on it is one for the whole fleet, and has ``fleet``. ``environment`` holds the variables that were set
    when it was measured and that libraries read at run time.
    """

    device: Text
    workload: Text
    objective: Text
    direction: Direction | None = None
    kind: Literal["gain", "non-inferior", "exact"]
    architecture: Text | None = None
    driver: Text | None = None
    power_limit_w: Finite | None = None
    scale: Ratio | None = None
    speedup: Ratio | None = None
    speedup_low: Finite | None = None
    speedup_high: Finite | None = None
    p_value: Probability | None = None
    cohens_d: Finite | None = None
    test: DecisionRecord | None = None
    conditions: ConditionsTable | None = None
    checks: ChecksTable | None = None
    samples: FileName | None = None
    baseline: Summary | None = None
    tuned: Summary | None = None
    baseline_value: Integer | Finite | None = None
    tuned_value: Integer | Finite | None = None
    stress: Stress | None = None
    fleet: FleetTable | None = None
    devices: Annotated[Array[ClaimedDevice], Field(max_length=MOST_DEVICES)] = ()
    environment: Annotated[dict[Text, Text], Field(max_length=100)] = Field(default_factory=dict)

    @property
    def units(self) -> tuple[str, ...]:
        """The names of its devices, where it is about several."""
        return tuple(device.unit for device in self.devices)

    @property
    def of_the_build(self) -> bool:
        """Whether it is read from the build, so that it is the same on every workload and device."""
        return tail_of(self.objective)[0] in EXACT_OBJECTIVES

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        measured = (
            "speedup", "speedup_low", "speedup_high", "p_value", "cohens_d", "test", "samples", "baseline", "tuned",
        )  # fmt: skip
        exact = ("baseline_value", "tuned_value")
        needed, foreign = (exact, measured) if self.kind == "exact" else (measured, exact)
        if missing := [key for key in needed if getattr(self, key) is None]:
            raise ValueError(f"a claim of kind {self.kind!r} needs {', '.join(missing)}")
        if surplus := [key for key in foreign if getattr(self, key) is not None]:
            raise ValueError(f"a claim of kind {self.kind!r} has no {', '.join(surplus)}")
        is_timed = tail_of(self.objective)[0] in TIMED_OBJECTIVES
        if self.kind == "exact" and is_timed:
            raise ValueError(f"{self.objective} is measured, and never claimed exactly")
        if self.scale is not None and (self.kind == "exact" or is_timed):
            raise ValueError(f"a claim of kind {self.kind!r} on {self.objective} has no scale")
        if self.kind == "exact" and self.devices:
            raise ValueError("a claim of kind 'exact' names no devices: it has no samples of theirs")
        return self

    @model_validator(mode="after")
    def _of_devices(self) -> Claim:
        units, fleet = list(self.units), self.fleet
        if len(units) == 1:
            raise ValueError("a claim names its devices where there are several, and it names one")
        if units != sorted(set(units)):
            raise ValueError("the devices of a claim are sorted by name, and each is there once")
        if (fleet is not None) != (len(units) >= FLEET):
            raise ValueError(f"a claim is one for a fleet, and says how its devices differ, from {FLEET} of them on")
        gains = [gain for each in self.devices for gain in (each.speedup, each.speedup_low, each.speedup_high)]
        gains += [fleet.another_low, fleet.another_high] if fleet else []
        if self.scale is None and min(gains, default=1) <= 0:
            raise ValueError("the gain on one of the devices of a claim is a ratio, and not above 0")
        return self
