"""One artifact in words for ``acf show``, and many in a table for ``acf list``. Texts of artifacts are untrusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_compileiq.artifact import Artifact, CodePair, CompilerTable
from pytest_compileiq.claim import Claim
from pytest_compileiq.machine_code.metrics import LARGEST
from pytest_compileiq.machine_code.names import listed, matching, readable
from pytest_compileiq.model import of_entries
from pytest_compileiq.report.checks import told_of_checks
from pytest_compileiq.report.classes import class_facts
from pytest_compileiq.report.kept_controls import kept_lines
from pytest_compileiq.report.results import (
    also_changes,
    claim_text,
    device_texts,
    estimate_texts,
    evidence_text,
    got_worse,
)
from pytest_compileiq.report.stress import stress_lines
from pytest_compileiq.rules.claims import directions
from pytest_compileiq.rules.conditions import told_of
from pytest_compileiq.spelling import MOST_NAMED, first_of, quantity, variables_text
from pytest_compileiq.system.printing import cells, harmless, json_text

SHOW_SCHEMA = 1
_MOST_SOURCES = 20  # a kernel of CUTLASS has two hundred


def setting_text(knob: str, value: object) -> str:
    """A knob and its value as they are written, e.g. ``-O3`` or ``num_warps=8``."""
    return f"{knob}{value}" if knob.startswith("-") else f"{knob}={value}"


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table as wide as its content; names are never cut off."""
    table = [list(columns), *([harmless(cell) for cell in row] for row in rows)]
    widths = [max(map(cells, column)) for column in zip(*table, strict=True)]
    table.insert(1, ["─" * width for width in widths])
    for row in table:
        padded = (cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def artifact_lines(name: str, artifact: Artifact) -> Iterator[str]:
    """Everything that a reviewer wants to know about one artifact."""
    yield f"{name}  {artifact.target}  {artifact.outcome}"
    if artifact.reason:
        yield f"  reason     {artifact.reason}"
    yield f"  test       {artifact.benchmark}"
    yield from (f"  {label:<10} {text}" for label, text in made_by(artifact.compiler))
    if variables := variables_text(artifact.fingerprint.environment):
        yield f"  set        {variables}"
    if artifact.functions:
        yield f"  stands for {listed(artifact.functions)}"
    if artifact.controls is not None:
        yield f"  controls   {artifact.controls.file}, {artifact.controls.kind}, {artifact.controls.size_bytes} bytes"
        yield from (f"    {setting_text(knob, value)}" for knob, value in sorted(artifact.controls.knobs.items()))
    yield from (f"  {label:<10} {text}" for label, text in class_facts(artifact))
    built = dict.fromkeys(claim.objective for claim in artifact.claims if claim.of_the_build)
    of = {objective: _of(objective, artifact) for objective in built}
    for claim in artifact.claims:
        yield from _claim_lines(claim, of.get(claim.objective))
    for number, line in enumerate(stress_lines(artifact.claims)):
        yield f"    {line}" if number else f"  stress     {line}"
    yield from kept_lines(artifact)
    if beyond := also_changes(artifact):
        yield f"  also       changes {beyond}"
    yield from (f"  worse      {lost}" for lost in got_worse(artifact))
    yield from _front_lines(artifact)
    for entry, pair in artifact.code.items() if artifact.compiler.compiles else ():
        yield from _code_lines(entry, pair)
    sources = [f"{path} {digest[:8]}" for path, digest in artifact.fingerprint.sources.items()]
    yield from (f"  source     {text}" for text in first_of(sources, _MOST_SOURCES))
    search = artifact.search
    reasons = ", ".join(f"{count} {kind}" for kind, count in search.failures.items())
    invalid = f"{search.invalid} invalid{f' ({reasons})' if reasons else ''}"
    spent = f"{quantity(search.evaluations, 'evaluation')}, {invalid}, {quantity(search.duplicates, 'duplicate')}"
    yield f"  search     {search.engine}, seed {search.seed}: {spent}, {search.seconds:g} s"
    if search.transferred:
        yield f"  taught by  {', '.join(search.transferred)}"
    if search.portfolio:
        yield f"  portfolio  {search.portfolio}: sets of options that do well on other kernels, tried first"
    provenance = artifact.provenance
    where = "on top of" if provenance.dirty else "at"
    yield f"  made by    {provenance.tool} {where} commit {(provenance.commit or 'unknown')[:12]}"
    if provenance.notice:
        yield f"  notice     {provenance.notice}"


def artifacts_json(name: str, artifacts: Sequence[Artifact]) -> str:
    """The metadata of every target, as the store holds it, for a program to read."""
    content = [artifact.model_dump(mode="json", by_alias=True, exclude_none=True) for artifact in artifacts]
    return json_text({"schema": SHOW_SCHEMA, "name": name, "artifacts": content})


def made_by(compiler: CompilerTable) -> tuple[tuple[str, str], ...]:
    """What the knobs were given to, labelled: the compiler and its command, or packages and defaults."""
    if compiler.compiles:
        version = f"{compiler.name} {compiler.version}, {compiler.build}"
        return ("compiler", version), ("command", " ".join(compiler.command))
    return ("packages", compiler.build or "none named"), ("defaults", ", ".join(compiler.command[1:]) or "none")


def _claim_lines(claim: Claim, of: str | None) -> Iterator[str]:
    where = claim.workload if of is None else f"{claim.workload}, {of}"
    yield f"  claim      {claim.kind} on {where}: {claim_text(claim)}"
    driver = f"driver {claim.driver}" if claim.driver else ""
    variables = variables_text(claim.environment)
    yield f"    {', '.join(filter(None, (claim.device, driver, variables, evidence_text(claim))))}"
    yield from (f"    {text}" for text in device_texts(claim))
    yield from (f"    {sentence}" for sentence in (*told_of(claim), *told_of_checks(claim)))


def _of(objective: str, artifact: Artifact) -> str:
    """What an exact metric is of, and how the values of several entry functions became one."""
    measured, pattern = of_entries(objective)
    apart = artifact.compiler.apart
    functions = ((entry, pair) for entry, pair in artifact.code.items() if entry not in apart)
    entries = [entry for entry, pair in functions if measured in pair.baseline.metrics]
    if pattern is None:
        return f"{'the largest ' if measured in LARGEST and len(entries) > 1 else ''}of the whole build"
    named = matching(pattern, entries)
    how = "" if len(named) == 1 else "the largest " if measured in LARGEST else "the sum "
    return f"{how}of {listed(named, MOST_NAMED)}"


def _front_lines(artifact: Artifact) -> Iterator[str]:
    better = directions(artifact)
    if artifact.front:
        yield "  front      estimates of the search, not proven:"
    for number, point in enumerate(artifact.front):
        taken = ", committed" if artifact.controls and point.controls.sha256 == artifact.controls.sha256 else ""
        yield f"    point {number}  {', '.join(estimate_texts(point, better).values())}, {point.controls.file}{taken}"


def _code_lines(entry: str, pair: CodePair) -> Iterator[str]:
    tuned = f" → {pair.tuned.sha256[:8]}" if pair.tuned else ""
    yield f"  code       {readable(entry)}, this function alone: {pair.baseline.sha256[:8]}{tuned}"
    for metric, before in pair.baseline.metrics.items():
        after = f" → {pair.tuned.metrics[metric]}" if pair.tuned and metric in pair.tuned.metrics else ""
        yield f"    {metric} {before}{after}"
