"""Arranges raw samples as the design that they were taken in: processes of quads of slots, two slots for each arm."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Mapping, Sequence

import numpy as np

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import TIMED_OBJECTIVES, SampleRow, tail_of
from pytest_compileiq.rules.slots import quantile, samples_needed
from pytest_compileiq.rules.stats import Floats
from pytest_compileiq.sample_table import ARMS, SampleTable
from pytest_compileiq.slot_start import StartKind
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
    where = "process {}, quad {}".format
    unnumbered = (sample[order].reshape(-1, of_slot) != np.arange(of_slot)).ravel()
    if unnumbered.any():
        bad = order[unnumbered.argmax()]
        raise StoreError(f"{where(columns.process[bad], columns.quad[bad])}: a sample is missing or stands twice")
    metric, share = tail_of(table.objective)
    values = np.asarray(columns.value)
    is_time = metric in TIMED_OBJECTIVES
    unfit = ~np.isfinite(values) | (values <= 0 if is_time else False)
    if unfit.any():
        number, bad = "a positive" if is_time else "a finite", int(unfit.argmax())
        raise StoreError(f"{where(columns.process[bad], columns.quad[bad])}: a sample is not {number} number")
    ordered = np.sort(values[order].reshape(design), axis=-1)
    taken: Floats = quantile(list(np.moveaxis(ordered, -1, 0)), share)
    lost = np.asarray(columns.dropped)[order].reshape(design).any(axis=(2, 3, 4))
    taken[lost] = np.nan
    return taken[:, :, 0], taken[:, :, 1]


def units_of(rows: SampleTable | Sequence[SampleRow]) -> tuple[str, ...]:
    """The specimen of the device that each process ran on, in the order of ``slot_values``; empty where all are one.

    Raises:
        StoreError: one process ran on two.
    """
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
    starts = [(place, start) for place, start in enumerate(columns.start) if start and not columns.dropped[place]]
    processes, process = _ranked(columns.process)
    found: dict[StartKind, dict[tuple[int, int], list[float]]] = {}
    for place, start in starts:
        found.setdefault(start.kind, {}).setdefault((process[place], columns.arm[place]), []).append(start.seconds)
    values: dict[StartKind, Floats] = {}
    for kind, seconds in found.items():
        values[kind] = np.full((len(processes), len(ARMS)), np.nan)
        for where, taken in seconds.items():
            values[kind][where] = min(taken)  # whatever else runs on the machine only adds
    return values


def _ranked(numbers: array[int]) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers, sorted, and the place of each among them; faster than ``np.unique`` for small ones."""
    present = np.flatnonzero(np.bincount(numbers))
    return present, np.searchsorted(present, numbers)


def _samples_of_a_slot(objective: str, counts: np.ndarray, processes: np.ndarray, quads: np.ndarray) -> int:
    """How many samples each slot has.

    Args:
        counts: of samples, shape (processes, quads, arms, slots).
    """
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
