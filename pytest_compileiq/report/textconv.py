"""One file of an artifact as text for ``git diff``: no change is hidden, and no hostile text is obeyed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.report.claims import brief_text, results_of
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.spelling import quantity
from pytest_compileiq.store.metadata import parse
from pytest_compileiq.store.samples import decode_samples

_BYTES_A_LINE = 16


def text_lines(file_name: str, data: bytes) -> Iterator[str]:
    """``data`` as lines of text; a file that is not what its name says is shown unchanged, never refused.

    Metadata: one line per value, with its keys in front. Controls: options unchanged, a blob in hexadecimal. Samples:
    each arm's distribution, and the digest of the whole file.
    """
    if file_name.endswith(".toml"):
        return _metadata(data)
    return _samples(data) if file_name.endswith(".csv") else _raw(data)


def _metadata(data: bytes) -> Iterator[str]:
    try:
        artifact = parse(data, "this file", "it is shown as it is")
    except StoreError as error:
        yield str(error)
        yield from _raw(data)
        return
    results = results_of(artifact.claims)
    gain = f": {brief_text(results)}, on {results[0].device}" if results else ""
    yield f"{artifact.benchmark} for {artifact.target}, {artifact.outcome}{gain}"
    content = artifact.model_dump(mode="json", by_alias=True, exclude_none=True)
    claims, front = content.pop("claims"), content.pop("front")
    yield from _flat("", content)
    for number, point in enumerate(front):
        yield from _flat(f"front {number}, an estimate of the search: ", point)
    for claim in claims:
        where = " / ".join(claim.pop(key) for key in ("device", "workload", "objective"))
        yield from _flat(f"claim {where}: ", claim)


def _flat(prefix: str, value: Any) -> Iterator[str]:
    """One line for every value, e.g. ``fingerprint sources k.c = …``."""
    inner = value.items() if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else ()
    for key, part in inner:
        yield from _flat(f"{prefix}{key} ", part)
    if not inner:
        yield f"{prefix}= {value!r}"


def _samples(data: bytes) -> Iterator[str]:
    yield f"sha256 {sha256_hex(data)}, {len(data)} bytes"
    try:
        samples = decode_samples(data, "this file")
    except StoreError as error:
        yield str(error)
        yield from _raw(data)
        return
    for key in sorted(samples.measured()):
        rows = list(samples.rows(key))
        for arm in sorted({row.arm for row in rows}):
            yield f"{' / '.join((*key, arm))}: {_distribution([row for row in rows if row.arm == arm])}"


def _distribution(rows: list[SampleRow]) -> str:
    kept = sorted(row.value for row in rows if not row.dropped)
    dropped = len(rows) - len(kept)
    processes = quantity(len({row.process for row in rows}), "process")
    counted = f"{quantity(len(kept), 'sample')} of {processes}, {dropped} dropped"
    return f"{counted}, median {statistics.median(kept):.6g}, {kept[0]:.6g} to {kept[-1]:.6g}" if kept else counted


def _raw(data: bytes) -> Iterator[str]:
    """Text unchanged, anything else in hexadecimal."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        yield from text.removesuffix("\n").split("\n")
        return
    yield f"{len(data)} bytes, sha256 {sha256_hex(data)}"
    for start in range(0, len(data), _BYTES_A_LINE):
        yield f"{start:08x}  {data[start : start + _BYTES_A_LINE].hex(' ')}"
