"""Processes and quads of a measurement, and the evidence that raw samples are."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.claim import Summary
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import ARMS, TIMED_OBJECTIVES, Direction, tail_of
from pytest_compileiq.rules.comparison import BY_RATIO, Analysis, magnitude, quantile, samples_needed
from pytest_compileiq.rules.stats import Floats
from pytest_compileiq.samples import SampleRow, SampleTable, StartKind
from pytest_compileiq.spelling import quantity

_SLOTS = 4  # of a quad


def slot_values(rows: SampleTable | Sequence[SampleRow]) -> tuple[Floats, Floats]:
    """The baseline's and the tuned arm's slot values in the metric's unit, shape (processes, quads, 2).

    A slot's value is the median of its samples, or a tail of them. One that lost a sample takes its quad with it: NaN
    in both arms.

    Raises:
        StoreError: the rows are not a complete design (each process has the same quads, each quad two slots per arm,
            each slot the same samples, and every value is finite; positive too, where it is a time or an energy).
    """
    if not len(rows):
        raise StoreError("the samples are not complete: there are none")
    table = SampleTable.of(rows)
    columns = table.columns
    (processes, process), (quads, quad) = _ranked(columns.process), _ranked(columns.quad)
    arm, slot, sample = (np.asarray(column) for column in (columns.arm, columns.slot, columns.sample))
    shape = len(processes), len(quads), len(ARMS), max(_SLOTS, int(slot.max()) + 1)
    place = np.ravel_multi_index((process, quad, arm, slot), shape)
    counts = np.bincount(place, minlength=np.prod(shape)).reshape(shape)
    of_slot = _samples_of_a_slot(table.objective, counts, processes, quads)
    order = np.lexsort((sample, place))
    design = *shape[:3], 2, of_slot

    def refusal(bad: int, what: str) -> StoreError:
        return StoreError(f"process {columns.process[bad]}, quad {columns.quad[bad]}: a sample {what}")

    unnumbered = (sample[order].reshape(-1, of_slot) != np.arange(of_slot)).ravel()
    if unnumbered.any():
        raise refusal(order[unnumbered.argmax()], "is missing or stands twice")
    metric, share = tail_of(table.objective)
    values = np.asarray(columns.value)
    is_time = metric in TIMED_OBJECTIVES
    unfit = ~np.isfinite(values) | (values <= 0 if is_time else False)
    if unfit.any():
        raise refusal(int(unfit.argmax()), f"is not a {'positive' if is_time else 'finite'} number")
    ordered = np.sort(values[order].reshape(design), axis=-1)
    taken: Floats = quantile(list(np.moveaxis(ordered, -1, 0)), share)
    lost = np.asarray(columns.dropped)[order].reshape(design).any(axis=(2, 3, 4))
    taken[lost] = np.nan
    return taken[:, :, 0], taken[:, :, 1]


def units_of(rows: SampleTable | Sequence[SampleRow]) -> tuple[str, ...]:
    """The specimen of the device that each process ran on, in the order of ``slot_values``; empty where all are one."""
    columns = SampleTable.of(rows).columns
    if len(set(columns.unit)) < 2:
        return ()
    pairs = sorted(set(zip(columns.process, columns.unit, strict=True)))
    for (process, unit), (following, other) in itertools.pairwise(pairs):
        if process == following:
            raise StoreError(f"process {process} ran on two devices: {unit or 'one unnamed'} and {other}")
    return tuple(unit for _, unit in pairs)


def start_values(rows: SampleTable | Sequence[SampleRow]) -> Mapping[StartKind, Floats]:
    """The least seconds of the single calls that slots begin with: kind → shape (processes, 2), baseline first.

    The processes are those of ``slot_values``; NaN where one has no such call that was not dropped.
    """
    columns = SampleTable.of(rows).columns
    processes, process = _ranked(columns.process)
    calls: dict[StartKind, list[tuple[int, int, float]]] = {}
    for place, start in enumerate(columns.start):
        if start and not columns.dropped[place]:
            calls.setdefault(start.kind, []).append((process[place], columns.arm[place], start.seconds))
    values = {kind: np.full((len(processes), len(ARMS)), np.nan) for kind in calls}
    for kind, own in calls.items():
        row, arm, seconds = map(list, zip(*own, strict=True))
        np.fmin.at(values[kind], (row, arm), seconds)  # whatever else runs on the machine only adds
    return values


def _ranked(numbers: array[int]) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers, sorted, and the place of each among them."""
    present = np.flatnonzero(np.bincount(numbers))  # faster than np.unique for small ones
    return present, np.searchsorted(present, numbers)


def _samples_of_a_slot(objective: str, counts: np.ndarray, processes: np.ndarray, quads: np.ndarray) -> int:
    """How many samples each slot has, of ``counts`` of shape (processes, quads, arms, slots)."""
    slots = (counts > 0).sum(axis=3)
    if slots.sum() != len(processes) * len(quads) * _SLOTS:
        raise StoreError(
            f"the samples are not complete: {slots.sum()} slots for {len(processes)} processes of {len(quads)} quads"
        )
    fewest, most = int(counts[counts > 0].min()), int(counts.max())
    if fewest < (needed := samples_needed(objective, 1)):
        raise StoreError(f"the samples are not complete: {objective} needs {needed} a slot, and one has {fewest}")
    for process, quad, arm in np.argwhere(slots != 2)[:1]:
        raise StoreError(
            f"the samples are not complete: process {processes[process]}, quad {quads[quad]}, {ARMS[arm]}: "
            f"{quantity(slots[process, quad, arm], 'slot')}"
        )
    if fewest != most:
        raise StoreError(f"the samples are not complete: one slot has {fewest}, another {most}")
    return fewest


