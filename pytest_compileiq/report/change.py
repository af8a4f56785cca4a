"""A change of ``acf/`` in the words that all formats of ``acf diff`` share. Texts of artifacts are untrusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic_core import to_jsonable_python

from pytest_compileiq.claim import Claim
from pytest_compileiq.machine_code.names import listed, readable
from pytest_compileiq.report.artifact import (
    attribution_text,
    gained_text,
    in_effect_text,
    licence_text,
    reduction_text,
    setting_text,
    unreduced_text,
)
from pytest_compileiq.report.claims import (
    claim_text,
    draws_lines,
    evidence_text,
    less_accurate_lines,
    lost_checks,
    means_of,
    measured_text,
    unchecked,
    worse_texts,
)
from pytest_compileiq.rules.claims import ClaimStep, standing
from pytest_compileiq.rules.diff import Change, EntryStep, Kind, Step
from pytest_compileiq.rules.words import pair_texts, unit_text
from pytest_compileiq.spelling import MOST_NAMED, first_of
from pytest_compileiq.system.printing import json_text

DIFF_SCHEMA = 1
NOT_CHECKED = (
    "Recorded values: nothing was compiled, run or measured for this comparison. acf check recomputes the claims from "
    "the committed samples; pytest rebuilds every artifact, and measures on a device that holds a claim."
)
_DIGEST_SHOWN = 12
_UNFOLDED = {"reason", "reduced", "brings", "checks", "stress", "history", "proven on"}


@dataclass(frozen=True)
class Fact:
    """One fact about a change; a loud one has to be read before a merge."""

    label: str
    lines: tuple[str, ...]
    loud: bool

    @property
    def folded(self) -> bool:
        """Whether it may be folded away where room is short."""
        return not self.loud and self.label not in _UNFOLDED


def gain_text(change: Change) -> str:
    """The leading claim before and after the change."""
    lead = change.lead
    if lead is None:
        return "no claim" if change.outcome == "tuned" else change.outcome or "cannot be used"
    old = _result(lead.old) if lead.old else change.old_outcome
    lost = "gone" if change.kind == Kind.REMOVED else "unusable"
    new = _result(lead.new) if lead.new else change.outcome or lost
    return f"{old} → {new}" if old and old != new else new


def _result(claim: Claim) -> str:
    worse = "worse: " if standing(claim) == "worse" else ""
    if claim.kind == "exact":
        defaults, tuned = pair_texts(claim.baseline_value or 0, claim.tuned_value or 0)
        return f"{worse}{claim.objective} {tuned} (defaults: {defaults})"
    if means := means_of(claim):
        return f"{worse}{claim.objective} {means[1]} (defaults: {means[0]}), {measured_text(claim)}"
    return claim_text(claim)


def sure_text(claim: Claim | None) -> str:
    """The recorded evidence for a claim; empty without a claim."""
    if claim is None:
        return ""
    if claim.kind == "exact":
        return "counted, exact" if claim.of_the_build else "the same in every process, exact"
    return f"{'proven gain' if claim.kind == 'gain' else 'proven not worse'}: {evidence_text(claim)}"


def facts(change: Change) -> Iterator[Fact]:
    """All other facts about a change, loud ones first."""
    claims = [step.new for step in change.claims if step.new]
    reach = f"also changes: {listed(change.also_changes, MOST_NAMED)}, not exercised by this test"
    loud: tuple[tuple[str, Iterable[str]], ...] = (
        ("classes", [new_classes_text(change)] if change.classes_gained else ()),
        ("problem", [change.problem or ""]),
        ("worse", (f"{_claim_step(step)}: {step.worse}" for step in change.worse)),
        ("dropped", (f"no claim any more on {device}" for device in change.devices_dropped)),
        ("entries", (f"worse: {text}" for text in worse_texts(change.worse_entries, MOST_NAMED))),
        ("reach", [reach] if change.also_changes else ()),
        ("warning", change.warnings),
        ("lost", lost_checks(change.claims)),
        ("accuracy", less_accurate_lines(claims)),
    )
    has_outcome = change.old_outcome and change.outcome and change.old_outcome != change.outcome
    reduction = change.reduction if change.reduction is not None and change.reduction.before > 1 else None
    quiet: tuple[tuple[str, Iterable[str]], ...] = (
        ("reason", [change.reason or ""]),
        ("was", [change.was or ""]),
        ("outcome", [f"{change.old_outcome} → {change.outcome}"] if has_outcome else ()),
        ("meaning", [change.judgement or ""]),
        ("claims", map(_claim_step, change.claims) if len(change.claims) > 1 else ()),
        ("devices", (f"now also proven on {device}" for device in change.devices_added)),
        ("devices", _other_units(change)),
        ("metrics", map(_step, change.metrics)),
        ("compiler", map(_step, change.environment)),
        ("stale by", change.inputs),
        ("classes", [in_effect_text(change.classed, change.licences)] if change.classes else ()),
        ("licence", map(licence_text, change.licences) if change.classes else ()),
        ("knobs", map(_knob, change.knobs)),
        (
            "reduced",
            [
                unreduced_text(change.unreduced) if change.unreduced else "",
                reduction_text(reduction) if reduction else "",
            ],
        ),
        ("brings", [attribution_text(change.attribution)] if change.attribution else ()),
        ("controls", [_digest_step(change.controls)] if change.controls else ()),
        (
            "functions",
            (
                f"the test {'now stands' if step.old is None else 'stands no longer'} for {readable(step.what)}"
                for step in change.functions
            ),
        ),
        ("code", map(_digest_step, change.code)),
        ("checks", unchecked(claims)),
        ("stress", draws_lines(claims)),
        ("history", change.history),
        ("proven on", [change.evidence or ""]),
    )
    for pairs in (loud, quiet):
        for label, texts in pairs:
            if lines := tuple(filter(None, texts)):
                yield Fact(label, lines, loud=pairs is loud)


def new_classes_text(change: Change) -> str:
    """The classes that the controls gained, and the source of each."""
    return f"now {gained_text(change.classes_gained, change.classed, change.licences)}"


def _other_units(change: Change) -> Iterator[str]:
    """The specimens of a device that came to its claims or left them."""
    steps = [(step.old.units, step.new.units) for step in change.claims if step.old and step.new]
    for old, new in dict.fromkeys(steps):
        for way, names in (("now also on", set(new) - set(old)), ("no longer on", set(old) - set(new))):
            if names:
                yield f"{way} {', '.join(map(unit_text, first_of(sorted(names))))}"


def counts_text(changes: Sequence[Change]) -> str:
    """The changes counted by kind, e.g. ``2 retuned, 1 added``, the gravest kind first."""
    counts = Counter(change.kind for change in changes)
    return ", ".join(f"{counts[kind]} {kind}" for kind in Kind if counts[kind]) or "no artifact changed"


def terminal_lines(base: str, head: str, changes: Sequence[Change], strays: Sequence[str]) -> Iterator[str]:
    """The comparison for a terminal."""
    yield f"{base} → {head}: {counts_text(changes)}"
    for change in changes:
        yield ""
        yield f"{change.kind.upper():<10} {change.name}  {change.target}  {gain_text(change)}"
        claim = change.lead.new if change.lead else None
        if claim and (sure := sure_text(claim)):
            yield f"  {'on':<9} {claim.device}, {claim.workload}; {sure}"
        for fact in facts(change):
            for number, line in enumerate(fact.lines):
                yield f"{'!' if fact.loud else ' '} {'' if number else fact.label:<9} {line}"
    for path in strays:
        yield f"! {'stray':<9} {path} belongs to no artifact"
    if changes:
        yield ""
        yield NOT_CHECKED


def change_json(base: str, head: str, changes: Sequence[Change], strays: Sequence[str]) -> str:
    """The comparison as versioned JSON; fields that are None are left out."""
    content = {"schema": DIFF_SCHEMA, "base": base, "head": head, "changes": changes, "strays": strays}
    return json_text(to_jsonable_python(content, exclude_none=True))


def _claim_step(step: ClaimStep) -> str:
    claim = step.new or step.old
    where = f"{claim.device}, {claim.workload}" if claim else ""
    old, new = (_result(side) if side else "no claim" for side in (step.old, step.new))
    return f"{where}: {new if step.old is None else f'{old} → {new}'}"


def _step(step: Step) -> str:
    return f"{_what(step)} {'none' if step.old is None else step.old} → {'none' if step.new is None else step.new}"


def _knob(step: Step) -> str:
    old, new = (None if value is None else setting_text(step.what, value) for value in (step.old, step.new))
    return f"added {new}" if old is None else f"removed {old}" if new is None else f"{old} → {new}"


def _digest_step(step: Step) -> str:
    old, new = (str(digest)[:_DIGEST_SHOWN] if digest else "none" for digest in (step.old, step.new))
    return f"{_what(step)} {old} → {new}"


def _what(step: Step) -> str:
    if isinstance(step, EntryStep):
        return f"{readable(step.entry)}{step.what.removeprefix(step.entry)}"
    return step.what
