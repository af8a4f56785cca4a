"""The samples file: raw samples as CSV, one per line. Values read back are bit for bit those written."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import operator
from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple, get_args

from pytest_compileiq.errors import StoreError, contained
from pytest_compileiq.model import ARMS, UNIT
from pytest_compileiq.samples import ClockReading, Columns, SampleRow, SampleTable, SlotStart, StartKind
from pytest_compileiq.store.metadata import restored

HEADER = ["device", "workload", "objective", "process", "quad", "slot", "arm", "sample", "value", "dropped"]
# A claim takes at most 1,920 processes, twice 16 of each of 60 devices, of 4 quads of 4 slots, of 5 samples or, for the
# tail of a metric, of 100; the file's own bound ends the largest of them.
MOST_ROWS_OF_A_CLAIM = 1_000_000
MOST_CLAIMS = 1000
MOST_UNITS = 1000  # of one file, in all its claims
_MOST_PROCESSES, _MOST_QUADS, _SLOTS, _MOST_SAMPLES = 2000, 4, 4, 10_000
_LARGEST_VALUE = 1e30
_TEXT_FIELDS = 3
_MOST_READINGS = 10_000  # different ones of a file: each is kept once
_HIGHEST_MHZ = 100_000
_ARM = {arm.encode(): place for place, arm in enumerate(ARMS)}
_DROPPED = {b"0": 0, b"1": 1}
_KINDS: Mapping[bytes, StartKind] = {kind.encode(): kind for kind in get_args(StartKind)}
_LINES_AT_ONCE = 1024
_NO_SAMPLE = (ValueError, KeyError, csv.Error)
Key = tuple[str, str, str]


class _Format(NamedTuple):
    """Which optional columns a file has, in this order."""

    clocks: bool  # a GPU's
    unit: bool  # the specimen of the device, where there are several
    start: bool  # the single call that a slot begins with, its kind and seconds, in the line of its first sample

    @property
    def header(self) -> list[str]:
        optional = (["sm_mhz", "memory_mhz", "held_by"], ["unit"], ["start", "start_s"])
        return [*HEADER, *itertools.chain.from_iterable(itertools.compress(optional, self))]


_FORMATS = {
    f"{','.join(each.header)}\n".encode(): each
    for each in itertools.starmap(_Format, itertools.product((False, True), repeat=3))
}


class Samples:
    """The rows of one file by what they measure: device, workload and objective."""

    def __init__(self, columns: _Format) -> None:
        self._format = columns
        self._numeric_fields = len(columns.header) - _TEXT_FIELDS
        self._units = {b"": ""}
        self._readings: dict[tuple[bytes, ...], ClockReading | None] = {(): None, (b"", b"", b""): None}
        self._columns: dict[Key, Columns] = {}
        self._by_text: dict[bytes, Columns] = {}  # the same, by the text that all lines of a claim begin with
        self._processes, self._quads = _counts(_MOST_PROCESSES), _counts(_MOST_QUADS)
        self._slots, self._samples = _counts(_SLOTS), _counts(_MOST_SAMPLES)

    def measured(self) -> list[Key]:
        """The keys of all claims, in the file's order."""
        return list(self._columns)

    def rows(self, key: Key) -> SampleTable:
        """The samples of ``key`` in the file's order; none if the file has none."""
        return SampleTable(*key, self._columns.get(key, Columns()))

    def take_in(self, lines: Sequence[bytes]) -> None:
        """Add the samples of some lines; raises one of ``_NO_SAMPLE`` for one that is none, or is one too many."""
        if not lines[-1].endswith(b"\n"):
            raise ValueError("it is cut off")
        # The text fields may hold commas; the numbers after them do not.
        fields = [line[:-1].rsplit(b",", self._numeric_fields) for line in lines]
        for text, of_claim in itertools.groupby(fields, key=operator.itemgetter(0)):
            more = self._parsed(of_claim)
            columns = self._by_text.get(text) or self._begun(text)
            if len(columns.value) + len(more.value) > MOST_ROWS_OF_A_CLAIM:
                raise ValueError(f"one claim has more than {MOST_ROWS_OF_A_CLAIM} samples")
            columns.extend(more)

    def _parsed(self, lines: Iterable[Sequence[bytes]]) -> Columns:
        _, process, quad, slot, arm, sample, value, dropped, *clocks = zip(*lines, strict=True)
        seconds, kinds = (clocks.pop(), clocks.pop()) if self._format.start else ((), ())
        units = map(self._unit, clocks.pop()) if self._format.unit else itertools.repeat("", len(value))
        values = array("d", map(float, value))
        # The sum is not finite if one of them is not, and neither min nor max says so of what is no number.
        if not (isfinite(sum(values)) and min(values) >= -_LARGEST_VALUE and max(values) <= _LARGEST_VALUE):
            raise ValueError(f"{value[0]!r:.80} is not a number of sensible size")
        return Columns(
            process=array("H", map(self._processes.__getitem__, process)),
            quad=array("B", map(self._quads.__getitem__, quad)),
            slot=array("B", map(self._slots.__getitem__, slot)),
            arm=array("B", map(_ARM.__getitem__, arm)),
            sample=array("H", map(self._samples.__getitem__, sample)),
            value=values,
            dropped=array("B", map(_DROPPED.__getitem__, dropped)),
            clocks=list(map(self._reading, zip(*clocks, strict=True))) if clocks else [None] * len(values),
            unit=list(units),
            start=list(map(_start, kinds, seconds)) if kinds else [None] * len(values),
        )

    def _unit(self, text: bytes) -> str:
        if text not in self._units:
            if len(self._units) > MOST_UNITS:
                raise ValueError(f"more than {MOST_UNITS} different devices")
            if not UNIT.fullmatch(unit := text.decode("utf-8")):
                raise ValueError(f"{unit!r:.80} is no name of a device")
            self._units[text] = unit
        return self._units[text]

    def _reading(self, fields: tuple[bytes, ...]) -> ClockReading | None:
        if fields not in self._readings:
            if len(self._readings) == _MOST_READINGS:
                raise ValueError(f"more than {_MOST_READINGS} different readings of clocks")
            sm, memory, reasons = fields
            words = tuple(reasons.decode("utf-8").split(";")) if reasons else ()
            self._readings[fields] = ClockReading(_megahertz(sm), _megahertz(memory), words)
        return self._readings[fields]

    def _begun(self, text: bytes) -> Columns:
        ((device, workload, objective),) = csv.reader([text.decode("utf-8")], strict=True)
        if len(self._by_text) == MOST_CLAIMS:
            raise ValueError(f"more than {MOST_CLAIMS} devices, workloads and objectives")
        self._by_text[text] = self._columns.setdefault((device, workload, objective), Columns())
        return self._by_text[text]


