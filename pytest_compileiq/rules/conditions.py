"""What the conditions under which a GPU's samples were taken mean for a claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median, median_low

from pytest_compileiq.claim import Claim, ConditionsTable
from pytest_compileiq.model import ARMS
from pytest_compileiq.samples import Conditions, SampleRow

SHORT_CALL_S = 10e-6
POWER_CAP = "software power cap"
_WORTH_TELLING = 1.1


def stored_conditions(taken: Sequence[Conditions], rows: Sequence[SampleRow], call_s: float) -> ConditionsTable:
    """The conditions of all blocks together, for a claim on ``rows`` whose shorter arm takes ``call_s`` seconds."""
    first = taken[0]
    mhz = {arm: [row.clocks.sm_mhz for row in rows if row.arm == arm and row.clocks] for arm in ARMS}
    ratios = [conditions.eager_ratio for conditions in taken if conditions.eager_ratio is not None]
    settled = [conditions.settled for conditions in taken if conditions.settled is not None]
    clocks = [row.clocks for row in rows if row.clocks is not None]
    return ConditionsTable(
        launch=first.launch,
        l2=first.l2,
        all_streams=any(conditions.all_streams for conditions in taken),
        empty_s=median(conditions.empty_s for conditions in taken),
        eager_ratio=median(ratios) if ratios else None,
        diluted=call_s < SHORT_CALL_S,
        locked_mhz=first.locked_mhz,
        warm_up_s=max(conditions.warm_up_s for conditions in taken),
        settled=all(settled) if settled else None,
        baseline_mhz=_median(mhz["baseline"]),
        tuned_mhz=_median(mhz["tuned"]),
        memory_mhz=_median(reading.memory_mhz for reading in clocks),
        held_by=tuple(sorted({reason for reading in clocks for reason in reading.reasons})),
    )


def told_of(claim: Claim) -> list[str]:
    """What a reader of a claim must know of how it was measured, in sentences; nothing for most claims."""
    if not (claim.conditions and claim.baseline and claim.tuned):
        return []
    return told(claim.conditions, min(claim.baseline.p50, claim.tuned.p50))


def told(conditions: ConditionsTable, call_s: float) -> list[str]:
    """As ``told_of``, of a claim whose shorter arm takes ``call_s`` seconds."""
    sentences = []
    if conditions.eager_ratio is not None and conditions.eager_ratio >= _WORTH_TELLING:
        sentences.append(
            f"measured in a CUDA graph: launched one by one, the calls take {conditions.eager_ratio:.1f} times as long"
        )
    if conditions.diluted:
        sentences.append(
            f"diluted: of the call's {call_s * 1e6:.1f} µs an empty kernel would take {conditions.empty_s * 1e6:.1f}, "
            "so that the kernel itself gains more than is claimed"
        )
    if conditions.locked_mhz is not None:
        sentences.append(f"measured with the clocks locked at {conditions.locked_mhz} MHz")
    if POWER_CAP in conditions.held_by:
        arms = {"baseline": conditions.baseline_mhz, "tuned": conditions.tuned_mhz}
        at = ", ".join(f"{arm} at {mhz} MHz" for arm, mhz in arms.items() if mhz is not None)
        sentences.append(f"the power limit held the clocks{at and ': '}{at}")
    return sentences


def _median(clocks_mhz: Iterable[int | None]) -> int | None:
    """The lower median, which is a clock that the GPU has."""
    known = [mhz for mhz in clocks_mhz if mhz is not None]
    return median_low(known) if known else None
