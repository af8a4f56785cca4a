"""What ends an artifact: the inputs that made it stale, or another one in its place. Values in, causes out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, get_args

from pytest_compileiq.model import Arm, CodeDigest, Compiler, Fingerprint, digest_of_code, sha256_hex
from pytest_compileiq.outcome import End
from pytest_compileiq.rules.staleness import UNEXPLAINED, Effect, Finding, Rebuilt, judge

if TYPE_CHECKING:
    from pytest_compileiq.artifact import Artifact, Claim
    from pytest_compileiq.proven_code import StoredCode

_BY_FIELD: Mapping[str, End] = {
    "benchmark": "benchmark",
    "sources": "kernel",
    "command": "kernel",
    "compiler": "compiler",
    "environment": "compiler",
    "code": "compiler",
    UNEXPLAINED: "compiler",  # what else the compiler read is not recorded
}


def proof_of(artifact: Artifact) -> str:
    """A digest of what was proven, on what, by which samples.

    What only tells more of the same proof, such as its attribution or its provenance, is not in it.
    """
    return sha256_hex(json.dumps([*_proven(artifact), *map(_claimed, artifact.claims)], sort_keys=True).encode())


def goes_on(before: Artifact, after: Artifact) -> bool:
    """Whether ``after`` is ``before`` with nothing but claims added to it, as for another device."""
    claimed = [_claimed(claim) for claim in after.claims]
    return _proven(before) == _proven(after) and all(_claimed(claim) in claimed for claim in before.claims)


def _proven(artifact: Artifact) -> list[object]:
    compiler, fingerprint, controls = artifact.compiler, artifact.fingerprint, artifact.controls
    return [
        artifact.target, artifact.outcome, controls and [controls.sha256, dict(controls.knobs)],
        [compiler.name, compiler.version, compiler.build, *compiler.command],
        [fingerprint.benchmark, fingerprint.command, dict(fingerprint.sources)],
        *([dict(fingerprint.environment)] if fingerprint.environment else ()),
        [digest_of_code(code_of(artifact, arm)) for arm in get_args(Arm)],
    ]  # fmt: skip


def _claimed(claim: Claim) -> list[object]:
    return [claim.device, claim.workload, claim.objective, claim.samples, claim.tuned_value]


def code_of(artifact: Artifact, arm: Arm) -> dict[str, str]:
    """Entry function → the digest that its code was first recorded by; those ``arm`` was not built of are left out."""
    return {entry: code.proven_as for entry, code in _recorded(artifact, arm)}


def _rebuilt(artifact: Artifact, arm: Arm) -> dict[str, CodeDigest]:
    """The code of ``arm`` as a build would give it."""
    return {entry: CodeDigest(code.sha256, former=(code.proven_as,)) for entry, code in _recorded(artifact, arm)}


def _recorded(artifact: Artifact, arm: Arm) -> Iterator[tuple[str, StoredCode]]:
    for entry, pair in artifact.code.items():
        if (code := pair.baseline if arm == "baseline" else pair.tuned) is not None:
            yield entry, code


def ends_of(findings: Iterable[Finding]) -> tuple[End, ...]:
    """What made an artifact stale; several where several inputs did, of which the first is not known."""
    stale = {_BY_FIELD[finding.field] for finding in findings if finding.effect is Effect.STALE}
    return tuple(sorted(stale))


def ends_by_successor(before: Artifact, after: Artifact) -> tuple[End, ...]:
    """What ended ``before``, of which ``after`` took the place: what had made it stale, or else why it was replaced."""
    if after.outcome == "retired":
        return ("withdrawn",)
    baseline = _rebuilt(after, "baseline")
    is_same = code_of(before, "baseline") == code_of(after, "baseline")
    tuned = _rebuilt(before, "tuned") if is_same else {}  # not built again: what moved is the baseline's code
    compiler, fingerprint = after.compiler, after.fingerprint
    rebuilt = Rebuilt(
        Compiler(compiler.name, compiler.version, compiler.build, compiler.command, compiler.architecture_from),
        Fingerprint(**dict(fingerprint)),
        baseline=baseline,
        tuned=tuned,
        target=after.target,
        architecture="",
    )
    return ends_of(judge(before, rebuilt)) or (("gain",) if after.outcome == "baseline" else ("tuned anew",))
