"""What an artifact claims: which claim speaks for it, and what a claim's step from one version to another means."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.claim import Claim, ConditionsTable
from pytest_compileiq.model import ARMS, Direction, is_score, of_entries
from pytest_compileiq.outcome import Standing
from pytest_compileiq.rules.words import Words, limits_text, scope_text, unit_text, words_for
from pytest_compileiq.samples import Conditions, SampleRow
from pytest_compileiq.spelling import first_of

if TYPE_CHECKING:
    from pytest_compileiq.rules.gate import Decision


ClaimKey = tuple[str, str, str]
_ORDER = {"worse": 0, "gained": 1, "level": 2}


@dataclass(frozen=True)
class ClaimStep:
    """One claim (device, workload, objective), before and after, and its loss in words."""

    old: Claim | None
    new: Claim | None
    worse: str = ""


def direction_of(claim: Claim) -> Direction:
    """Which way the claim's metric is better."""
    if claim.direction is not None:
        return claim.direction
    # Older claims do not record it: the metric is known to be minimised, or else the means of a gain tell.
    if not is_score(claim.objective) or not claim.baseline or not claim.tuned:
        return "minimize"
    gained = (claim.speedup or 0) > 1
    return "maximize" if gained and claim.tuned.mean > claim.baseline.mean else "minimize"


def words_of(claim: Claim) -> Words:
    """What the claim's gain and its loss are called."""
    return words_for(claim.objective, direction_of(claim))


def scope_of(claim: Claim) -> str:
    """Which devices it speaks for, in words; empty where that is one."""
    another = (claim.fleet.another_low, claim.fleet.another_high) if claim.fleet else None
    return scope_text(len(claim.devices), another, claim.scale, words_of(claim))


@dataclass(frozen=True)
class Expected:
    """What a claim says of a device that it is measured on again, as gains."""

    speedup: float
    low: float  # to high: where the gain was, or was predicted
    high: float
    least: float | None = None  # that the claim leaves room for here; None where it knows the gain as a whole alone
    of_device: str = ""  # how the device stands to the claim, in words; empty for a claim of one device


def expected_of(claim: Claim, units: Collection[str]) -> Expected:
    """What ``claim`` says of the devices ``units``, on which it is measured again.

    On one of its own devices that one's gain, on another device of its fleet the prediction for such.

    Raises:
        ValueError: the claim is an exact one.
    """
    if claim.speedup is None or claim.speedup_low is None or claim.speedup_high is None:
        raise ValueError("an exact claim is compared exactly, not measured")
    whole = Expected(claim.speedup, claim.speedup_low, claim.speedup_high)
    if not claim.devices or len(units) != 1:
        return whole
    (unit,) = units
    claimed = f"claimed on {len(claim.devices)} devices"
    for own in claim.devices:
        if own.unit == unit:
            of_device = f"{claimed}, this is {unit_text(unit)} of them"
            return Expected(own.speedup, own.speedup_low, own.speedup_high, own.speedup_low, of_device)
    of_device = f"{claimed}; {'this is another' if unit else 'whether this is one of them is not known'}"
    if claim.fleet is None:
        return replace(whole, of_device=of_device)
    low, high = claim.fleet.another_low, claim.fleet.another_high
    predicted = limits_text(low, high, claim.scale, words_of(claim))
    return Expected(claim.speedup, low, high, low, f"{of_device}, for which {predicted} was predicted")


def devices_lost(old: Claim, new: Claim) -> str:
    """How much less of the devices ``new`` speaks for than ``old``, in words; empty where it is no less."""
    if old.fleet is not None and new.fleet is not None:
        return ""  # both speak for devices that they were not measured on, so that others may stand in for some
    if old.fleet is not None:
        return f"was for a fleet, now only {scope_of(new) or 'on one device'}"
    if new.fleet is not None or not (lost := [unit for unit in old.units if unit not in new.units]):
        return ""
    if not new.units:
        return f"was {scope_of(old)}, now on one"
    return f"no longer on {', '.join(map(unit_text, first_of(lost)))}"


def directions(artifact: Artifact) -> dict[str, Direction]:
    """Which way each objective of the search is better, in the marker's order; those not on record are left out."""
    recorded = artifact.search.objectives or {claim.objective: direction_of(claim) for claim in artifact.claims}
    known = (name for point in artifact.front for name in point.metrics if not is_score(name))
    return {**recorded, **{name: "minimize" for name in known if name not in recorded}}


def standing(claim: Claim) -> Standing:
    """How the metric stands against the baseline's; without a gate's verdict it is worse if all its interval is."""
    if claim.kind == "exact":
        better = _decrease(claim, claim.baseline_value, claim.tuned_value)
        return "gained" if better > 0 else "worse" if better < 0 else "level"
    if claim.kind == "gain" and (claim.speedup or 0) > 1:
        return "gained"
    return "worse" if (claim.speedup_high or 0) < 1 else "level"


