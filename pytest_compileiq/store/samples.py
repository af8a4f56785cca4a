"""The samples file: raw samples as CSV, one per line. Values read back are bit for bit those written."""

from __future__ import annotations

import csv
import functools
import io
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_compileiq.errors import StoreError, contained
from pytest_compileiq.model import Arm, ClockReading, SampleRow

HEADER = ["device", "workload", "objective", "process", "quad", "slot", "arm", "sample", "value", "dropped"]
# More of a file with samples of a GPU.
CLOCKS_HEADER = ["sm_mhz", "memory_mhz", "held_by"]
# A claim takes at most 32 processes of 4 quads of 4 slots, of 5 samples or, for a tail, of 100: 51,200 rows.
MOST_ROWS_OF_A_CLAIM = 200_000
MOST_CLAIMS = 1000
_MOST_PROCESSES, _MOST_QUADS, _SLOTS, _MOST_SAMPLES = 1000, 4, 4, 10_000
_LARGEST_VALUE = 1e30
_NUMERIC_FIELDS = 7
_MOST_READINGS = 10_000  # different ones of a file: each is kept once
_HIGHEST_MHZ = 100_000
_ARMS: tuple[Arm, Arm] = ("baseline", "tuned")
_ARM = {arm.encode(): place for place, arm in enumerate(_ARMS)}
_DROPPED = {b"0": 0, b"1": 1}
Key = tuple[str, str, str]


@dataclass(frozen=True)
class _Columns:
    """The rows of one claim, 16 bytes each."""

    process: array[int] = field(default_factory=lambda: array("H"))
    quad: array[int] = field(default_factory=lambda: array("B"))
    slot: array[int] = field(default_factory=lambda: array("B"))
    arm: array[int] = field(default_factory=lambda: array("B"))
    sample: array[int] = field(default_factory=lambda: array("H"))
    value: array[float] = field(default_factory=lambda: array("d"))
    dropped: array[int] = field(default_factory=lambda: array("B"))
    clocks: list[ClockReading | None] = field(default_factory=list)


class Samples:
    """The rows of one file by what they measure: device, workload and objective.

    Args:
        with_clocks: whether each line ends with a GPU's clocks.
    """

    def __init__(self, *, with_clocks: bool = False) -> None:
        self._numeric_fields = _NUMERIC_FIELDS + len(CLOCKS_HEADER) * with_clocks
        self._readings: dict[tuple[bytes, ...], ClockReading | None] = {(): None, (b"", b"", b""): None}
        self._columns: dict[Key, _Columns] = {}
        self._by_text: dict[bytes, _Columns] = {}  # the same, by the text that all lines of a claim begin with
        self._processes, self._quads = _counts(_MOST_PROCESSES), _counts(_MOST_QUADS)
        self._slots, self._samples = _counts(_SLOTS), _counts(_MOST_SAMPLES)

    def measured(self) -> list[Key]:
        """The keys of all claims, in the file's order."""
        return list(self._columns)

    def rows(self, key: Key) -> list[SampleRow]:
        """The samples of ``key`` in the file's order; empty if the file has none."""
        columns = self._columns.get(key, _Columns())
        make = functools.partial(SampleRow, *key)
        arms, dropped = map(_ARMS.__getitem__, columns.arm), map(bool, columns.dropped)
        return list(
            map(
                make, columns.process, columns.quad, columns.slot, arms, columns.sample, columns.value, dropped,
                columns.clocks,
            )
        )  # fmt: skip

    def take_in(self, line: bytes) -> None:
        """Add the sample of one line.

        Raises:
            ValueError, KeyError, csv.Error: the line is not a sample, or is one too many.
        """
        # The text fields may hold commas; the numbers after them do not.
        if not line.endswith(b"\n"):
            raise ValueError("it is cut off")
        text, process, quad, slot, arm, sample, value, dropped, *clocks = line[:-1].rsplit(b",", self._numeric_fields)
        columns = self._by_text.get(text) or self._begun(text)
        if len(columns.value) == MOST_ROWS_OF_A_CLAIM:
            raise ValueError(f"one claim has more than {MOST_ROWS_OF_A_CLAIM} samples")
        columns.process.append(self._processes[process])
        columns.quad.append(self._quads[quad])
        columns.slot.append(self._slots[slot])
        columns.arm.append(_ARM[arm])
        columns.sample.append(self._samples[sample])
        columns.dropped.append(_DROPPED[dropped])
        columns.clocks.append(self._reading(tuple(clocks)))
        number = float(value)
        if not -_LARGEST_VALUE <= number <= _LARGEST_VALUE:
            raise ValueError(f"{value!r:.80} is not a number of sensible size")
        columns.value.append(number)

    def _reading(self, fields: tuple[bytes, ...]) -> ClockReading | None:
        if fields not in self._readings:
            if len(self._readings) == _MOST_READINGS:
                raise ValueError(f"more than {_MOST_READINGS} different readings of clocks")
            sm, memory, reasons = fields
            words = tuple(reasons.decode("utf-8").split(";")) if reasons else ()
            self._readings[fields] = ClockReading(_megahertz(sm), _megahertz(memory), words)
        return self._readings[fields]

    def _begun(self, text: bytes) -> _Columns:
        ((device, workload, objective),) = csv.reader([text.decode("utf-8")], strict=True)
        if len(self._by_text) == MOST_CLAIMS:
            raise ValueError(f"more than {MOST_CLAIMS} devices, workloads and objectives")
        self._by_text[text] = self._columns.setdefault((device, workload, objective), _Columns())
        return self._by_text[text]


