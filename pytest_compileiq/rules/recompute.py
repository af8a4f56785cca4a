"""Repeats a committed claim's decision from its committed samples, on any machine, and compares every number."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_compileiq.claim import Claim, DecisionRecord
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
    with contained(where, "its samples are not those of a proof"):
        _recompute(where, claim, rows, thresholds, direction)


def _recompute(
    where: str, claim: Claim, rows: SampleTable | Sequence[SampleRow], thresholds: Thresholds, direction: Direction
) -> None:
    if claim.test is None:
        raise ClaimMismatch(f"{where} records no test")
    own = claim.device, claim.workload, claim.objective
    if foreign := measured(rows) - {own}:
        device, workload, objective = min(foreign)
        raise ClaimMismatch(f"{where}: its samples hold rows of {objective} for {workload!r} on {device}")
    gate, second = _samples(where, claim.test, rows)
    evidence = gather(gate, direction)
    _expect_analysis(where, claim, evidence)
    level = claim.test.level
    if not 0 < level <= thresholds.alpha / len(LOOKS) * (1 + RELATIVE_TOLERANCE):
        raise ClaimMismatch(
            f"{where}: test.level = {level!r}, and alpha {thresholds.alpha:g} over {len(LOOKS)} looks allows "
            f"{thresholds.alpha / len(LOOKS):.3g}"
        )
    later = evidence
    if second is not None:
        if claim.scale is None and not all_positive(second):
            raise ClaimMismatch(f"{where}: it is a ratio, and a value of its second sample is not positive")
        later = gather(second, direction, evidence.analysis)
    _expect_devices(where, claim, later)
    if evidence.processes != claim.test.processes:  # checked first: they bound the cost of all that follows
        raise ClaimMismatch(f"{where}: its test is of {claim.test.sampled}, and it has {evidence.processes}")
    if claim.kind == "gain":
        if not claim.test.flips:
            raise ClaimMismatch(f"{where}: test.flips = 0, and a gain takes a randomisation test")
        decision = judge_gain(evidence, thresholds, level=level, seed=claim.test.seed, flips=claim.test.flips)
    else:
        decision = judge_non_inferior(evidence, thresholds, level=level)
    numbers = [(name, getattr(decision, name)) for name in ("p_value", "cohens_d")]
    stored = decision
    if second is not None:
        stored = _confirmed(where, claim, later, thresholds)
        numbers += [(f"test.first.{name}", getattr(decision, name)) for name in _GAINS]
    if stored.devices and [each.outlier for each in claim.devices] != [each.outlier for each in stored.devices]:
        raise ClaimMismatch(f"{where}: its samples give other outliers among its devices")
    for name, computed in (*_numbers(stored, later), *numbers):
        recorded = _recorded(claim, name)
        if not math.isclose(recorded, computed, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-15):
            raise ClaimMismatch(f"{where}: {name} = {recorded!r}, and its samples give {computed!r}")
    if decision.verdict is not Verdict.PROVEN:
        raise ClaimMismatch(f"{where}: its samples do not prove it: {decision.reason}")


def _samples(
    where: str, test: DecisionRecord, rows: SampleTable | Sequence[SampleRow]
) -> tuple[SampleTable | Sequence[SampleRow], SampleTable | None]:
    """What the gate judged, and the second sample; None where the claim is on one alone."""
    if test.gap_s is not None and test.gap_s < CONFIRM_AFTER_S:
        raise ClaimMismatch(
            f"{where}: test.gap_s = {test.gap_s!r}, and a second sample begins {CONFIRM_AFTER_S:g} s after the first"
        )
    if test.second is None:
        return rows, None
    table = SampleTable.of(rows)
    numbers = sorted(set(table.columns.process))
    if len(numbers) != test.processes + test.second:
        raise ClaimMismatch(f"{where}: its test is of {test.sampled}, and it has {len(numbers)}")
    last = numbers[test.processes - 1]
    return table.where(lambda process: process <= last), table.where(lambda process: process > last)


def _confirmed(where: str, claim: Claim, evidence: Evidence, thresholds: Thresholds) -> Decision:
    """What a second sample decides.

    Raises:
        ClaimMismatch: it does not show a gain, or contradicts that nothing got worse.
    """
    if claim.kind == "gain":
        decision = confirm_gain(evidence, thresholds)
        if decision.verdict is not Verdict.PROVEN:
            raise ClaimMismatch(f"{where}: its second sample does not confirm it: {decision.reason}")
    else:
        decision = judge_non_inferior(evidence, thresholds, level=CONFIRM_LEVEL)
        if decision.verdict is Verdict.REFUTED or why_lost(evidence):
            raise ClaimMismatch(f"{where}: its second sample contradicts it: {decision.reason}")
    return decision


def _expect_analysis(where: str, claim: Claim, evidence: Evidence) -> None:
    """The samples decide how the arms are compared, and in units of what; the claim only says so."""
    recorded, computed = claim.scale, evidence.analysis.scale
    if recorded is None and computed is None:
        return
    if recorded is None or computed is None or not math.isclose(recorded, computed, rel_tol=RELATIVE_TOLERANCE):
        said = "by their ratio" if computed is None else f"by their difference, with scale = {computed!r}"
        raise ClaimMismatch(f"{where}: scale = {recorded!r}, and its samples are compared {said}")


def _expect_devices(where: str, claim: Claim, evidence: Evidence) -> None:
    """The samples decide which devices a claim is about, and so how they are compared; the claim only names them."""
    measured_on = tuple(evidence.devices) if evidence.units else ()
    if claim.units != measured_on:
        named, given = (", ".join(first_of(units)) or "one device" for units in (claim.units, measured_on))
        raise ClaimMismatch(f"{where}: it is about {named}, and its samples are of {given}")


def _numbers(decision: Decision, evidence: Evidence) -> list[tuple[str, float]]:
    """What a claim records and its samples determine."""
    numbers: list[tuple[str, float]] = [(name, getattr(decision, name)) for name in _GAINS]
    for arm, values in (("baseline", evidence.baseline), ("tuned", evidence.tuned)):
        numbers += [(f"{arm}.{key}", value) for key, value in summarise(values).model_dump().items()]
    for place, device in enumerate(decision.devices):
        of_device = ("processes", "speedup", "speedup_low", "speedup_high")
        numbers += [(f"devices.{place}.{key}", getattr(device, key)) for key in of_device]
    if decision.fleet:
        numbers += [(f"fleet.{key}", value) for key, value in decision.fleet]
    return numbers


def _recorded(claim: Claim, name: str) -> float:
    value: object = claim
    for part in name.split("."):
        value = value[int(part)] if isinstance(value, tuple) else getattr(value, part)
    return float(value) if isinstance(value, int | float) else math.nan