@functools.cache
def _counts(below: int) -> Mapping[bytes, int]:
    """Every count below a bound, by its decimal text."""
    return {str(count).encode(): count for count in range(below)}


def _start(kind: bytes, seconds: bytes) -> SlotStart | None:
    if not kind and not seconds:
        return None
    if not 0 < (took := float(seconds)) <= _LARGEST_VALUE:
        raise ValueError(f"{seconds!r:.80} is no duration of a call")
    return SlotStart(_KINDS[kind], took)


def _megahertz(text: bytes) -> int | None:
    number = int(text) if text.isdigit() and len(text) <= len(str(_HIGHEST_MHZ)) else None
    if text and (number is None or number > _HIGHEST_MHZ):
        raise ValueError(f"{text!r:.80} is no clock in MHz")
    return number


def encode_samples(rows: Sequence[SampleRow]) -> bytes:
    """CSV with a header; floats by ``repr``, which is exact. Names hold no control characters.

    Where all samples are of one specimen of the device it is not named: nobody else needs to know which one it was.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = _Format(
        clocks=any(row.clocks for row in rows),
        unit=len({row.unit for row in rows}) > 1,
        start=any(row.start for row in rows),
    )
    writer.writerow(columns.header)
    for row in rows:
        start = (row.start.kind, repr(float(row.start.seconds))) if row.start else ("", "")
        writer.writerow([
            row.device, row.workload, row.objective, row.process, row.quad, row.slot, row.arm, row.sample,
            repr(float(row.value)), int(row.dropped), *(_clock_fields(row.clocks) if columns.clocks else ()),
            *([row.unit] if columns.unit else ()), *(start if columns.start else ()),
        ])  # fmt: skip
    return text.getvalue().encode()


def _clock_fields(clocks: ClockReading | None) -> tuple[int | str, int | str, str]:
    if clocks is None:
        return "", "", ""
    sm, memory = ("" if mhz is None else mhz for mhz in (clocks.sm_mhz, clocks.memory_mhz))
    return sm, memory, ";".join(clocks.reasons)


def decode_samples(data: bytes, where: str) -> Samples:
    """The inverse of ``encode_samples``. Little of the file is in memory beside its columns.

    Args:
        where: the file's name, for messages.

    Raises:
        StoreError: it is not a samples file; the message names the line.
    """
    mend = restored(where)
    lines = io.BytesIO(data)
    if (columns := _FORMATS.get(lines.readline())) is None:
        raise StoreError(f"{where} does not begin with {','.join(HEADER)}", mend)
    begin = lines.tell()
    with contained(f"{where}, a samples file,", mend):
        try:
            samples = Samples(columns)
            while some := list(itertools.islice(lines, _LINES_AT_ONCE)):
                samples.take_in(some)
        except _NO_SAMPLE:
            lines.seek(begin)
            samples = Samples(columns)
            for number, line in enumerate(lines, start=2):  # the slow way, which knows the line
                try:
                    samples.take_in([line])
                except _NO_SAMPLE as error:
                    raise StoreError(f"{where} line {number} is not a sample: {error!s:.200}", mend) from error
    return samples
