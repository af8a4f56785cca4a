"""Which recorded inputs still hold, whether a difference changes the result, and what ends an artifact."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, get_args

from pytest_compileiq.model import (
    ArchitectureFrom,
    Arm,
    CodeDigest,
    Compiler,
    Fingerprint,
    Target,
    digest_of_code,
    of_entries,
    sha256_hex,
)
from pytest_compileiq.outcome import End, MovedCode
from pytest_compileiq.rules.fingerprint import (
    changed_benchmark,
    changed_environment,
    changed_parts,
    is_same_benchmark,
    part_place,
)
from pytest_compileiq.spelling import first_of

if TYPE_CHECKING:
    from pytest_compileiq.artifact import Artifact, CodeTable
    from pytest_compileiq.claim import Claim

UNEXPLAINED = "unexplained"  # the field of a finding that no recorded input explains
_LINKS = ("-l", "-L", "-Wl,", "-Xlinker", "-static", "-rdynamic")
_ENTRY_AT = re.compile(r"(?P<entry>.+)@(?P<architecture>sm_\w+)", re.DOTALL)  # in a build for several architectures


@dataclass(frozen=True)
class Rebuilt:
    """What is here now. ``baseline`` and ``tuned`` map entry functions to code; None where that arm is not built."""

    compiler: Compiler
    fingerprint: Fingerprint
    baseline: Mapping[str, CodeDigest] | None
    tuned: Mapping[str, CodeDigest] | None
    target: str
    architecture: str


class Effect(StrEnum):
    """What a difference does: it makes the artifact stale, leaves the machine code alone, or is worth a note."""

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

    ``other-architecture`` is either another machine's artifact or one that the test no longer asks for:
    ``are_elsewhere`` tells which.

    ``other-compiler`` names a target too, so that its controls can be tried on the compiler here; they are never
    applied.
    """
    if target in targets:
        return Choice(target, "exact", f"{target} is stored")
    same = sorted(stored for stored in targets if Target(stored).architecture == architecture)
    if same:
        message = f"the artifact is for {', '.join(same)}, and the compiler here makes {target}"
        return Choice(same[-1], "other-compiler", message)
    if targets:
        return Choice(
            None, "other-architecture", f"there are artifacts for {', '.join(sorted(targets))}, none for {target}"
        )
    return Choice(None, "missing", f"nothing is stored for {target}")


def are_elsewhere(stored: Mapping[str, ArchitectureFrom], target: str, chosen_by: ArchitectureFrom) -> bool:
    """Whether all ``stored`` targets are of other machines, so that having none for this one is no change of the test.

    What the test's own text asks for is the same on every machine. The compiler line has to be the same too: another
    line may name the same processor differently, and a toolchain upgrade must not pass for another machine.

    Args:
        stored: target → who chose its architecture when it was tuned.
        chosen_by: who chooses it now.
    """
    line = Target(target).line
    return chosen_by != "test" and all(
        chosen_then == chosen_by and Target(other).line == line for other, chosen_then in stored.items()
    )


def judge(artifact: Artifact, found: Rebuilt) -> list[Finding]:
    """Apply the staleness table to ``artifact`` once both arms are built."""
    named = _named(artifact)
    everywhere = moved_code(artifact, found)
    moved = tuple(code for code in everywhere if named is None or code.entry in named)
    beside = [code for code in everywhere if code not in moved]
    findings = [
        finding
        for finding in (
            _beside(beside),
            _benchmark(artifact, found),
            _unrecorded(artifact, found),
            _sources(artifact, found, moved),
            _command(artifact, found, moved),
            _environment(artifact, found, moved),
            _compiler(artifact, found, moved),
        )
        if finding is not None
    ]
    if moved and not any(finding.field in ("sources", "command", "environment", "compiler") for finding in findings):
        message = (
            f"every recorded input is the same, and the machine code is another, in {_names(moved)}"
            if found.compiler.compiles
            else "the recorded digest is none of the committed knobs, packages and sources"
        )
        findings.append(Finding(UNEXPLAINED, Effect.STALE, message))
    if not moved and _is_one_compiler(artifact, found) and (other := next(_other_numbers(artifact, found), None)):
        findings.append(Finding("code", Effect.STALE, other))
    return findings


