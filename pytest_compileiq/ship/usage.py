"""Counts of shipped artifacts: read, joined over processes, and told in words."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from pytest_compileiq.errors import UserError
from pytest_compileiq.ship.acf_runtime import COUNTS_SCHEMA
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.files import Unfit, read_regular

_LARGEST = 64 << 20  # bytes of one file of counts
_Count = Annotated[int, Meta(ge=0)]


class ArtifactCounts(Struct, frozen=True):
    """How often an artifact was looked for, applied, and refused for which reason."""

    shipped: bool
    looked_for: _Count
    applied: _Count
    refused: dict[str, _Count]

    def less(self, before: ArtifactCounts) -> ArtifactCounts:
        """What was counted after ``before``."""
        refused = Counter(self.refused) - Counter(before.refused)
        looked_for, applied = self.looked_for - before.looked_for, self.applied - before.applied
        return ArtifactCounts(self.shipped, looked_for, applied, refused)

    def more(self, other: ArtifactCounts) -> ArtifactCounts:
        """The counts of two processes."""
        looked_for, applied = self.looked_for + other.looked_for, self.applied + other.applied
        refused = Counter(self.refused)
        refused.update(other.refused)
        return ArtifactCounts(self.shipped or other.shipped, looked_for, applied, refused)


class Counts(Struct, frozen=True):
    """What ``acf_runtime.report()`` gives of one process and one export."""

    schema: int
    process: str
    export: str
    problem: str | None
    artifacts: dict[str, ArtifactCounts]

    @property
    def looked_for(self) -> int:
        return sum(artifact.looked_for for artifact in self.artifacts.values())

    def less(self, before: Counts | None) -> Counts:
        """What this process counted after ``before``."""
        earlier = before.artifacts if before else {}
        artifacts = {
            name: counts.less(earlier[name]) if name in earlier else counts for name, counts in self.artifacts.items()
        }
        return msgspec.structs.replace(self, artifacts=artifacts)


def read_counts(path: Path) -> list[Counts]:
    """The lines that processes appended to the file of ``ACF_COUNTS``; raises ``UserError`` for any that is none."""
    try:
        lines = read_regular(path, _LARGEST).splitlines()
    except Unfit as error:
        raise UserError(f"{path} {error}: no process has written its counts there (ACF_COUNTS={path})") from error
    read = []
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        try:
            counts = msgspec.json.decode(line, type=Counts)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{where} is no counts of acf_runtime: {error}; delete the file and count anew") from error
        if counts.schema != COUNTS_SCHEMA:
            schemas = f"schema {counts.schema}, and this acf reads {COUNTS_SCHEMA}"
            raise UserError(f"{where} has {schemas}: export and count anew")
        read.append(counts)
    return read


def runtimes() -> Sequence[Any]:
    """The ``Runtime`` of every export that this process imported; their modules have any name."""
    return tuple(vars(sys).get("_acf_runtimes", ()))


def of_this_process() -> list[Counts]:
    """What each of them counted."""
    return [msgspec.convert(runtime.report(), Counts) for runtime in runtimes()]


def together(counts: Iterable[Counts]) -> dict[str, Any]:
    """All processes as one, in JSON's types, as ``acf_runtime.unmet`` reads it; ``problem`` is the first of theirs.

    Of a process with several lines the fullest holds: it also writes before its end.
    """
    fullest: dict[str, Counts] = {}
    for line in counts:
        before = fullest.get(line.process)
        if before is None or line.looked_for >= before.looked_for:
            fullest[line.process] = line
    artifacts: dict[str, ArtifactCounts] = {}
    for process in fullest.values():
        for name, own in process.artifacts.items():
            artifacts[name] = artifacts[name].more(own) if name in artifacts else own
    problem = next((process.problem for process in fullest.values() if process.problem), None)
    told = {name: msgspec.to_builtins(own) for name, own in sorted(artifacts.items())}
    return {"schema": COUNTS_SCHEMA, "processes": len(fullest), "problem": problem, "artifacts": told}


def headline(report: Mapping[str, Any], missing: Sequence[str]) -> str:
    """One line: how much of what was shipped was applied, and what was not, each with its reason."""
    shipped = [counts for counts in report["artifacts"].values() if counts["shipped"]]
    applied = sum(counts["applied"] > 0 for counts in shipped)
    processes = quantity(report["processes"], "process")
    return "; ".join([f"in use: {applied} of {len(shipped)} shipped artifacts applied in {processes}", *missing])


def told_of(name: str, report: Mapping[str, Any]) -> str:
    """What was counted of one artifact, in a clause: ``looked for 4x, applied 0x: REASON``."""
    counts = report["artifacts"].get(name)
    if not counts or not counts["looked_for"]:
        return "never asked for"
    most = max(counts["refused"], key=counts["refused"].__getitem__, default="")
    reason = f": {most}" if most else ""
    return f"looked for {counts['looked_for']}x, applied {counts['applied']}x{reason}"
