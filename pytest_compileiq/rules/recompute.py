"""Repeats a committed claim's decision from its committed samples, on any machine, and compares every number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_compileiq.claim import Claim, DecisionRecord, FleetTable, Summary
from pytest_compileiq.errors import ClaimMismatch, contained
from pytest_compileiq.model import Direction, Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.evidence import Evidence, all_positive, gather, summarise
from pytest_compileiq.rules.gate import (
    CONFIRM_AFTER_S,
    CONFIRM_LEVEL,
    LOOKS,
    Decision,
    confirm_gain,
    judge_gain,
    judge_non_inferior,
    why_lost,
)
from pytest_compileiq.samples import SampleRow, SampleTable, measured
from pytest_compileiq.spelling import first_of

RELATIVE_TOLERANCE = 1e-6
_GAINS = ("speedup", "speedup_low", "speedup_high")


def recorded_thresholds(claim: Claim) -> Thresholds:
    """The thresholds that a claim records; only the test can say whether they are its own."""
    names = {"alpha", "min_speedup", "min_effect", "max_regression"}
    return Thresholds(**claim.test.model_dump(include=names, exclude_none=True)) if claim.test else Thresholds()


def recompute(
    claim: Claim, rows: SampleTable | Sequence[SampleRow], *, thresholds: Thresholds, direction: Direction
) -> None:
    """Repeat a measured claim's decision from its committed samples.

    Raises:
        ClaimMismatch: a number differs by more than 1e-6 of itself, or the samples do not prove the claim.
        StoreError: the samples are not a complete design.
    """
    where = f"the claim for workload {claim.workload!r} on {claim.device}"
    if claim.test is None:
        raise ClaimMismatch(f"{where} records no test")
    with contained(where, "its samples are not those of a proof"):
        try:
            _recompute(claim, claim.test, rows, thresholds, direction)
        except ClaimMismatch as why:
            raise ClaimMismatch(f"{where}: {why}") from None


def _recompute(
    claim: Claim,
    test: DecisionRecord,
    rows: SampleTable | Sequence[SampleRow],
    thresholds: Thresholds,
    direction: Direction,
) -> None:
    if foreign := measured(rows) - {(claim.device, claim.workload, claim.objective)}:
        device, workload, objective = min(foreign)
        raise ClaimMismatch(f"its samples hold rows of {objective} for {workload!r} on {device}")
    gate, second = _samples(test, rows)
    evidence = gather(gate, direction)
    _expect_analysis(claim, evidence)
    allowed = thresholds.alpha / len(LOOKS)
    if not 0 < test.level <= allowed * (1 + RELATIVE_TOLERANCE):
        over = f"alpha {thresholds.alpha:g} over {len(LOOKS)} looks"
        raise ClaimMismatch(f"test.level = {test.level!r}, and {over} allows {allowed:.3g}")
    later = evidence
    if second is not None:
        if claim.scale is None and not all_positive(second):
            raise ClaimMismatch("it is a ratio, and a value of its second sample is not positive")
        later = gather(second, direction, evidence.analysis)
    # The samples decide which devices a claim is about, and so how they are compared; the claim only names them.
    measured_on = tuple(later.devices) if later.units else ()
    if claim.units != measured_on:
        named, given = (", ".join(first_of(units)) or "one device" for units in (claim.units, measured_on))
        raise ClaimMismatch(f"it is about {named}, and its samples are of {given}")
    if evidence.processes != test.processes:  # checked first: they bound the cost of all that follows
        raise ClaimMismatch(f"its test is of {test.sampled}, and it has {evidence.processes}")
    if claim.kind == "gain":
        if not test.flips:
            raise ClaimMismatch("test.flips = 0, and a gain takes a randomisation test")
        decision = judge_gain(evidence, thresholds, level=test.level, seed=test.seed, flips=test.flips)
    else:
        decision = judge_non_inferior(evidence, thresholds, level=test.level)
    stored = decision if second is None else _confirmed(claim, later, thresholds)
    if stored.devices and [each.outlier for each in claim.devices] != [each.outlier for each in stored.devices]:
        raise ClaimMismatch("its samples give other outliers among its devices")
    for name, recorded, computed in _numbers(claim, decision, stored, later):
        if not math.isclose(recorded, computed, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-15):
            raise ClaimMismatch(f"{name} = {recorded!r}, and its samples give {computed!r}")
    if decision.verdict is not Verdict.PROVEN:
        raise ClaimMismatch(f"its samples do not prove it: {decision.reason}")


def _samples(
    test: DecisionRecord, rows: SampleTable | Sequence[SampleRow]
) -> tuple[SampleTable | Sequence[SampleRow], SampleTable | None]:
    """The sample that the gate judged, and the second one; None where the claim is on one alone."""
    if test.gap_s is not None and test.gap_s < CONFIRM_AFTER_S:
        later = f"a second sample begins {CONFIRM_AFTER_S:g} s after the first"
        raise ClaimMismatch(f"test.gap_s = {test.gap_s!r}, and {later}")
    if test.second is None:
        return rows, None
    table = SampleTable.of(rows)
    numbers = sorted(set(table.columns.process))
    if len(numbers) != test.processes + test.second:
        raise ClaimMismatch(f"its test is of {test.sampled}, and it has {len(numbers)}")
    last = numbers[test.processes - 1]
    return table.where(lambda process: process <= last), table.where(lambda process: process > last)


def _confirmed(claim: Claim, evidence: Evidence, thresholds: Thresholds) -> Decision:
    """The decision on a second sample, which shows a gain, or does not contradict that nothing got worse."""
    if claim.kind == "gain":
        decision = confirm_gain(evidence, thresholds)
        if decision.verdict is not Verdict.PROVEN:
            raise ClaimMismatch(f"its second sample does not confirm it: {decision.reason}")
    else:
        decision = judge_non_inferior(evidence, thresholds, level=CONFIRM_LEVEL)
        if decision.verdict is Verdict.REFUTED or why_lost(evidence):
            raise ClaimMismatch(f"its second sample contradicts it: {decision.reason}")
    return decision


def _expect_analysis(claim: Claim, evidence: Evidence) -> None:
    """The samples decide how the arms are compared, and in units of what; the claim only says so."""
    recorded, computed = claim.scale, evidence.analysis.scale
    if recorded is None and computed is None:
        return
    if recorded is None or computed is None or not math.isclose(recorded, computed, rel_tol=RELATIVE_TOLERANCE):
        said = "by their ratio" if computed is None else f"by their difference, with scale = {computed!r}"
        raise ClaimMismatch(f"scale = {recorded!r}, and its samples are compared {said}")


def _numbers(
    claim: Claim, decision: Decision, stored: Decision, evidence: Evidence
) -> Iterator[tuple[str, float, float]]:
    """Name, recorded and computed value of all that a claim records and its samples determine."""
    summaries = {"baseline": summarise(evidence.baseline), "tuned": summarise(evidence.tuned)}
    sources: list[tuple[str, object, object, Sequence[str]]] = [("", claim, stored, _GAINS)]
    sources += [(f"{arm}.", getattr(claim, arm), each, [*Summary.model_fields]) for arm, each in summaries.items()]
    of_device = ("processes", *_GAINS)
    both = enumerate(zip(claim.devices, stored.devices, strict=False))  # none are shown where too little is left
    sources += [(f"devices.{place}.", said, shown, of_device) for place, (said, shown) in both]
    if stored.fleet:
        sources.append(("fleet.", claim.fleet, stored.fleet, [*FleetTable.model_fields]))
    sources.append(("", claim, decision, ("p_value", "cohens_d")))
    if stored is not decision and claim.test:
        sources.append(("test.first.", claim.test.first, decision, _GAINS))
    for prefix, said, shown, names in sources:
        yield from ((prefix + name, getattr(said, name), getattr(shown, name)) for name in names)
