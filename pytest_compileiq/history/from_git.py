"""The claims that were committed, over the history of ``acf/``: each proof is one observation. Content is untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from pytest_compileiq.artifact import Artifact, Claim
from pytest_compileiq.errors import StoreError
from pytest_compileiq.history.observation import LineKey, Observation, date_of
from pytest_compileiq.model import Arm, digest_of_code
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.review.snapshots import Entry, StoreInGit, Version, Wanted
from pytest_compileiq.rules.claims import direction_of
from pytest_compileiq.rules.ends import code_of
from pytest_compileiq.store.metadata import MAX_METADATA_BYTES, parse


@dataclass(frozen=True)
class Committed:
    """One version of an artifact as a commit brought it; ``artifact`` is None where the commit removed it."""

    version: Version
    artifact: Artifact | None


def committed_in(history: StoreInGit, name: str | None = None) -> list[Committed]:
    """Every version of every artifact, or of those called ``name``, oldest first.

    Versions that cannot be read any more are left out: ``acf check`` tells of those that are here.
    """
    versions = [version for version in history.versions(name) if version.path.endswith(".toml")]
    wanted = {
        oid: Wanted(oid, Entry("100644", oid), MAX_METADATA_BYTES) for version in versions if (oid := version.oid)
    }
    artifacts = {}
    for oid, data in history.contents(wanted.values()):
        if isinstance(data, bytes):
            with suppress(StoreError):
                artifacts[oid] = parse(data, oid, "an older version")
    return [
        Committed(version, artifacts.get(version.oid or ""))
        for version in versions
        if version.oid is None or version.oid in artifacts
    ]


def proofs_in(history: Iterable[Committed]) -> list[Observation]:
    """What was proven, oldest first: each claim once, when it came into this branch."""
    latest: dict[LineKey, Observation] = {}
    proofs = []
    for committed in history:
        for observation in _of(committed.version, committed.artifact) if committed.artifact else ():
            before = latest.get(observation.key)
            if before is None or _numbers(before) != _numbers(observation):
                proofs.append(observation)
            latest[observation.key] = observation
    return proofs


def _of(version: Version, artifact: Artifact) -> Iterator[Observation]:
    if artifact.outcome != "tuned":
        return
    codes: dict[str, Any] = {f"{arm}_code": digest_of_code(code_of(artifact, arm)) for arm in get_args(Arm)}
    for claim in artifact.claims:
        if claim.kind == "exact" or claim.scale is not None or None in (claim.baseline, claim.tuned, claim.speedup):
            continue
        with suppress(ValidationError):
            yield Observation(**_circumstances(version, artifact), **_numbers_of(claim), **codes)


def _circumstances(version: Version, artifact: Artifact) -> dict[str, Any]:
    return {
        "source": "proof",
        "date": date_of(version.seconds),
        "commit": version.commit,
        "name": version.path.partition("/")[0],
        "target": artifact.target,
        "compiler": f"{artifact.compiler.name} {artifact.compiler.version}",
    }


def _numbers_of(claim: Claim) -> dict[str, Any]:
    assert claim.baseline and claim.tuned
    return {
        "verdict": Verdict.PROVEN.value,
        "baseline": claim.baseline.mean,
        "tuned": claim.tuned.mean,
        "direction": direction_of(claim),
        **claim.model_dump(
            include={"device", "workload", "objective", "driver", "speedup", "speedup_low", "speedup_high"}
        ),
    }


def _numbers(observation: Observation) -> tuple[float, ...]:
    return observation.baseline, observation.tuned, observation.speedup, observation.speedup_low
