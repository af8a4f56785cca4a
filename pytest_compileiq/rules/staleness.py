"""Which recorded inputs still hold, whether a difference changes the result, and what ends an artifact."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from pytest_compileiq.model import (
    ARMS,
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
    from pytest_compileiq.artifact import Artifact, CodeTable, CompilerTable, FingerprintTable
    from pytest_compileiq.claim import Claim

UNEXPLAINED = "unexplained"  # the field of a finding that no recorded input explains
_LINKS = re.compile(r"-l(?!ineinfo\Z)|-L|-Wl,|-Xlinker|-static|-rdynamic")
_ENTRY_AT = re.compile(r"(?P<entry>.+)@(?P<architecture>sm_\w+)", re.DOTALL)  # in a build for several architectures


@dataclass(frozen=True)
class Rebuilt:
    """A build here, now. ``baseline`` and ``tuned`` map entry functions to code; None where that arm is not built."""

    compiler: Compiler | CompilerTable
    fingerprint: Fingerprint | FingerprintTable
    baseline: Mapping[str, CodeDigest] | None
    tuned: Mapping[str, CodeDigest] | None
    architecture: str


class Effect(StrEnum):
    """The effect of a difference: it makes the artifact stale, leaves the machine code alone, or is worth a note."""

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

    ``other-architecture`` is another machine's artifact, or one that the test no longer asks for: ``are_elsewhere``.
    ``other-compiler`` names a target too, whose controls can be tried on the compiler here, and are never applied.
    """
    if target in targets:
        return Choice(target, "exact", f"{target} is stored")
    same = sorted(stored for stored in targets if Target(stored).architecture == architecture)
    if same:
        message = f"the artifact is for {', '.join(same)}, and the compiler here makes {target}"
        return Choice(same[-1], "other-compiler", message)
    if targets:
        message = f"there are artifacts for {', '.join(sorted(targets))}, none for {target}"
        return Choice(None, "other-architecture", message)
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


def judge(artifact: Artifact, found: Rebuilt, shown: Callable[[str], str] = str) -> list[Finding]:
    """Apply the staleness table to ``artifact`` once both arms are built; ``shown`` spells an entry for a reader."""
    named = _named(artifact)
    everywhere = moved_code(artifact, found)
    moved = tuple(code for code in everywhere if named is None or code.entry in named)
    findings = []
    if beside := [code for code in everywhere if code not in moved]:
        message = f"other machine code in {_names(beside, shown)}, which this test does not stand for"
        findings.append(Finding("neighbours", Effect.NOTED, message))
    findings += [*_benchmark(artifact, found), *_inputs(artifact, found, _names(moved, shown))]
    explained = any(finding.field in ("sources", "command", "environment", "compiler") for finding in findings)
    if moved and not explained:
        message = (
            f"every recorded input is the same, and the machine code is another, in {_names(moved, shown)}"
            if found.compiler.compiles
            else "the recorded digest is none of the committed knobs, packages and sources"
        )
        findings.append(Finding(UNEXPLAINED, Effect.STALE, message))
    if (
        not moved
        and _is_one_compiler(artifact, found)
        and (other := next(_other_numbers(artifact, found, everywhere, shown), None))
    ):
        findings.append(Finding("code", Effect.STALE, other))
    return findings


def moved_code(artifact: Artifact, found: Rebuilt) -> tuple[MovedCode, ...]:
    """Every entry function whose recorded code differs in any arm from what was built here, sorted by name."""
    built: dict[Arm, Mapping[str, CodeDigest]] = {"baseline": found.baseline or {}}
    if artifact.outcome == "tuned":
        built["tuned"] = found.tuned or {}
    moved = []
    for key in sorted({*artifact.code, *(found.baseline or {}), *(found.tuned or {})}):
        pair = artifact.code.get(key)
        recorded = {"baseline": pair.baseline if pair else None, "tuned": pair.tuned if pair else None}
        if arms := tuple(arm for arm, code in built.items() if not _same(recorded[arm], code.get(key))):
            entry, architecture = _parted(key)
            moved.append(MovedCode(entry, architecture or found.architecture, arms))
    return tuple(moved)