def moved_code(artifact: Artifact, found: Rebuilt) -> tuple[MovedCode, ...]:
    """Every entry function whose recorded code differs in any arm from what was built here, sorted by name."""
    built: dict[Arm, Mapping[str, CodeDigest] | None] = {"baseline": found.baseline}
    if artifact.outcome == "tuned":
        built["tuned"] = found.tuned
    moved = []
    for key in sorted(artifact.code.keys() | (found.baseline or {}).keys() | (found.tuned or {}).keys()):
        pair = artifact.code.get(key)
        recorded = {"baseline": pair.baseline if pair else None, "tuned": pair.tuned if pair else None}
        if arms := tuple(arm for arm, code in built.items() if not _same(recorded[arm], code, key)):
            at = _ENTRY_AT.fullmatch(key)
            moved.append(
                MovedCode(at["entry"], at["architecture"], arms) if at else MovedCode(key, found.architecture, arms)
            )
    return tuple(moved)


def _named(artifact: Artifact) -> frozenset[str] | None:
    """The entries whose code decides: those the test stands for, where ``functions=`` says which; None for all.

    A claim about the whole build is one about the neighbours too.
    """
    exact = (claim.objective for claim in artifact.claims if claim.of_the_build)
    if not artifact.functions or any(of_entries(objective)[1] is None for objective in exact):
        return None
    return artifact.compiler.apart | {_plain(entry) for entry in artifact.functions}


def _plain(entry: str) -> str:
    """The name of an entry without its architecture."""
    at = _ENTRY_AT.fullmatch(entry)
    return at["entry"] if at else entry


def _beside(moved: Sequence[MovedCode]) -> Finding | None:
    if not moved:
        return None
    message = f"other machine code in {_names(moved)}, which this test does not stand for"
    return Finding("neighbours", Effect.NOTED, message)


def _other_numbers(artifact: Artifact, found: Rebuilt) -> Iterator[str]:
    """Recorded metrics that are not those of the same machine code by the same compiler: nobody read them there."""
    for entry, pair in sorted(artifact.code.items()):
        for arm, recorded, built in (("baseline", pair.baseline, found.baseline), ("tuned", pair.tuned, found.tuned)):
            if recorded is None or built is None:
                continue
            for metric, value in recorded.metrics.items():
                if entry in built and (here := built[entry].metrics.get(metric, value)) != value:
                    yield f"the record says {metric} {value} of {entry} ({arm} arm), whose machine code has {here}"


def _is_one_compiler(artifact: Artifact, found: Rebuilt) -> bool:
    before, now = artifact.compiler, found.compiler
    return (before.name, before.version, before.build) == (now.name, now.version, now.build)


def _names(moved: Sequence[MovedCode]) -> str:
    """``edges, blur (tuned arm)``; the architecture is named where there are several."""
    several = len({each.architecture for each in moved}) > 1
    told = [
        each.entry
        + (f" for {each.architecture}" if several else "")
        + (f" ({each.arms[0]} arm)" if each.arms == ("tuned",) else "")
        for each in moved
    ]
    return ", ".join(first_of(told))


def _benchmark(artifact: Artifact, found: Rebuilt) -> Finding | None:
    before, now = artifact.fingerprint, found.fingerprint
    if is_same_benchmark(before, now):
        return None
    changed = [part_place(name) for name in changed_parts(before.parts, now.parts) if name in now.parts]
    files = tuple(sorted({place[0] for place in changed if place is not None}))
    return Finding("benchmark", Effect.STALE, f"the benchmark changed: {changed_benchmark(before, now)}", files)


def _unrecorded(artifact: Artifact, found: Rebuilt) -> Finding | None:
    """What an older artifact says nothing of."""
    if artifact.fingerprint.values or not found.fingerprint.values:
        return None
    names = ", ".join(first_of(list(found.fingerprint.values)))
    said = f"not compared, since the artifact is older than such records: {names}; --tune-budget=0 records it"
    return Finding("benchmark", Effect.NOTED, said)


