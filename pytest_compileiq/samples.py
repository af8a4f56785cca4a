"""Samples, one by one and as the columns of a claim, and the conditions that they were taken under."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from pytest_compileiq.model import ARMS, L2, Arm, CheckedBy, Launch

_KEY = attrgetter("device", "workload", "objective")
StartKind = Literal["dirty", "sham", "pause", "bare"]  # what comes before the call


class SlotStart(Struct, frozen=True):
    """The single timed call that a slot begins with.

    Attributes:
        kind: ``dirty``: every byte that calls write was overwritten with another one, and the call was looked at;
            ``sham``: with the same one; ``pause``: nothing was called for about as long; ``bare``: a pause, where
            neither outputs, nor a check, nor a reset tell whether calls do their work.
    """

    kind: StartKind
    seconds: float  # that the call took


@dataclass(frozen=True)
class ClockReading:
    """A GPU's clocks at one moment, and why they are not higher; None, and no reasons, where NVML does not say."""

    sm_mhz: int | None
    memory_mhz: int | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conditions:
    """How a GPU's clock took its samples."""

    device: str  # the model of the GPU that the call launched on
    launch: Launch  # how the calls were launched
    l2: L2  # ``flush``: the cache was cold and clean before every call; ``warm``: it held what the call before left
    all_streams: bool  # whether the events stood for non-blocking streams too
    empty_s: float  # seconds that an empty kernel takes in the place of the call. They are in every sample.
    eager_ratio: float | None = None  # calls take so many times as long launched one by one; None where they are
    locked_mhz: int | None = None  # where the GPU's clocks were locked; None where they were free
    warm_up_s: float = 0.0  # seconds of load before the first sample
    settled: bool | None = None  # whether the clocks were steady then; None where nothing tells them


@dataclass(frozen=True)
class ChecksMade:
    """How many calls of the tuned arm were checked between its samples, after how many slots, and by what."""

    by: CheckedBy
    checks: int
    slots: int

    def and_also(self, other: ChecksMade) -> ChecksMade:
        """Those of both together."""
        return ChecksMade(self.by, self.checks + other.checks, self.slots + other.slots)


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One raw sample, a line of the samples file. ``value`` is in the metric's unit (seconds for ``runtime``).

    ``slot`` counts 0..3 within its quad, ABBA or BAAB, ``sample`` within its slot. ``clocks`` are a GPU's at a slot's
    end. ``unit`` is the specimen of the device, where it is known. ``start`` stands at its slot's first sample.
    """

    device: str
    workload: str
    objective: str
    process: int
    quad: int
    slot: int
    arm: Arm
    sample: int
    value: float
    dropped: bool = False
    clocks: ClockReading | None = None
    unit: str = ""
    start: SlotStart | None = None


class Columns(Struct, frozen=True):
    """The fields of ``SampleRow`` one by one, 16 bytes a sample; ``arm`` is a place in ``ARMS``."""

    process: array[int] = msgspec.field(default_factory=lambda: array("H"))
    quad: array[int] = msgspec.field(default_factory=lambda: array("B"))
    slot: array[int] = msgspec.field(default_factory=lambda: array("B"))
    arm: array[int] = msgspec.field(default_factory=lambda: array("B"))
    sample: array[int] = msgspec.field(default_factory=lambda: array("H"))
    value: array[float] = msgspec.field(default_factory=lambda: array("d"))
    dropped: array[int] = msgspec.field(default_factory=lambda: array("B"))
    clocks: list[ClockReading | None] = msgspec.field(default_factory=list)
    unit: list[str] = msgspec.field(default_factory=list)
    start: list[SlotStart | None] = msgspec.field(default_factory=list)

    def extend(self, more: Columns) -> None:
        """Add the samples of ``more`` behind these."""
        for own, others in zip(astuple(self), astuple(more), strict=True):
            own.extend(others)


class SampleTable(Struct, frozen=True):
    """Samples of one device, workload and objective; rows are made on demand.

    A file holds hundreds, and an object for each costs more than all statistics.
    """

    device: str
    workload: str
    objective: str
    columns: Columns

    @classmethod
    def of(cls, rows: SampleTable | Sequence[SampleRow]) -> SampleTable:
        """The same samples as a table; ``rows`` are of one device, workload and objective.

        Raises:
            ValueError: they are not, or there are none.
        """
        if isinstance(rows, SampleTable):
            return rows
        ((device, workload, objective),) = measured(rows)
        columns = Columns(
            process=array("H", [row.process for row in rows]),
            quad=array("B", [row.quad for row in rows]),
            slot=array("B", [row.slot for row in rows]),
            arm=array("B", [ARMS.index(row.arm) for row in rows]),
            sample=array("H", [row.sample for row in rows]),
            value=array("d", [row.value for row in rows]),
            dropped=array("B", [row.dropped for row in rows]),
            clocks=[row.clocks for row in rows],
            unit=[row.unit for row in rows],
            start=[row.start for row in rows],
        )
        return cls(device, workload, objective, columns)

    def where(self, is_kept: Callable[[int], bool]) -> SampleTable:
        """The samples of the processes that ``is_kept`` says, in the same order."""
        kept = list(map(is_kept, self.columns.process))
        columns = Columns()
        for own, all_ in zip(astuple(columns), astuple(self.columns), strict=True):
            own.extend(compress(all_, kept))
        return SampleTable(self.device, self.workload, self.objective, columns)

    def __len__(self) -> int:
        return len(self.columns.value)

    def __iter__(self) -> Iterator[SampleRow]:
        for process, quad, slot, arm, sample, value, dropped, *more in zip(*astuple(self.columns), strict=True):
            key = self.device, self.workload, self.objective
            yield SampleRow(*key, process, quad, slot, ARMS[arm], sample, value, bool(dropped), *more)


def measured(rows: SampleTable | Sequence[SampleRow]) -> set[tuple[str, str, str]]:
    """The device, workload and objective of all ``rows``."""
    return {_KEY(rows)} if isinstance(rows, SampleTable) else set(map(_KEY, rows))