def _same(recorded: CodeTable | None, built: CodeDigest | None) -> bool:
    """Whether the digests are equal; an arm that could not be built equals nothing."""
    return recorded is not None and built is not None and built.is_recorded_as(recorded.sha256)


def _parted(key: str) -> tuple[str, str]:
    """The name of an entry, and its architecture in a build for several, else ""."""
    at = _ENTRY_AT.fullmatch(key)
    return (at["entry"], at["architecture"]) if at else (key, "")


def _named(artifact: Artifact) -> frozenset[str] | None:
    """The entries whose code decides: those the test stands for, where ``functions=`` says which; None for all.

    A claim about the whole build is one about the neighbours too.
    """
    exact = (claim.objective for claim in artifact.claims if claim.of_the_build)
    if not artifact.functions or any(of_entries(objective)[1] is None for objective in exact):
        return None
    return artifact.compiler.apart | {_parted(entry)[0] for entry in artifact.functions}


def _other_numbers(
    artifact: Artifact, found: Rebuilt, moved: Collection[MovedCode], shown: Callable[[str], str]
) -> Iterator[str]:
    """Recorded metrics that are not those of the same machine code by the same compiler: nobody read them there."""
    others = {(code.entry, code.architecture) for code in moved}
    for entry, pair in sorted(artifact.code.items()):
        name, architecture = _parted(entry)
        if (name, architecture or found.architecture) in others:
            continue
        for arm, recorded, built in (("baseline", pair.baseline, found.baseline), ("tuned", pair.tuned, found.tuned)):
            if recorded is None or built is None:
                continue
            for metric, value in recorded.metrics.items():
                if entry in built and (here := built[entry].metrics.get(metric, value)) != value:
                    of = f"{shown(entry)} ({arm} arm)"
                    yield f"the record says {metric} {value} of {of}, whose machine code has {here}"


def _is_one_compiler(artifact: Artifact, found: Rebuilt) -> bool:
    before, now = artifact.compiler, found.compiler
    return (before.name, before.version, before.build) == (now.name, now.version, now.build)


def _names(moved: Sequence[MovedCode], shown: Callable[[str], str]) -> str:
    """``edges, blur (tuned arm)``, empty of nothing; the architecture is named where there are several."""
    several = len({each.architecture for each in moved}) > 1
    told = [
        shown(each.entry)
        + (f" for {each.architecture}" if several else "")
        + (f" ({each.arms[0]} arm)" if each.arms == ("tuned",) else "")
        for each in moved
    ]
    return ", ".join(first_of(told))


def _benchmark(artifact: Artifact, found: Rebuilt) -> Iterator[Finding]:
    before, now = artifact.fingerprint, found.fingerprint
    if not is_same_benchmark(before, now):
        changed = [part_place(name) for name in changed_parts(before.parts, now.parts) if name in now.parts]
        files = tuple(sorted({place[0] for place in changed if place is not None}))
        message = f"the benchmark changed: {changed_benchmark(before, now)}"
        yield Finding("benchmark", Effect.STALE, message, files)
    if now.values and not before.values:
        names = ", ".join(first_of(list(now.values)))
        said = f"not compared, since the artifact is older than such records: {names}; --tune-budget=0 records it"
        yield Finding("benchmark", Effect.NOTED, said)