def in_order(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The leading claim, then the losses, then the other gains, then the level ones.

    A claim of the first objective that gained leads: the one with the highest lower bound over workloads and devices.
    """
    # Each metric of the build once: it is the same on every workload.
    by_value: dict[object, Claim] = {}
    for claim in claims:
        build = claim.device, claim.objective, claim.baseline_value, claim.tuned_value
        by_value.setdefault(build if claim.of_the_build else id(claim), claim)
    distinct = list(by_value.values())
    gained = [claim for claim in distinct if standing(claim) == "gained"]
    rivals = [claim for claim in gained if claim.objective == gained[0].objective] or distinct[:1]
    lead = [max(rivals, key=lambda claim: claim.speedup_low or 0.0)] if rivals else []
    others = [claim for claim in distinct if claim is not lead[0]]
    return (*lead, *sorted(others, key=lambda claim: _ORDER[standing(claim)]))


def leading_claim(artifact: Artifact) -> Claim | None:
    """The surest gain on the first objective that gained, else the first claim."""
    return next(iter(in_order(artifact.claims)), None)


def lead_step(before: Artifact | None, after: Artifact | None) -> ClaimStep | None:
    """The newer version's leading claim, and the older version's same claim or else its leading one."""
    old, new = (leading_claim(artifact) if artifact else None for artifact in (before, after))
    if new is not None:
        old = _by_key(before).get(_key(new), old)
    return ClaimStep(old, new) if old or new else None


def claim_steps(before: Artifact | None, after: Artifact | None) -> Iterator[ClaimStep]:
    """Every claim of both versions, sorted by device, workload and objective."""
    olds, news = _by_key(before), _by_key(after)
    for key in sorted(olds.keys() | news.keys()):
        old, new = olds.get(key), news.get(key)
        yield ClaimStep(old, new, _worse(old, new) if new else "")


def devices_only(one: Artifact | None, other: Artifact | None) -> tuple[str, ...]:
    """Devices with a claim in ``one`` and none in ``other``; empty unless both are there to compare."""
    if one is None or other is None:
        return ()
    return tuple(sorted({claim.device for claim in one.claims} - {claim.device for claim in other.claims}))


def trend(old: Claim, new: Claim) -> str:
    """What the step from one claim to another means, in words.

    Two 95 % intervals that are apart differ at a level well below 5 %; an overlap proves nothing.
    """
    if _key(old) != _key(new) or (old.kind == "exact") != (new.kind == "exact"):
        return "not comparable: another device, workload or objective leads"
    if old.kind == "exact":
        better = _decrease(new, old.tuned_value, new.tuned_value)
        return "better" if better > 0 else "worse" if better < 0 else "the same"
    if (old.scale is None) != (new.scale is None):
        return "not comparable: one is a ratio, the other a difference"
    (old_low, old_high), (new_low, new_high) = _limits(old), _limits(new)
    if new_low > old_high:
        return "a larger gain: the 95 % intervals are apart"
    if new_high < old_low:
        return "a smaller gain: the 95 % intervals are apart"
    return "no clear difference: the 95 % intervals overlap"


def _key(claim: Claim) -> ClaimKey:
    return claim.device, claim.workload, claim.objective


def _by_key(artifact: Artifact | None) -> dict[ClaimKey, Claim]:
    return {_key(claim): claim for claim in artifact.claims} if artifact else {}


def _worse(old: Claim | None, new: Claim) -> str:
    if old and old.kind == new.kind == "exact" and _decrease(new, old.tuned_value, new.tuned_value) < 0:
        return "worse than before"
    if standing(new) == "worse":
        return f"{words_of(new)[1]} than the defaults"
    if old is None or old.kind == "exact" or new.kind == "exact":
        return ""
    if lost := devices_lost(old, new):
        return lost
    if (old.scale is None) == (new.scale is None) and _limits(new)[1] < _limits(old)[0]:
        return "a smaller gain than before: the 95 % intervals are apart"
    if old.kind == "gain" and new.kind == "non-inferior":
        return "was a proven gain, now only not worse than the defaults"
    return ""


def _limits(claim: Claim) -> tuple[float, float]:
    """The interval of a measured gain, comparable with that of another claim: ratios, or differences in the unit."""
    low, high = claim.speedup_low or 0.0, claim.speedup_high or 0.0
    return (low, high) if claim.scale is None else ((low - 1) * claim.scale, (high - 1) * claim.scale)


def _decrease(claim: Claim, before: float | None, after: float | None) -> float:
    """By how much ``after`` is better than ``before`` in the direction of ``claim``."""
    decrease = (before or 0) - (after or 0)
    return decrease if direction_of(claim) == "minimize" else -decrease


def as_measured(claim: Claim, decision: Decision) -> Claim:
    """The claim with the numbers of a replay on this device; a difference loses the recorded means."""
    means = {} if claim.scale is None else {"baseline": None, "tuned": None}
    numbers = {name: getattr(decision, name) for name in ("speedup", "speedup_low", "speedup_high")}
    return claim.model_copy(update={**numbers, **means, "devices": (), "fleet": None})


@dataclass(frozen=True)
class WorseEntry:
    """One entry function whose own value of a metric is worse with the controls than without."""

    metric: str
    entry: str
    baseline: int
    tuned: int


def worse_entries(artifact: Artifact) -> tuple[WorseEntry, ...]:
    """The entry functions that lost on a metric whose claim did not: a largest value or a sum does not show them."""
    # A claim of some entry functions, ``registers of kernel*``, is held to all of them, since controls reach all.
    claimed = dict.fromkeys(
        (of_entries(claim.objective)[0], direction_of(claim))
        for claim in artifact.claims
        if claim.of_the_build and standing(claim) != "worse"
    )
    lost: dict[tuple[str, str], WorseEntry] = {}
    for metric, direction in claimed:
        for entry in sorted(artifact.code.keys() - artifact.compiler.apart):
            pair = artifact.code[entry]
            before, after = (code.metrics.get(metric) if code else None for code in (pair.baseline, pair.tuned))
            if before is None or after is None:
                continue
            if after > before if direction == "minimize" else after < before:
                lost[metric, entry] = WorseEntry(metric, entry, before, after)
    return tuple(lost.values())


# ── functions that controls change and nothing exercises ─────────────────────────────────────────────────────────


def changed_neighbours(
    baseline: Mapping[str, str], tuned: Mapping[str, str], stands_for: Collection[str]
) -> tuple[str, ...]:
    """The entries whose machine code the controls change beyond ``stands_for``, sorted.

    An entry with the code of one that is stood for, in both arms, is another name of it: an alias, or a constructor's
    second symbol.

    Args:
        baseline, tuned: entry → digest.
        stands_for: entries that the test stands for; where nothing says which, there are no neighbours.
    """
    stands_for = frozenset(stands_for)
    exercised = {(baseline[entry], tuned.get(entry)) for entry in stands_for if entry in baseline}
    changed = ((entry, (digest, tuned.get(entry))) for entry, digest in baseline.items() if entry not in stands_for)
    beyond = (entry for entry, arms in changed if arms[0] != arms[1] and arms not in exercised)
    return tuple(sorted(beyond)) if stands_for else ()


def recorded_neighbours(artifact: Artifact) -> tuple[str, ...]:
    """The entries that the artifact's controls change beyond the functions that it says it stands for, sorted."""
    apart = artifact.compiler.apart
    pairs = {entry: pair for entry, pair in artifact.code.items() if pair.tuned and entry not in apart}
    baseline = {entry: pair.baseline.sha256 for entry, pair in pairs.items()}
    tuned = {entry: pair.tuned.sha256 for entry, pair in pairs.items() if pair.tuned}
    return changed_neighbours(baseline, tuned, artifact.functions)


# ── the conditions under which a GPU's samples were taken ────────────────────────────────────────────────────────

SHORT_CALL_S = 10e-6
POWER_CAP = "software power cap"
_WORTH_TELLING = 1.1


def stored_conditions(taken: Sequence[Conditions], rows: Sequence[SampleRow], call_s: float) -> ConditionsTable:
    """The conditions of all blocks together, for a claim on ``rows`` whose shorter arm takes ``call_s`` seconds."""
    from statistics import median, median_low  # heavy: decimal

    first = taken[0]
    mhz = {arm: [row.clocks.sm_mhz for row in rows if row.arm == arm and row.clocks] for arm in ARMS}
    ratios = [conditions.eager_ratio for conditions in taken if conditions.eager_ratio is not None]
    settled = [conditions.settled for conditions in taken if conditions.settled is not None]
    clocks = [row.clocks for row in rows if row.clocks is not None]

    def middle(clocks_mhz: Iterable[int | None]) -> int | None:
        known = [mhz for mhz in clocks_mhz if mhz is not None]
        return median_low(known) if known else None  # the lower median, which is a clock that the GPU has

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
        baseline_mhz=middle(mhz["baseline"]),
        tuned_mhz=middle(mhz["tuned"]),
        memory_mhz=middle(reading.memory_mhz for reading in clocks),
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
