"""The claims that were committed, over the history of ``acf/``: each proof is one observation. Content is untrusted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from pytest_compileiq.artifact import Artifact, Claim
from pytest_compileiq.errors import CompileIQError, StoreError
from pytest_compileiq.history.observation import LineKey, Observation
from pytest_compileiq.model import digest_of_code
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.review.snapshots import Entry, StoreInGit, Version, Wanted
from pytest_compileiq.rules.claims import direction_of
from pytest_compileiq.store.metadata import MAX_METADATA_BYTES, parse


def observations_in_git(history: StoreInGit, name: str | None = None) -> list[Observation]:
    """What was proven, oldest first: each claim once, when it came into this branch.

    Versions that cannot be read any more are left out: ``acf check`` tells of those that are here.
    """
    versions = [version for version in history.versions(name) if version.path.endswith(".toml")]
    wanted = {
        version.oid: Wanted(version.oid, Entry("100644", version.oid), MAX_METADATA_BYTES) for version in versions
    }
    artifacts = {}
    for oid, data in history.contents(wanted.values()):
        if isinstance(data, bytes):
            with suppress(StoreError):
                artifacts[oid] = parse(data, oid, "an older version")
    latest: dict[LineKey, Observation] = {}
    found = []
    for version in versions:
        for observation in _of(version, artifacts[version.oid]) if version.oid in artifacts else ():
            before = latest.get(observation.key)
            if before is None or _numbers(before) != _numbers(observation):
                found.append(observation)
            latest[observation.key] = observation
    return found


def _of(version: Version, artifact: Artifact) -> Iterator[Observation]:
    name = version.path.partition("/")[0]
    code = {arm: {entry: getattr(pair, arm) for entry, pair in artifact.code.items()} for arm in ("baseline", "tuned")}
    if artifact.outcome != "tuned":
        return
    baseline, tuned = (digest_of_code({entry: own.sha256 for entry, own in arm.items()}) for arm in code.values())
    for claim in artifact.claims:
        if claim.kind == "exact" or claim.scale is not None or claim.baseline is None or not claim.speedup:
            continue
        with suppress(CompileIQError):
            yield Observation.of(_Proof(version, name, artifact, claim, baseline, tuned))


class _Proof:
    """One claim with the attributes of an observation."""

    source = "proof"
    verdict = Verdict.PROVEN.value
    machine = None

    def __init__(
        self, version: Version, name: str, artifact: Artifact, claim: Claim, baseline_code: str, tuned_code: str
    ) -> None:
        self.date = datetime.fromtimestamp(version.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.commit = version.commit
        self.name, self.target = name, artifact.target
        self.device, self.workload, self.objective = claim.device, claim.workload, claim.objective
        self.direction, self.driver = direction_of(claim), claim.driver
        self.speedup, self.speedup_low, self.speedup_high = claim.speedup, claim.speedup_low, claim.speedup_high
        self.baseline = claim.baseline.mean if claim.baseline else 0.0
        self.tuned = claim.tuned.mean if claim.tuned else 0.0
        self.compiler = f"{artifact.compiler.name} {artifact.compiler.version}"
        self.baseline_code, self.tuned_code = baseline_code, tuned_code


def _numbers(observation: Observation) -> tuple[float, ...]:
    return observation.baseline, observation.tuned, observation.speedup, observation.speedup_low