def _inputs(artifact: Artifact, found: Rebuilt, moved: str) -> Iterator[Finding]:
    """The differences of sources, command, environment and compiler; the machine code shows their effect.

    Args:
        moved: the names of the entries whose code is another.
    """
    before, now = artifact.fingerprint, found.fingerprint
    another = f"the machine code is another, in {moved}"
    compiles = found.compiler.compiles

    def by_code(field: str, what: str, files: tuple[str, ...] = ()) -> Finding:
        if moved:
            return Finding(field, Effect.STALE, f"{what}: {another}", files)
        return Finding(field, Effect.COSMETIC, f"{what}: the machine code is the same", files)

    if files := changed_parts(before.sources, now.sources):
        became = {name: "changed" if name in now.sources else "no longer read" for name in before.sources}
        what = ", ".join(first_of([f"{name} ({became.get(name, 'added')})" for name in files]))
        if compiles:
            yield by_code("sources", what, tuple(files))
        else:
            said = what if moved else f"{what}: comments, docstrings or formatting alone"
            yield Finding("sources", Effect.STALE if moved else Effect.COSMETIC, said, tuple(files))
    commands = artifact.compiler.command, found.compiler.command
    if (before.command, commands[0]) != (now.command, commands[1]):
        detail = _difference(*commands)
        what = f"the compiler's command changed ({detail or 'another order'})"
        linked = [[word for word in command if _LINKS.match(word)] for command in commands]
        if not compiles:
            yield Finding("command", Effect.STALE, f"the defaults changed ({detail})")
        elif not moved and linked[0] != linked[1]:
            said = f"{what}: something else is linked, which the machine code cannot show"
            yield Finding("command", Effect.STALE, said)
        else:
            yield by_code("command", what)
    if changed := changed_environment(before.environment, now.environment):
        yield by_code("environment", f"the environment changed: {changed}")
    if _is_one_compiler(artifact, found):
        return
    both = artifact.compiler, found.compiler
    if not compiles:
        proven, here = (compiler.build or "no package named" for compiler in both)
        yield Finding("compiler", Effect.STALE, f"proven with {proven}, here with {here}")
        return
    proven, here = (f"{compiler.name} {compiler.version} ({compiler.build})" for compiler in both)
    effect = Effect.STALE if moved else Effect.NOTED
    said = another if moved else "the machine code is the same"
    yield Finding("compiler", effect, f"proven with {proven}, built here with {here}: {said}")


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    """``gone: -O2; new: -O3``, of the words of two commands; empty where only their order differs."""
    gone, new = Counter(before) - Counter(now), Counter(now) - Counter(before)
    return "; ".join(f"{what}: {' '.join(words.elements())}" for what, words in (("gone", gone), ("new", new)) if words)


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
    """A digest of what was proven, on what, by which samples; not of its attribution or its provenance."""
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
        [digest_of_code(code_of(artifact, arm)) for arm in ARMS],
    ]  # fmt: skip


def _claimed(claim: Claim) -> list[object]:
    return [claim.device, claim.workload, claim.objective, claim.samples, claim.tuned_value]


def code_of(artifact: Artifact, arm: Arm) -> dict[str, str]:
    """Entry function → the digest that its code was first recorded by; those ``arm`` was not built of are left out."""
    pairs = ((entry, pair.baseline if arm == "baseline" else pair.tuned) for entry, pair in artifact.code.items())
    return {entry: code.proven_as for entry, code in pairs if code is not None}


def ends_of(findings: Iterable[Finding]) -> tuple[End, ...]:
    """The causes that made an artifact stale; of several, the first is not known."""
    stale = {_BY_FIELD[finding.field] for finding in findings if finding.effect is Effect.STALE}
    return tuple(sorted(stale))


def ends_by_successor(before: Artifact, after: Artifact) -> tuple[End, ...]:
    """The causes that ended ``before`` when ``after`` took its place: those that made it stale, or the new outcome."""
    if after.outcome == "retired":
        return ("withdrawn",)
    is_same = code_of(before, "baseline") == code_of(after, "baseline")
    of_tuned = before.code if is_same else {}  # not built again: what moved is the baseline's code
    rebuilt = Rebuilt(
        after.compiler,
        after.fingerprint,
        baseline={entry: _digest(pair.baseline) for entry, pair in after.code.items()},
        tuned={entry: _digest(pair.tuned) for entry, pair in of_tuned.items() if pair.tuned},
        architecture="",
    )
    return ends_of(judge(before, rebuilt)) or (("gain",) if after.outcome == "baseline" else ("tuned anew",))


def _digest(code: CodeTable) -> CodeDigest:
    """Recorded code as a build would give it."""
    return CodeDigest(code.sha256, former=(code.proven_as,))