def _sources(artifact: Artifact, found: Rebuilt, moved: Sequence[MovedCode]) -> Finding | None:
    before, now = artifact.fingerprint.sources, found.fingerprint.sources
    files = tuple(sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name)))
    if not files:
        return None
    named = [f"{name} ({_kind_of_change(name, before, now)})" for name in files]
    what = ", ".join(first_of(named))
    if not found.compiler.compiles:
        said = what if moved else f"{what}: comments, docstrings or formatting alone"
        return Finding("sources", Effect.STALE if moved else Effect.COSMETIC, said, files)
    return _by_code("sources", what, moved, files)


def _kind_of_change(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    if name not in before:
        return "added"
    return "changed" if name in now else "no longer read"


def _command(artifact: Artifact, found: Rebuilt, moved: Sequence[MovedCode]) -> Finding | None:
    before, now = tuple(artifact.compiler.command), tuple(found.compiler.command)
    if (artifact.fingerprint.command, before) == (found.fingerprint.command, now):
        return None
    gone = list((Counter(before) - Counter(now)).elements())
    new = list((Counter(now) - Counter(before)).elements())
    detail = "; ".join(
        part for part in (f"gone: {' '.join(gone)}" if gone else "", f"new: {' '.join(new)}" if new else "") if part
    )
    if not found.compiler.compiles:
        return Finding("command", Effect.STALE, f"the defaults changed ({detail})")
    what = f"the compiler's command changed ({detail or 'another order'})"
    if not moved and _linked(before) != _linked(now):
        return Finding("command", Effect.STALE, f"{what}: something else is linked, which the machine code cannot show")
    return _by_code("command", what, moved)


def _environment(artifact: Artifact, found: Rebuilt, moved: Sequence[MovedCode]) -> Finding | None:
    changed = changed_environment(artifact.fingerprint.environment, found.fingerprint.environment)
    return _by_code("environment", f"the environment changed: {changed}", moved) if changed else None


def _by_code(field: str, what: str, moved: Sequence[MovedCode], files: tuple[str, ...] = ()) -> Finding:
    """The finding of a change whose effect the machine code shows."""
    if moved:
        return Finding(field, Effect.STALE, f"{what}: the machine code is another, in {_names(moved)}", files)
    return Finding(field, Effect.COSMETIC, f"{what}: the machine code is the same", files)


def _linked(command: Sequence[str]) -> list[str]:
    """The words that say what is linked to the kernel, in order."""
    return [word for word in command if word.startswith(_LINKS)]


def _compiler(artifact: Artifact, found: Rebuilt, moved: Sequence[MovedCode]) -> Finding | None:
    if _is_one_compiler(artifact, found):
        return None
    before, now = artifact.compiler, found.compiler
    if not now.compiles:
        proven, here = (compiler.build or "no package named" for compiler in (before, now))
        return Finding("compiler", Effect.STALE, f"proven with {proven}, here with {here}")
    proven, here = (f"{compiler.name} {compiler.version} ({compiler.build})" for compiler in (before, now))
    what = f"proven with {proven}, built here with {here}"
    if not moved:
        return Finding("compiler", Effect.NOTED, f"{what}: the machine code is the same")
    return Finding("compiler", Effect.STALE, f"{what}: the machine code is another, in {_names(moved)}")


def _same(recorded: CodeTable | None, built: Mapping[str, CodeDigest] | None, entry: str) -> bool:
    """Whether the digests are equal; an arm that could not be built equals nothing."""
    now = (built or {}).get(entry)
    if recorded is None or now is None:
        return False
    return now.is_recorded_as(recorded.sha256)


# ── what ends an artifact ────────────────────────────────────────────────────────────────────────────────────────

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


def _recorded(artifact: Artifact, arm: Arm) -> Iterator[tuple[str, CodeTable]]:
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