@dataclass(frozen=True)
class Evidence:
    """Slot values in the metric's unit, shape (processes, quads, 2); a dropped quad is NaN in both arms."""

    baseline: Floats
    tuned: Floats
    direction: Direction = "minimize"
    analysis: Analysis = BY_RATIO
    units: tuple[str, ...] = ()  # as units_of gives them
    starts: Mapping[StartKind, Floats] = field(default_factory=dict)  # as start_values gives them

    @property
    def processes(self) -> int:
        """How many processes gave a block."""
        return int(self.baseline.shape[0])

    @cached_property
    def dropped(self) -> float:
        """The fraction of quads that were dropped."""
        return float((~np.isfinite(self.by_quad)).mean()) if self.by_quad.size else 1.0

    @cached_property
    def compared(self) -> tuple[Floats, Floats]:
        """Both arms on the analysis' axis, lower is better: logs, or values in units of the scale."""
        return self.analysis.axis(self.baseline, self.direction), self.analysis.axis(self.tuned, self.direction)

    @property
    def costs(self) -> tuple[Floats, Floats]:
        """Both arms, lower is better: a maximised metric's reciprocal, whose spread a gain does not widen.

        Differences are moved so that the baseline's median is 1, the scale's unit: a spread does not see where it lies.
        Nor does it see that devices differ, in either arm: each arm is brought to one level over them.
        """
        if self.analysis.scale is not None:
            baseline, tuned = self.compared
            middle = np.nanmedian(baseline) - 1
            arms = baseline - middle, tuned - middle
        elif self.direction == "minimize":
            arms = self.baseline, self.tuned
        else:
            arms = 1.0 / self.baseline, 1.0 / self.tuned
        return (self._levelled(arms[0]), self._levelled(arms[1])) if self.units else arms

    @cached_property
    def by_quad(self) -> Floats:
        """Baseline − tuned of each quad's mean on the axis, shape (processes, quads)."""
        baseline, tuned = self.compared
        return np.asarray(baseline.mean(axis=2) - tuned.mean(axis=2))

    @cached_property
    def by_process(self) -> Floats:
        """Baseline − tuned of each process's mean, shape (processes,), without those that lost every quad."""
        kept = self.by_quad[np.isfinite(self.by_quad).any(axis=1)]
        return np.asarray(np.nanmean(kept, axis=1))

    @cached_property
    def devices(self) -> dict[str, Floats]:
        """``by_process`` device by device, in the order of their names; one device is called by none."""
        if not self.units:
            return {"": self.by_process}
        kept = np.isfinite(self.by_quad).any(axis=1)
        units = np.array(self.units)
        return {unit: self.by_process[units[kept] == unit] for unit in sorted(set(self.units))}

    def on(self, unit: str) -> NDArray[np.bool_]:
        """Which processes ran on ``unit``."""
        return np.asarray(np.array(self.units) == unit)

    def _levelled(self, arm: Floats) -> Floats:
        """``arm`` with the median of every device moved to that of all."""
        levelled, middle = arm.copy(), np.nanmedian(arm)
        for own in map(self.on, self.devices):
            if self.analysis.scale is None:
                levelled[own] *= middle / np.nanmedian(arm[own])
            else:
                levelled[own] += middle - np.nanmedian(arm[own])
        return levelled


def gather(rows: SampleTable | Sequence[SampleRow], direction: Direction, analysis: Analysis | None = None) -> Evidence:
    """Arrange raw samples of one objective as evidence.

    A tail's interval is as valid as the median's: the unit is the process, whose quantiles are one observation
    (Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013, section 5), not the single sample.

    Args:
        analysis: that of an earlier claim; by default all values of both arms decide: ratios where all are positive.

    Raises:
        StoreError: the rows are not a complete design, as ``slot_values`` says, or one process ran on two devices.
    """
    baseline, tuned = slot_values(rows)
    if analysis is None:
        analysis = BY_RATIO if all_positive(rows) else Analysis(magnitude(baseline, tuned))
    return Evidence(baseline, tuned, direction, analysis, units_of(rows), start_values(rows))


def all_positive(rows: SampleTable | Sequence[SampleRow]) -> bool:
    """Whether a ratio of these values means something."""
    values = rows.columns.value if isinstance(rows, SampleTable) else (row.value for row in rows)
    return all(value > 0 for value in values)


def summarise(values: Floats) -> Summary:
    """The distribution of slot values, in their unit; ``values`` of any shape, NaN left out."""
    flat = values.ravel()[np.isfinite(values.ravel())]
    if flat.size == 0:
        raise StoreError("there is no sample to summarise")
    p5, p50, p95, p99 = (float(value) for value in np.percentile(flat, [5, 50, 95, 99]))
    std = float(flat.std(ddof=1)) if flat.size > 1 else 0.0
    return Summary(n=int(flat.size), mean=float(flat.mean()), std=std, p5=p5, p50=p50, p95=p95, p99=p99)
