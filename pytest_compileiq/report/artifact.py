"""One artifact in words, for ``acf show``, and many in a table, for ``acf list``. Texts of artifacts are untrusted."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator, Sequence

from pytest_compileiq.artifact import Artifact, Claim
from pytest_compileiq.printing import harmless
from pytest_compileiq.report.model import describe_evidence


def claim_text(claim: Claim) -> str:
    """A claim's result in a few words."""
    if claim.kind == "exact":
        return f"{claim.objective} {claim.baseline_value} → {claim.tuned_value}"
    return f"{claim.speedup:.3f}x, {claim.speedup_low:.3f} to {claim.speedup_high:.3f}"


def setting_text(knob: str, value: object) -> str:
    """A knob and its value as they are written: ``-O3``, ``num_warps=8``."""
    return f"{knob}{value}" if knob.startswith("-") else f"{knob}={value}"


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table, as wide as its content: names are never cut off."""
    table = [list(columns), *([harmless(cell) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
    table.insert(1, ["─" * width for width in widths])
    for row in table:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Cells of a terminal that ``text`` takes up; it holds no control character."""
    return len(text) if text.isascii() else sum(_cells(character) for character in text)


@functools.cache
def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def artifact_lines(name: str, artifact: Artifact) -> Iterator[str]:
    """Everything a reviewer wants to know of one artifact."""
    yield f"{name}  {artifact.target}  {artifact.outcome}"
    if artifact.reason:
        yield f"  reason     {artifact.reason}"
    yield f"  test       {artifact.benchmark}"
    yield f"  compiler   {artifact.compiler.name} {artifact.compiler.version}, {artifact.compiler.build}"
    yield f"  command    {' '.join(artifact.compiler.command)}"
    if artifact.controls is not None:
        yield f"  controls   {artifact.controls.file}, {artifact.controls.kind}, {artifact.controls.size_bytes} bytes"
        yield from (f"    {setting_text(knob, value)}" for knob, value in sorted(artifact.controls.knobs.items()))
    for claim in artifact.claims:
        metric = "" if claim.kind == "exact" else f"{claim.objective} "
        yield f"  claim      {claim.kind}: {metric}{claim_text(claim)} on {claim.workload}"
        where = f"{claim.device}{f', driver {claim.driver}' if claim.driver else ''}"
        yield f"    {where}{'' if claim.kind == 'exact' else f', {describe_evidence(claim)}'}"
    for number, point in enumerate(artifact.front):
        taken = ", committed" if artifact.controls and point.controls.sha256 == artifact.controls.sha256 else ""
        ratios = ", ".join(f"{metric} {ratio:.4g}x" for metric, ratio in point.metrics.items())
        yield f"  point {number:<4} {ratios} of the baseline's, {point.controls.file}{taken}"
    for entry, pair in artifact.code.items():
        tuned = f" → {pair.tuned.sha256[:8]}" if pair.tuned else ""
        yield f"  code       {entry}: {pair.baseline.sha256[:8]}{tuned}"
        for metric, before in pair.baseline.metrics.items():
            after = f" → {pair.tuned.metrics[metric]}" if pair.tuned and metric in pair.tuned.metrics else ""
            yield f"    {metric} {before}{after}"
    yield from (f"  source     {path} {digest[:8]}" for path, digest in artifact.fingerprint.sources.items())
    search = artifact.search
    reasons = ", ".join(f"{count} {kind}" for kind, count in search.failures.items())
    invalid = f"{search.invalid} invalid{f' ({reasons})' if reasons else ''}"
    spent = f"{search.evaluations} evaluations, {invalid}, {search.duplicates} duplicates"
    yield f"  search     {search.engine}, seed {search.seed}: {spent}, {search.seconds:g} s"
    provenance = artifact.provenance
    dirty = {True: ", dirty", False: "", None: ""}[provenance.dirty]
    yield f"  made by    {provenance.tool} at commit {(provenance.commit or 'unknown')[:12]}{dirty}"
    if provenance.notice:
        yield f"  notice     {provenance.notice}"
