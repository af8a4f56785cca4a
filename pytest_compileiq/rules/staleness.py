"""Which recorded inputs still hold, and whether a difference changes the result. Values in, findings out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from pytest_compileiq.model import CodeDigest, Compiler, Fingerprint

if TYPE_CHECKING:
    from pytest_compileiq.artifact import Artifact, StoredCode

MOST_NAMED = 5  # files in one sentence; a toolkit that moved is hundreds


@dataclass(frozen=True)
class Found:
    """What stands here now. ``baseline`` and ``tuned`` map entry functions to code; None: that arm is not built."""

    compiler: Compiler
    fingerprint: Fingerprint
    baseline: Mapping[str, CodeDigest] | None
    tuned: Mapping[str, CodeDigest] | None
    target: str
    architecture: str


class Effect(StrEnum):
    """What a difference does: it ends the artifact, leaves the machine code alone, or is worth a word."""

    STALE = "stale"
    COSMETIC = "cosmetic"
    NOTED = "noted"


@dataclass(frozen=True)
class Finding:
    """One difference, in a sentence."""

    field: str
    effect: Effect
    message: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """Which stored target applies here, and why not another."""

    artifact_target: str | None
    kind: Literal["exact", "missing", "other-architecture", "other-compiler"]
    message: str


def choose(targets: Sequence[str], target: str, architecture: str) -> Choice:
    """The artifact for ``target`` among the stored ones; the architecture selects, and never falls back.

    Of another compiler's line the target is named too, for what that line's controls do here, never to be applied.
    """
    if target in targets:
        return Choice(target, "exact", f"{target} is stored")
    same = sorted(one for one in targets if one.rpartition("-")[0] == architecture)
    if same:
        message = f"the artifact is for {', '.join(same)}, and the compiler here makes {target}"
        return Choice(same[-1], "other-compiler", message)
    if targets:
        return Choice(
            None, "other-architecture", f"there are artifacts for {', '.join(sorted(targets))}, none for {target}"
        )
    return Choice(None, "missing", f"nothing is stored for {target}")


def judge(artifact: Artifact, found: Found, *, outcome: str) -> list[Finding]:
    """Apply the staleness table to ``artifact`` once both arms are built.

    Args:
        outcome: the artifact's outcome; only ``tuned`` has a tuned arm to compare.
    """
    same_code = not _changed_entries(artifact, found, outcome)
    findings = [
        finding
        for finding in (
            _benchmark(artifact, found),
            _sources(artifact, found, same_code),
            _command(artifact, found),
            _compiler(artifact, found, same_code),
        )
        if finding is not None
    ]
    if not same_code and not any(finding.field in ("sources", "command", "compiler") for finding in findings):
        entries = ", ".join(_changed_entries(artifact, found, outcome))
        message = f"the build is not reproducible: same inputs, other machine code in {entries}"
        findings.append(Finding("code", Effect.STALE, message))
    return findings


def _benchmark(artifact: Artifact, found: Found) -> Finding | None:
    before, now = artifact.fingerprint.benchmark, found.fingerprint.benchmark
    if before == now:
        return None
    what = "the test's code, a fixture or helper it uses, a workload or an objective"
    message = f"the benchmark changed ({before[:8]} → {now[:8]}): {what}"
    return Finding("benchmark", Effect.STALE, message)


def _sources(artifact: Artifact, found: Found, same_code: bool) -> Finding | None:
    before, now = artifact.fingerprint.sources, found.fingerprint.sources
    files = tuple(sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name)))
    if not files:
        return None
    named = [f"{name} ({_kind_of_change(name, before, now)})" for name in files[:MOST_NAMED]]
    what = ", ".join([*named, *([f"and {len(files) - MOST_NAMED} more"] if len(files) > MOST_NAMED else [])])
    if same_code:
        return Finding("sources", Effect.COSMETIC, f"{what}: the machine code is the same", files)
    return Finding("sources", Effect.STALE, f"{what}: the machine code is another", files)


def _kind_of_change(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    if name not in before:
        return "added"
    return "changed" if name in now else "no longer read"


def _command(artifact: Artifact, found: Found) -> Finding | None:
    if artifact.fingerprint.command == found.fingerprint.command:
        return None
    before, now = artifact.compiler.command, found.compiler.command
    gone = list((Counter(before) - Counter(now)).elements())
    new = list((Counter(now) - Counter(before)).elements())
    detail = "; ".join(
        part for part in (f"gone: {' '.join(gone)}" if gone else "", f"new: {' '.join(new)}" if new else "") if part
    )
    return Finding("command", Effect.STALE, f"the compiler's command changed ({detail or 'another order'})")


def _compiler(artifact: Artifact, found: Found, same_code: bool) -> Finding | None:
    before, now = artifact.compiler, found.compiler
    if (before.name, before.version, before.build) == (now.name, now.version, now.build):
        return None
    proven, here = (f"{one.name} {one.version} ({one.build})" for one in (before, now))
    what = f"proven with {proven}, built here with {here}"
    if same_code:
        return Finding("compiler", Effect.NOTED, f"{what}: the machine code is the same")
    return Finding("compiler", Effect.STALE, f"{what}: the machine code is another")


def _changed_entries(artifact: Artifact, found: Found, outcome: str) -> list[str]:
    """Entry functions whose recorded code, in any arm, is not what was built here."""
    changed = set()
    for entry in artifact.code.keys() | (found.baseline or {}).keys() | (found.tuned or {}).keys():
        pair = artifact.code.get(entry)
        baseline_differs = not _same(pair.baseline if pair else None, found.baseline, entry)
        tuned_differs = outcome == "tuned" and not _same(pair.tuned if pair else None, found.tuned, entry)
        if baseline_differs or tuned_differs:
            changed.add(entry)
    return sorted(changed)


def _same(recorded: StoredCode | None, built: Mapping[str, CodeDigest] | None, entry: str) -> bool:
    """Equal digests; an arm that could not be built is not the same as anything."""
    now = (built or {}).get(entry)
    if recorded is None or now is None:
        return False
    return recorded.sha256 == now.sha256
