"""The samples file: raw samples as CSV, one a line, written so that reading gives back the same bits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import SampleRow

HEADER = ["device", "workload", "objective", "process", "quad", "slot", "arm", "sample", "value", "dropped"]
_MAX_INDEX = 10**6


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


def decode_samples(data: bytes, where: str) -> list[SampleRow]:
    """The inverse of ``encode_samples``.

    Args:
        where: the file's name, for messages.

    Raises:
        StoreError: it is not such a file; the line is named.
    """
    try:
        text = data.decode("utf-8")
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise StoreError(f"{where} is not a samples file: {error}; restore it with git checkout -- {where}") from error
    if not lines or lines[0] != HEADER:
        raise StoreError(f"{where} does not begin with {','.join(HEADER)}; restore it with git checkout -- {where}")
    return [_decode_row(fields, where, number) for number, fields in enumerate(lines[1:], start=2)]


def _decode_row(fields: list[str], where: str, line: int) -> SampleRow:
    try:
        device, workload, objective, process, quad, slot, arm, sample, value, dropped = fields
        indices = [_index(text) for text in (process, quad, slot, sample)]
        number = float(value)
        if arm not in ("baseline", "tuned") or dropped not in ("0", "1") or not math.isfinite(number):
            raise ValueError(f"arm {arm!r}, value {value!r}, dropped {dropped!r}")
    except ValueError as error:
        raise StoreError(
            f"{where} line {line} is not a sample: {error}; restore it with git checkout -- {where}"
        ) from error
    return SampleRow(
        device, workload, objective, indices[0], indices[1], indices[2],
        "tuned" if arm == "tuned" else "baseline", indices[3], number, dropped == "1",
    )  # fmt: skip


def _index(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_INDEX:
        raise ValueError(f"{text!r} is not a count")
    return int(text)
