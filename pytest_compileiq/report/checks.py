"""Whether what was timed was looked at, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_compileiq.claim import Claim
from pytest_compileiq.model import CLOCKED, tail_of
from pytest_compileiq.rules.claims import ClaimStep
from pytest_compileiq.spelling import quantity

_BY = {"outputs": "its outputs were the same", "check": "the test's own check passed"}
UNCHECKED = (
    "the sampled calls were not checked, so a kernel that is wrong in some of them or skips some may pass: acf.measure("
    "…, outputs=[…]) overwrites and looks at what they wrote; a body that times itself, with acf.record, asserts it"
)


def count_text(claim: Claim) -> str:
    """How often the sampled calls were looked at, as in ``, 288 checks``; empty where they were not."""
    return f", {quantity(claim.checks.checks, 'check')}" if claim.checks else ""


def told_of_checks(claim: Claim) -> tuple[str, ...]:
    """What was looked at between the samples of a claim, or that nothing was; empty for claims without timed calls."""
    if claim.checks is not None:
        made = claim.checks
        often = f"{quantity(made.checks, 'time')}, after {quantity(made.slots, 'slot')}"
        return (f"looked at between the samples: {_BY[made.by]} {often}",)
    return (UNCHECKED,) if _is_clocked(claim) else ()


def unchecked(claims: Iterable[Claim]) -> tuple[str, ...]:
    """What to say of claims whose sampled calls nobody looked at, once for all of them."""
    return (UNCHECKED,) if any(_is_clocked(claim) and claim.checks is None for claim in claims) else ()


def lost_checks(steps: Iterable[ClaimStep]) -> Iterator[str]:
    """What was looked at, or drawn, for the older claims and is not for the newer ones; once for all of them."""
    both = [(step.old, step.new) for step in steps if step.old and step.new]
    if any(old.checks and not new.checks for old, new in both):
        yield "the sampled calls were checked before, and are no more"
    usable = [(old.stress.usable if old.stress else 0, new.stress.usable if new.stress else 0) for old, new in both]
    if fewer := next((pair for pair in usable if pair[1] < pair[0]), None):
        yield f"{quantity(fewer[0], 'usable draw')} of acf.rng before, {fewer[1]} now"


def _is_clocked(claim: Claim) -> bool:
    return claim.kind != "exact" and tail_of(claim.objective)[0] in CLOCKED