@functools.cache
def _counts(below: int) -> Mapping[bytes, int]:
    """Every count below a bound, by its decimal text."""
    return {str(count).encode(): count for count in range(below)}


def _megahertz(text: bytes) -> int | None:
    number = int(text) if text.isdigit() and len(text) <= len(str(_HIGHEST_MHZ)) else None
    if text and (number is None or number > _HIGHEST_MHZ):
        raise ValueError(f"{text!r:.80} is no clock in MHz")
    return number


def encode_samples(rows: Sequence[SampleRow]) -> bytes:
    """CSV with a header; floats by ``repr``, which is exact. Names hold no control characters."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    with_clocks = any(row.clocks for row in rows)
    writer.writerow([*HEADER, *CLOCKS_HEADER] if with_clocks else HEADER)
    for row in rows:
        writer.writerow([
            row.device, row.workload, row.objective, row.process, row.quad, row.slot, row.arm, row.sample,
            repr(float(row.value)), int(row.dropped), *(_clock_fields(row.clocks) if with_clocks else ()),
        ])  # fmt: skip
    return text.getvalue().encode()


def _clock_fields(clocks: ClockReading | None) -> tuple[int | str, int | str, str]:
    if clocks is None:
        return "", "", ""
    sm, memory = ("" if mhz is None else mhz for mhz in (clocks.sm_mhz, clocks.memory_mhz))
    return sm, memory, ";".join(clocks.reasons)


def decode_samples(data: bytes, where: str) -> Samples:
    """The inverse of ``encode_samples``, in one pass that holds one line at a time.

    Args:
        where: the file's name, for messages.

    Raises:
        StoreError: it is not a samples file; the message names the line.
    """
    mend = f"restore it with git checkout -- {where}"
    lines = io.BytesIO(data)
    with_clocks = {f"{','.join(HEADER)}\n": False, f"{','.join((*HEADER, *CLOCKS_HEADER))}\n": True}.get(
        lines.readline().decode("utf-8", "replace")
    )
    if with_clocks is None:
        raise StoreError(f"{where} does not begin with {','.join(HEADER)}; {mend}")
    samples = Samples(with_clocks=with_clocks)
    with contained(f"{where}, a samples file,", mend):
        for number, line in enumerate(lines, start=2):
            try:
                samples.take_in(line)
            except (ValueError, KeyError, csv.Error) as error:
                raise StoreError(f"{where} line {number} is not a sample: {error!s:.200}; {mend}") from error
    return samples
