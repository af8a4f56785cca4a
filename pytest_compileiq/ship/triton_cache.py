"""Which kernels in Triton's cache are what was proven, joined with what the processes counted that filled it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import UserError
from pytest_compileiq.report.in_use import told_of
from pytest_compileiq.ship.verify import Artifacts, Comparison, Match, Sentence, Verified, artifacts_of, compare
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.machine_code.binaries import Contents, read_binaries


def verify_triton_cache(
    store: Store, cache: Path, names: Sequence[str], counts: Mapping[str, Any] | None = None
) -> list[Sentence]:
    """Compare every cubin in Triton's cache directory with the artifacts of Triton and ptxas kernels.

    Args:
        names: the artifacts that it must hold; () compares with every artifact that names one of its entries.
        counts: what the processes counted that filled it; None joins nothing.

    Raises:
        UserError: there is no such artifact or directory.
        StoreError: the metadata of an artifact is invalid.
    """
    if not cache.is_dir():
        raise UserError(f"--triton-cache: there is no directory {cache}")
    paths = sorted(cache.rglob("*.cubin"))
    contents = read_binaries(paths) if paths else Contents(unreadable=(f"{cache} holds no cubin",))
    artifacts = {
        key: artifact
        for key, artifact in artifacts_of(store, names).items()
        if artifact.compiler.name in ("triton", "ptxas")
    }
    verified = compare(contents, artifacts, str(cache), bool(names))
    lines = [*verified.lines, *_tally(cache, verified)]
    return lines if counts is None else [*lines, *_joined(artifacts, verified.findings, counts)]


def _tally(cache: Path, verified: Verified) -> Iterator[Sentence]:
    """One line on all kernels of the cache."""
    standings = Counter(finding.standing for finding in verified.findings)
    if count := len(verified.findings) - standings["missing"] + verified.unknown:
        parts = [f"{standings[standing]} {standing}" for standing in ("proven", "baseline", "neither")]
        yield Sentence(
            Match.RIGHT, f"{cache}: of {count} kernels {', '.join(parts)}, {verified.unknown} of no artifact"
        )


def _joined(artifacts: Artifacts, findings: Sequence[Comparison], counts: Mapping[str, Any]) -> Iterator[Sentence]:
    """For each artifact with controls what was counted of it, and whether the cache bears it out."""
    if counts["problem"]:
        yield Sentence(Match.CANNOT_TELL, counts["problem"])
    for name in sorted({name for (name, _), artifact in artifacts.items() if artifact.outcome == "tuned"}):
        cached = Counter(finding.standing for finding in findings if name in finding.names)
        told = told_of(name, counts)
        is_applied = bool(counts["artifacts"].get(name, {}).get("applied"))
        if is_applied and cached["proven"]:
            yield Sentence(Match.RIGHT, f"{name}: {told}, and the proven code is cached")
        elif is_applied and (cached["baseline"] or cached["neither"]):
            yield Sentence(Match.DIFFERS, f"{name}: {told}, and the compiled code is not the proven code")
        elif is_applied:
            yield Sentence(
                Match.CANNOT_TELL, f"{name}: {told}, and no kernel of it is cached: is it that process's cache?"
            )
        elif cached["proven"]:
            why = "the proven code is cached all the same: is it that process's cache?"
            yield Sentence(Match.CANNOT_TELL, f"{name}: {told}; {why}")
        else:
            yield Sentence(Match.DIFFERS, f"{name}: {told}, so it is not in use")
