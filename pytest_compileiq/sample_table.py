"""The samples of one claim as columns: a file holds hundreds, and an object for each costs more than all statistics."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter
from typing import Any

from pytest_compileiq.model import Arm, ClockReading, SampleRow
from pytest_compileiq.slot_start import SlotStart

ARMS: tuple[Arm, Arm] = ("baseline", "tuned")
_KEY = attrgetter("device", "workload", "objective")


@dataclass(frozen=True)
class Columns:
    """One number a sample, as in a ``SampleRow``; 16 bytes each together.

    Attributes:
        arm: its place in ``ARMS``.
        value: in the metric's unit.
    """

    process: array[int] = field(default_factory=lambda: array("H"))
    quad: array[int] = field(default_factory=lambda: array("B"))
    slot: array[int] = field(default_factory=lambda: array("B"))
    arm: array[int] = field(default_factory=lambda: array("B"))
    sample: array[int] = field(default_factory=lambda: array("H"))
    value: array[float] = field(default_factory=lambda: array("d"))
    dropped: array[int] = field(default_factory=lambda: array("B"))
    clocks: list[ClockReading | None] = field(default_factory=list)
    unit: list[str] = field(default_factory=list)
    start: list[SlotStart | None] = field(default_factory=list)

    def extend(self, more: Columns) -> None:
        """Add the samples of ``more`` behind these."""
        for own, others in zip(vars(self).values(), vars(more).values(), strict=True):
            own.extend(others)


@dataclass(frozen=True)
class SampleTable:
    """Samples of one device, workload and objective. Its rows are made when they are asked for."""

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
        for own, all_ in zip(vars(columns).values(), vars(self.columns).values(), strict=True):
            own.extend(compress(all_, kept))
        return SampleTable(self.device, self.workload, self.objective, columns)

    def __len__(self) -> int:
        return len(self.columns.value)

    def __iter__(self) -> Iterator[SampleRow]:
        fields: list[Any] = list(vars(self.columns).values())
        for process, quad, slot, arm, sample, value, dropped, *more in zip(*fields, strict=True):
            key = self.device, self.workload, self.objective
            yield SampleRow(*key, process, quad, slot, ARMS[arm], sample, value, bool(dropped), *more)


def measured(rows: SampleTable | Sequence[SampleRow]) -> set[tuple[str, str, str]]:
    """The device, workload and objective of all ``rows``."""
    return {_KEY(rows)} if isinstance(rows, SampleTable) else set(map(_KEY, rows))
