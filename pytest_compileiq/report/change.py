"""A change of ``acf/`` in the words that all formats of ``acf diff`` share. Texts of artifacts are untrusted."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

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
from pytest_compileiq.rules.claims import ClaimStep, WorseEntry, standing
from pytest_compileiq.rules.diff import Change, Kind, Step
from pytest_compileiq.rules.words import pair_texts, unit_text
from pytest_compileiq.spelling import MOST_NAMED, first_of
from pytest_compileiq.system.printing import json_text

DIFF_SCHEMA = 1
NOT_CHECKED = (
    "Recorded values: nothing was compiled, run or measured for this comparison. acf check recomputes the claims from "
    "the committed samples; pytest rebuilds every artifact, and measures on a device that holds a claim."
)
_DIGEST_SHOWN = 12


@dataclasses.dataclass(frozen=True)
class Fact:
    """One fact about a change.

    Attributes:
        loud: nobody should merge without having read it.
        folded: it may be folded away where room is short.
    """

    label: str
    lines: tuple[str, ...]
    loud: bool = False
    folded: bool = True


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
    everything = (
        Fact("classes", (new_classes_text(change),) if change.classes_gained else (), loud=True, folded=False),
        Fact("problem", (change.problem,) if change.problem else (), loud=True, folded=False),
        Fact("worse", tuple(f"{_claim_step(step)}: {step.worse}" for step in change.worse), loud=True, folded=False),
        Fact(
            "dropped",
            tuple(f"no claim any more on {device}" for device in change.devices_dropped),
            loud=True,
            folded=False,
        ),
        Fact("entries", _lost(change.worse_entries), loud=True, folded=False),
        Fact("reach", _reach(change.also_changes), loud=True, folded=False),
        Fact("warning", change.warnings, loud=True, folded=False),
        Fact("lost", tuple(lost_checks(change.claims)), loud=True, folded=False),
        Fact("accuracy", tuple(less_accurate_lines(_claims(change))), loud=True, folded=False),
        Fact("reason", (change.reason,) if change.reason else (), folded=False),
        Fact("was", (change.was,) if change.was else ()),
        Fact("outcome", (f"{change.old_outcome} → {change.outcome}",) if _other_outcome(change) else ()),
        Fact("meaning", (change.judgement,) if change.judgement else ()),
        Fact("claims", tuple(map(_claim_step, change.claims)) if len(change.claims) > 1 else ()),
        Fact("devices", tuple(f"now also proven on {device}" for device in change.devices_added)),
        Fact("devices", tuple(_other_devices(change))),
        Fact("metrics", tuple(map(_step, change.metrics))),
        Fact("compiler", tuple(map(_step, change.environment))),
        Fact("stale by", change.inputs),
        Fact("classes", (in_effect_text(change.classed, change.licences),) if change.classes else ()),
        Fact("licence", tuple(map(licence_text, change.licences)) if change.classes else ()),
        Fact("knobs", tuple(map(_knob, change.knobs))),
        Fact("reduced", tuple(_reduced(change)), folded=False),
        Fact("brings", (attribution_text(change.attribution),) if change.attribution else (), folded=False),
        Fact("controls", (_digest_step(change.controls),) if change.controls else ()),
        Fact("functions", tuple(map(_function, change.functions))),
        Fact("code", tuple(map(_digest_step, change.code))),
        Fact("checks", unchecked(_claims(change)), folded=False),
        Fact("stress", tuple(draws_lines(_claims(change))), folded=False),
        Fact("history", change.history, folded=False),
        Fact("proven on", (change.evidence,) if change.evidence else (), folded=False),
    )
    return (fact for fact in everything if fact.lines)


def new_classes_text(change: Change) -> str:
    """The classes that the controls gained, and what brings each."""
    return f"now {gained_text(change.classes_gained, change.classed, change.licences)}"


def _reduced(change: Change) -> Iterator[str]:
    if change.unreduced:
        yield unreduced_text(change.unreduced)
    if change.reduction is not None and change.reduction.before > 1:
        yield reduction_text(change.reduction)


def _other_devices(change: Change) -> Iterator[str]:
    """The specimens of a device that came to its claims or left them."""
    steps = [(step.old.units, step.new.units) for step in change.claims if step.old and step.new]
    for old, new in dict.fromkeys(steps):
        for way, names in (("now also on", set(new) - set(old)), ("no longer on", set(old) - set(new))):
            if names:
                yield f"{way} {', '.join(map(unit_text, first_of(sorted(names))))}"


def _claims(change: Change) -> list[Claim]:
    """The claims of the newest side."""
    return [step.new for step in change.claims if step.new]


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
        sure = sure_text(change.lead.new if change.lead else None)
        if change.lead and change.lead.new and sure:
            yield f"  {'on':<9} {change.lead.new.device}, {change.lead.new.workload}; {sure}"
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


def _other_outcome(change: Change) -> bool:
    return bool(change.old_outcome and change.outcome and change.old_outcome != change.outcome)


def _claim_step(step: ClaimStep) -> str:
    claim = step.new or step.old
    where = f"{claim.device}, {claim.workload}" if claim else ""
    old, new = (_result(side) if side else "no claim" for side in (step.old, step.new))
    return f"{where}: {new if step.old is None else f'{old} → {new}'}"


def _step(step: Step) -> str:
    return f"{step.what} {'none' if step.old is None else step.old} → {'none' if step.new is None else step.new}"


def _knob(step: Step) -> str:
    old, new = (None if value is None else setting_text(step.what, value) for value in (step.old, step.new))
    return f"added {new}" if old is None else f"removed {old}" if new is None else f"{old} → {new}"


def _lost(entries: Sequence[WorseEntry]) -> tuple[str, ...]:
    return tuple(f"worse: {text}" for text in worse_texts(entries, MOST_NAMED))


def _reach(entries: Sequence[str]) -> tuple[str, ...]:
    return (f"also changes: {listed(entries, MOST_NAMED)}, not exercised by this test",) if entries else ()


def _function(step: Step) -> str:
    is_new = step.old is None
    return f"the test {'now stands' if is_new else 'stands no longer'} for {readable(step.what)}"


def _digest_step(step: Step) -> str:
    old, new = (str(digest)[:_DIGEST_SHOWN] if digest else "none" for digest in (step.old, step.new))
    return f"{step.what} {old} → {new}"
