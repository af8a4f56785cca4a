"""What a change of one artifact means, from the values recorded on both sides; nothing is measured here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from pytest_compileiq.artifact import Artifact, CodeTable, CompilerTable
from pytest_compileiq.model import ARMS, ControlClass, KnobValue, Licence, Target
from pytest_compileiq.reduction import Attribution, Reduction
from pytest_compileiq.rules.claims import (
    ClaimStep,
    WorseEntry,
    claim_steps,
    devices_only,
    lead_step,
    leading_claim,
    recorded_neighbours,
    trend,
    worse_entries,
)
from pytest_compileiq.rules.classes import Classed, beyond_value_safe, effective_classes
from pytest_compileiq.rules.fingerprint import changed_benchmark, is_same_benchmark
from pytest_compileiq.rules.staleness import code_of
from pytest_compileiq.spelling import first_of


class Kind(StrEnum):
    """What became of an artifact; where several apply, the first in this order."""

    CORRUPT = "corrupt"
    """It cannot be used any more, or cannot be used as it was added."""
    REMOVED = "removed"
    ADDED = "added"
    REPAIRED = "repaired"
    """It could not be used before."""
    RETIRED = "retired"
    PROMOTED = "promoted"
    """Another point of the front was chosen, and is not proven yet."""
    RETARGETED = "retargeted"
    """Another compiler line or architecture."""
    RETUNED = "retuned"
    """Other controls, or another outcome."""
    REFRESHED = "refreshed"
    """The same controls, with other claims, inputs or provenance."""
    RENAMED = "renamed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Side:
    """One artifact at one end of the comparison."""

    name: str
    target: str
    artifact: Artifact | None  # None where its metadata cannot be read
    problem: str = ""  # why it cannot be used, in a sentence; empty where it can
    warnings: tuple[str, ...] = ()  # faults that do not keep it from being used
    untraced: tuple[str, ...] = ()  # files with uncommitted changes when tuned, and not here as fingerprinted
    classed: Classed = field(default_factory=Classed)  # its controls by class, from its knobs
    licences: tuple[Licence, ...] = ()  # of the baseline and the sources

    @property
    def effective(self) -> tuple[ControlClass, ...]:
        """The effective classes of its controls; none where it cannot be used."""
        return () if self.problem else effective_classes(self.classed.own, self.licences)

    @property
    def beyond_value_safe(self) -> tuple[ControlClass, ...]:
        """The classes beyond value-safe that its controls have, by themselves or in effect."""
        return () if self.problem else beyond_value_safe((*self.classed.own, *self.effective))


@dataclass(frozen=True)
class Step:
    """One value, before and after; None where there was none."""

    what: str
    old: KnobValue | None
    new: KnobValue | None


@dataclass(frozen=True)
class EntryStep(Step):
    """A value of an entry function, by whose name ``what`` begins."""

    entry: str


@dataclass(frozen=True)
class Change:
    """The meaning of a change."""

    kind: Kind
    name: str  # now or last, as the target
    target: str
    was: str = ""  # name/target before, where it differs
    benchmark: str = ""  # of the newest readable side, as outcome and reason
    old_outcome: str = ""  # of the older side
    outcome: str = ""
    reason: str = ""
    lead: ClaimStep | None = None  # the artifact's leading claim, and the same claim before
    judgement: str = ""  # the meaning of the leading claim's step, in words
    claims: tuple[ClaimStep, ...] = ()  # every claim of both sides, sorted by device, workload, objective
    devices_added: tuple[str, ...] = ()  # device models with a claim on one side only
    devices_dropped: tuple[str, ...] = ()
    metrics: tuple[EntryStep, ...] = ()  # exact ones of shipped code; an added artifact's start at its own baseline
    environment: tuple[Step, ...] = ()  # compiler, its command, driver of each device
    inputs: tuple[str, ...] = ()  # the causes that made the old artifact stale, in sentences
    knobs: tuple[Step, ...] = ()  # named knobs that changed; None is absent (off)
    classes: tuple[ControlClass, ...] = ()  # effective classes of the newest controls, narrowest first
    classes_gained: tuple[ControlClass, ...] = ()  # beyond value-safe, and new
    classed: Classed = field(default_factory=Classed)  # the newest controls by their own class
    licences: tuple[Licence, ...] = ()  # they widen these
    controls: Step | None = None  # digests of the controls file, where they differ
    code: tuple[EntryStep, ...] = ()  # digests of changed machine code, for each entry function and arm
    functions: tuple[Step, ...] = ()  # entry functions that the test stands for on one side only
    worse_entries: tuple[WorseEntry, ...] = ()  # lost on a metric whose claim did not lose
    also_changes: tuple[str, ...] = ()  # entry functions changed beside those that the test stands for
    reduction: Reduction | None = None
    unreduced: int = 0  # controls as they were found, with nothing left out; 0 where reduced
    attribution: Attribution | None = None
    warnings: tuple[str, ...] = ()  # for a reviewer, before merging
    evidence: str = ""  # where the newest claims were proven: device, driver, commit, runner
    problem: str = ""  # why a side cannot be used
    history: tuple[str, ...] = ()  # its measurements over time, where a history is kept

    @property
    def worse(self) -> tuple[ClaimStep, ...]:
        """The claims that got worse."""
        return tuple(step for step in self.claims if step.worse)


def compare(old: Side | None, new: Side | None) -> Change:
    """What became of one artifact; at least one side is given."""
    here = new or old
    if here is None:
        raise ValueError("a comparison needs a side")
    before = old.artifact if old and not old.problem else None
    after = new.artifact if new and not new.problem else None
    shown = after or before
    tuned = after if after and after.outcome == "tuned" else None
    moved = old is not None and new is not None and (old.name, old.target) != (new.name, new.target)
    told = [artifact.controls if artifact else None for artifact in (before, after)]
    knobs = [controls.knobs if controls else {} for controls in told]
    digests = [controls.sha256 if controls else None for controls in told]
    problem = f"before: {old.problem}" if old and old.problem else ""
    return Change(
        kind=_kind(old, new),
        name=here.name,
        target=here.target,
        was=f"{old.name}/{old.target}" if old is not None and moved else "",
        benchmark=shown.benchmark if shown else "",
        old_outcome=before.outcome if before else "",
        outcome=after.outcome if after else "",
        reason=(after and after.reason) or "",
        lead=lead_step(before, after),
        judgement=_judgement(before, after),
        claims=tuple(claim_steps(before, after)),
        devices_added=devices_only(after, before),
        devices_dropped=devices_only(before, after),
        metrics=tuple(_metrics(before, after)) if after else (),
        environment=tuple(_environment(before, after)) if before and after else (),
        inputs=tuple(_inputs(before, after)) if before and after else (),
        knobs=_steps(*knobs) if after and after.outcome != "retired" else (),
        classes=new.effective if new else (),
        classes_gained=_gained(old, new),
        classed=new.classed if new else Classed(),
        licences=new.licences if new else (),
        controls=Step("sha256", *digests) if digests[0] != digests[1] else None,
        code=tuple(_code(before, after)) if before and after and after.compiler.compiles else (),
        functions=_steps(*({name: name for name in each.functions} for each in (before, after)))
        if before and after
        else (),
        worse_entries=worse_entries(tuned) if tuned else (),
        also_changes=recorded_neighbours(tuned) if tuned else (),
        reduction=tuned.reduction if tuned else None,
        unreduced=after.unreduced if after else 0,
        attribution=tuned.attribution if tuned else None,
        warnings=tuple(_warnings(new, before, after)) if new else (),
        evidence=_evidence(shown) if shown else "",
        problem=(new and new.problem) or problem,
    )


def _kind(old: Side | None, new: Side | None) -> Kind:
    if new is None:
        return Kind.REMOVED
    if new.problem:
        return Kind.UNCHANGED if old is not None and old == new else Kind.CORRUPT
    if old is None:
        return Kind.ADDED
    before, after = old.artifact, new.artifact
    if old.problem or before is None or after is None:
        return Kind.REPAIRED
    if after.outcome != before.outcome and after.outcome in (Kind.RETIRED, Kind.PROMOTED):
        return Kind(after.outcome)
    if old.target != new.target:
        return Kind.RETARGETED
    told = [  # to the compiler and the kernel, whatever the file is called
        artifact.controls and (artifact.controls.kind, artifact.controls.sha256, artifact.controls.knobs)
        for artifact in (before, after)
    ]
    if after.outcome != before.outcome or told[0] != told[1]:
        return Kind.RETUNED
    if before != after:
        return Kind.REFRESHED
    return Kind.RENAMED if old.name != new.name else Kind.UNCHANGED


def _judgement(before: Artifact | None, after: Artifact | None) -> str:
    lead = lead_step(before, after)
    if before is None or after is None or lead is None or lead.old is None or lead.new is None:
        return ""
    words = trend(lead.old, lead.new)
    if code_of(before, "baseline") != code_of(after, "baseline"):
        changed = "the baseline's machine code" if after.compiler.compiles else "the baseline"
        words += f"; each is against its own baseline, and {changed} changed"
    return words


# ── what the compiler was told, and what it made ─────────────────────────────────────────────────────────────────


def _steps(old: Mapping[str, KnobValue], new: Mapping[str, KnobValue]) -> tuple[Step, ...]:
    """The values that differ, sorted by name; True and 1 differ."""
    return tuple(
        Step(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if (type(old.get(name)), old.get(name)) != (type(new.get(name)), new.get(name))
    )


def _gained(old: Side | None, new: Side | None) -> tuple[ControlClass, ...]:
    """What controls that are applied may change now, and could not before."""
    if new is None or new.artifact is None or new.artifact.outcome == "retired":
        return ()
    was_applied = old is not None and old.artifact is not None and old.artifact.outcome == "tuned"
    before = old.beyond_value_safe if old is not None and was_applied else ()
    return tuple(each for each in new.beyond_value_safe if each not in before)


def _shipped(artifact: Artifact) -> Mapping[str, CodeTable]:
    """The code that a build ships: the tuned arm's, or the baseline's where nothing is tuned."""
    tuned = artifact.outcome == "tuned"
    return {entry: pair.tuned if tuned and pair.tuned else pair.baseline for entry, pair in artifact.code.items()}


def _metrics(before: Artifact | None, after: Artifact) -> Iterator[EntryStep]:
    olds = _shipped(before) if before else {entry: pair.baseline for entry, pair in after.code.items()}
    news = _shipped(after)
    for entry in sorted(olds.keys() | news.keys()):
        old, new = (code[entry].metrics if entry in code else {} for code in (olds, news))
        named = ({f"{entry}: {metric}": value for metric, value in metrics.items()} for metrics in (old, new))
        yield from (EntryStep(step.what, step.old, step.new, entry) for step in _steps(*named))


def _code(before: Artifact, after: Artifact) -> Iterator[EntryStep]:
    codes = {arm: [code_of(artifact, arm) for artifact in (before, after)] for arm in ARMS}
    for entry in sorted(before.code.keys() | after.code.keys()):
        for arm, (old, new) in codes.items():
            if old.get(entry) != new.get(entry):
                yield EntryStep(f"{entry} ({arm})", old.get(entry), new.get(entry), entry)


# ── what surrounds it ────────────────────────────────────────────────────────────────────────────────────────────


def _environment(before: Artifact, after: Artifact) -> Iterator[Step]:
    both = before, after
    yield from _steps(_described(before.compiler), _described(after.compiler))
    yield from _steps(before.fingerprint.environment, after.fingerprint.environment)
    of_runs = (chain.from_iterable(claim.environment.items() for claim in each.claims) for each in both)
    yield from _steps(*({f"{name} of the run": value for name, value in variables} for variables in of_runs))
    drivers = [{f"driver of {claim.device}": claim.driver for claim in each.claims if claim.driver} for each in both]
    yield from (step for step in _steps(*drivers) if step.old is not None and step.new is not None)


def _described(compiler: CompilerTable) -> dict[str, KnobValue]:
    if not compiler.compiles:
        return {"packages": compiler.build, "defaults": " ".join(compiler.command[1:])}
    return {
        "compiler": f"{compiler.name} {compiler.version}",
        "compiler build": compiler.build,
        "command": " ".join(compiler.command),
        "architecture chosen by the": compiler.architecture_from,
    }


def _inputs(before: Artifact, after: Artifact) -> Iterator[str]:
    old, new = before.fingerprint, after.fingerprint
    if not is_same_benchmark(old, new):
        yield f"the benchmark changed: {changed_benchmark(old, new)}"
    compiles = after.compiler.compiles
    read = "read by the compiler" if compiles else "a source"
    for path in sorted(old.sources.keys() | new.sources.keys()):
        if path not in old.sources:
            yield f"{path}: now {read}"
        elif path not in new.sources:
            yield f"{path}: no longer {read}"
        elif old.sources[path] != new.sources[path]:
            yield f"{path}: changed"
    if old.command != new.command:
        yield "the compiler's command changed" if compiles else "the defaults changed"
    if (before.compiler.version, before.compiler.build) != (after.compiler.version, after.compiler.build):
        yield "the compiler is another build" if compiles else "the packages are other versions"


def _warnings(new: Side, before: Artifact | None, after: Artifact | None) -> Iterator[str]:
    yield from new.warnings
    if after is None:
        return
    if new.untraced:
        named = ", ".join(first_of(new.untraced))
        yield f"tuned with uncommitted changes, and not here as it was tuned: {named}"
    if before is None or after.outcome != "tuned":
        return
    withdrawn, shipped = (set(code_of(artifact, "tuned").values()) for artifact in (before, after))
    if before.outcome == "retired" and withdrawn & shipped:
        what = "machine code" if after.compiler.compiles else "values"
        yield f"brings back retired {what}: {before.reason}"


def _evidence(artifact: Artifact) -> str:
    claim = leading_claim(artifact)
    parts = [claim.device, f"driver {claim.driver}" if claim.driver else ""] if claim else []
    provenance = artifact.provenance
    parts.append(f"commit {provenance.commit[:12]}" if provenance.commit else "no commit known")
    return ", ".join(part for part in (*parts, provenance.runner) if part)


# ── which removed artifact an added one was ──────────────────────────────────────────────────────────────────────


def _code_key(side: Side, artifact: Artifact) -> Hashable:
    code = tuple((entry, *pair.proven_as) for entry, pair in artifact.code.items())
    return side.target, artifact.controls and artifact.controls.sha256, code


# The surest likeness first: the next one sees only what is not yet paired.
_LIKENESSES: tuple[Callable[[Side, Artifact], Hashable], ...] = (
    lambda side, artifact: (artifact.benchmark, _code_key(side, artifact)),
    _code_key,
    lambda side, artifact: (side.target, artifact.benchmark),
    lambda side, artifact: (side.target, frozenset(artifact.fingerprint.sources), frozenset(artifact.code)),
    lambda side, artifact: (side.name, Target(side.target).architecture),
    lambda side, artifact: (side.name, artifact.benchmark),
)


def pair_renamed(removed: Sequence[Side], added: Sequence[Side]) -> list[tuple[Side | None, Side | None]]:
    """(old, new) for what was renamed or retargeted; a side without a partner stands alone.

    Several sides of one likeness are paired in the order of their names. An unreadable side is like no other.
    """
    pairs: list[tuple[Side | None, Side | None]] = []
    for likeness in _LIKENESSES:
        olds, news = defaultdict[Hashable, list[Side]](list), defaultdict[Hashable, list[Side]](list)
        for groups, sides in ((olds, removed), (news, added)):
            for side in sorted(sides, key=lambda side: (side.name, side.target)):
                if side.artifact is not None:
                    groups[likeness(side, side.artifact)].append(side)
        paired = [pair for key, like in news.items() for pair in zip(olds[key], like, strict=False)]
        removed = [side for side in removed if all(side is not old for old, _ in paired)]
        added = [side for side in added if all(side is not new for _, new in paired)]
        pairs += paired
    return pairs + [(side, None) for side in removed] + [(None, side) for side in added]
