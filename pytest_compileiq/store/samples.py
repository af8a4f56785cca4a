"""The samples file: raw samples as CSV, one per line. Values read back are bit for bit those written."""

from __future__ import annotations

import csv
import functools
import io
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_compileiq.errors import StoreError, contained
from pytest_compileiq.model import Arm, SampleRow

HEADER = ["device", "workload", "objective", "process", "quad", "slot", "arm", "sample", "value", "dropped"]
# A claim takes at most 32 processes of 4 quads of 4 slots, of 5 samples or, for a tail, of 100: 51,200 rows.
MOST_ROWS_OF_A_CLAIM = 200_000
MOST_CLAIMS = 1000
_MOST_PROCESSES, _MOST_QUADS, _SLOTS, _MOST_SAMPLES = 1000, 4, 4, 10_000
_LARGEST_VALUE = 1e30
_NUMERIC_FIELDS = 7
_ARMS: tuple[Arm, Arm] = ("baseline", "tuned")
_ARM = {arm.encode(): place for place, arm in enumerate(_ARMS)}
_DROPPED = {b"0\n": 0, b"1\n": 1}
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


class Samples:
    """The rows of one file by what they measure: device, workload and objective."""

    def __init__(self) -> None:
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
            map(make, columns.process, columns.quad, columns.slot, arms, columns.sample, columns.value, dropped)
        )

    def take_in(self, line: bytes) -> None:
        """Add the sample of one line.

        Raises:
            ValueError, KeyError, csv.Error: the line is not a sample, or is one too many.
        """
        # The text fields may hold commas; the numbers after them do not.
        text, process, quad, slot, arm, sample, value, dropped = line.rsplit(b",", _NUMERIC_FIELDS)
        columns = self._by_text.get(text) or self._begun(text)
        if len(columns.value) == MOST_ROWS_OF_A_CLAIM:
            raise ValueError(f"one claim has more than {MOST_ROWS_OF_A_CLAIM} samples")
        columns.process.append(self._processes[process])
        columns.quad.append(self._quads[quad])
        columns.slot.append(self._slots[slot])
        columns.arm.append(_ARM[arm])
        columns.sample.append(self._samples[sample])
        columns.dropped.append(_DROPPED[dropped])
        number = float(value)
        if not -_LARGEST_VALUE <= number <= _LARGEST_VALUE:
            raise ValueError(f"{value!r:.80} is not a number of sensible size")
        columns.value.append(number)

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


def encode_samples(rows: Sequence[SampleRow]) -> bytes:
    """CSV with a header; floats by ``repr``, which is exact. Names hold no control characters."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for row in rows:
        writer.writerow([
            row.device, row.workload, row.objective, row.process, row.quad, row.slot, row.arm, row.sample,
            repr(float(row.value)), int(row.dropped),
        ])  # fmt: skip
    return text.getvalue().encode()


def decode_samples(data: bytes, where: str) -> Samples:
    """The inverse of ``encode_samples``, in one pass that holds one line at a time.

    Args:
        where: the file's name, for messages.

    Raises:
        StoreError: it is not a samples file; the message names the line.
    """
    mend = f"restore it with git checkout -- {where}"
    lines = io.BytesIO(data)
    if lines.readline() != f"{','.join(HEADER)}\n".encode():
        raise StoreError(f"{where} does not begin with {','.join(HEADER)}; {mend}")
    samples = Samples()
    with contained(f"{where}, a samples file,", mend):
        for number, line in enumerate(lines, start=2):
            try:
                samples.take_in(line)
            except (ValueError, KeyError, csv.Error) as error:
                raise StoreError(f"{where} line {number} is not a sample: {error!s:.200}; {mend}") from error
    return samples
