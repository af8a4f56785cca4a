"""The gate: samples in, verdict out. It fails closed: missing, dropped or non-finite values never count as evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy

from pytest_compileiq.claim import MOST_FLIPS, Claim, ClaimedDevice, FleetTable
from pytest_compileiq.model import LEAST_PROCESSES, Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules import fleet
from pytest_compileiq.rules.comparison import Analysis
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.slot_starts import why_not_the_work
from pytest_compileiq.rules.stats import cohens_d, log_spread_ratio, sign_flip, step_down, welch_centred
from pytest_compileiq.rules.words import floor_text, gain_text, limits_text, number_text, scope_text, unit_text
from pytest_compileiq.spelling import quantity

if TYPE_CHECKING:
    from pytest_compileiq.rules.claims import Expected

LOOKS = (8, 16, 32)  # processes; alpha is split evenly over the looks
QUADS = 4  # per block; quads of one process are not independent, so more of them buy little
SAMPLES = 5  # per slot; their median is the slot's value
MAX_SPREAD_RATIO = 1.25
LEAST_SPREAD = 0.005  # of the baseline: no gain below it is worth an artifact, and no spread a refusal
MAX_DROPPED = 0.25
REPLAY_FLOOR = 0.005
REPLAY_REFUTE_TAIL = 0.005
REPLAY_PROVE_TAIL = 0.05 / len(LOOKS)  # each look may prove
REFUTE_AGAIN_S = 60.0  # from the end of a measurement that refuted to the start of the one that has to agree
CONFIRM_LEVEL = 0.05  # of a proof's second sample, which is as large as the first and has one look
CONFIRM_AFTER_S = 15.0  # from the first sample's end to the second's start: a state of the machine passes meanwhile
PROCESS_EVERY_S = 0.5  # from the start of one process of a proof to the next: neighbours 0.2 s apart correlate


@dataclass(frozen=True)
class Decision:
    """A verdict with its reason and the numbers behind it."""

    verdict: Verdict
    reason: str
    speedup: float  # as its limits, a gain: a ratio, or a difference in units of scale: 1.02 is 2 % better
    speedup_low: float
    speedup_high: float
    p_value: float
    cohens_d: float
    between_sd: float
    flips: int
    level: float
    note: str = ""
    scale: float | None = None
    means: tuple[float, float] | None = None  # of a ratio: the arms' geometric means, in the metric's unit
    devices: tuple[ClaimedDevice, ...] = ()  # the results of each of several
    fleet: FleetTable | None = None  # how they differ, where they speak for others
    skipped: bool = False  # the gain is surely none of work that each call does


def looks_of(devices: int) -> tuple[int, ...]:
    """Processes at each look, of all devices together: each of several takes half as many as one alone."""
    return LOOKS if devices == 1 else tuple(devices * processes // 2 for processes in LOOKS)


def lost_among(processes: Mapping[str, int]) -> tuple[str, ...]:
    """The devices of ``processes`` (device → how many it gave) that gave too few to count.

    None where too little is left without them: then there is no verdict. One that is left alone has to have given as
    many as one device does.
    """
    lost = tuple(unit for unit, count in processes.items() if count < LEAST_PROCESSES)
    left = [count for unit, count in processes.items() if unit not in lost]
    return lost if len(left) > 1 or (left and left[0] >= LOOKS[0]) else ()


def judge_gains(evidences: Sequence[Evidence], thresholds: Thresholds, *, level: float, seed: int) -> list[Decision]:
    """Judge each gain at the level that Holm's procedure gives it in the family of them all, which has ``level``."""
    decisions: dict[int, Decision] = {}

    def p_value(place: int, own_level: float) -> float:
        decisions[place] = judge_gain(evidences[place], thresholds, level=own_level, seed=seed)
        return decisions[place].p_value

    least = [1.0 if why_lost(evidence) else max(_p_without_flips(evidence, thresholds)) for evidence in evidences]
    step_down(least, p_value, level)
    return [decisions[place] for place in range(len(evidences))]


def _p_without_flips(evidence: Evidence, thresholds: Thresholds) -> tuple[float, float]:
    """Welch's p-value, and that of the floor."""
    floor = evidence.analysis.step(thresholds.min_speedup)
    return welch_centred(*evidence.compared).p_value, fleet.p_above(evidence.devices, floor)


def judge_gain(
    evidence: Evidence, thresholds: Thresholds, *, level: float, seed: int, flips: int | None = None
) -> Decision:
    """PROVEN when tuned beats baseline by the rules of the gate at ``level``; REFUTED when the gain is a false pattern.

    Args:
        level: alpha after the split over looks and Holm's correction.
        flips: of the randomisation test, to repeat a recorded decision; None where ``level`` determines them.
    """
    decision = _measured(evidence, level)
    if decision.reason:
        return decision
    p_welch, p_floor = _p_without_flips(evidence, thresholds)
    p_flip, used = 0.0, 0
    if max(p_welch, p_floor) <= level:  # all three have to reject (Berger, Technometrics 24, 1982)
        flips = flips or min(MOST_FLIPS, max(4096, math.ceil(20 / level)))
        p_flip, used = sign_flip(evidence.by_quad, flips=flips, seed=seed)
    floor = evidence.analysis.step(thresholds.min_speedup)
    decision = replace(decision, p_value=max(p_welch, p_flip, p_floor), flips=used)
    if pattern := _false_pattern(evidence, decision) or _worse_somewhere(evidence, decision, thresholds):
        return pattern
    failing = None
    if not p_welch <= level:
        failing = f"Welch's p = {p_welch:.2g} is above {level:.2g}"
    elif not decision.cohens_d >= thresholds.min_effect:
        failing = f"d = {decision.cohens_d:.2f} is below {thresholds.min_effect:g}"
    elif not p_flip <= level:
        failing = f"the randomisation test's p = {p_flip:.2g} is above {level:.2g}"
    elif not p_floor <= level:
        failing = f"the {_gain_named(evidence, thresholds.min_speedup)} (p = {p_floor:.2g}, needed {level:.2g})"
    if failing:
        more = _what_would_decide(evidence, floor, level)
        return replace(decision, reason=f"{_compared(decision)}: {failing}; {more}")
    reason = f"{_compared(decision)}, p = {decision.p_value:.2g}, d = {decision.cohens_d:.1f}"
    return _proven(evidence, replace(decision, reason=reason))


def judge_non_inferior(evidence: Evidence, thresholds: Thresholds, *, level: float) -> Decision:
    """PROVEN when tuned is surely no more than ``max_regression`` worse; REFUTED when it surely is."""
    decision = _measured(evidence, level)
    if decision.reason:
        return decision
    floor = evidence.analysis.step_of_share(-thresholds.max_regression)
    p_value = fleet.p_above(evidence.devices, floor)
    worse = fleet.p_above({unit: -own for unit, own in evidence.devices.items()}, -floor)
    decision = replace(decision, p_value=p_value)
    if refused := _worse_somewhere(evidence, decision, thresholds):
        return refused
    margin = f"{thresholds.max_regression:.1%} worse"
    if p_value <= level:
        return replace(decision, verdict=Verdict.PROVEN, reason=f"{_compared(decision)}: surely less than {margin}")
    if worse <= level:
        return replace(decision, verdict=Verdict.REFUTED, reason=f"{_compared(decision)}: surely more than {margin}")
    return replace(decision, reason=f"{_compared(decision)}: {margin} is not ruled out")


def confirm_gain(evidence: Evidence, thresholds: Thresholds) -> Decision:
    """PROVEN when a second sample shows the gain of the first: above ``min_speedup``, at one-sided 5 %."""
    decision = _measured(evidence, CONFIRM_LEVEL)
    if decision.reason:
        return decision
    p_value = fleet.p_above(evidence.devices, evidence.analysis.step(thresholds.min_speedup))
    decision = replace(decision, p_value=p_value)
    if refused := _worse_somewhere(evidence, decision, thresholds):
        return refused
    if p_value <= CONFIRM_LEVEL:
        return _proven(evidence, replace(decision, reason=_compared(decision)))
    unsure = f"the {_gain_named(evidence, thresholds.min_speedup)} (p = {p_value:.2g}, needed {CONFIRM_LEVEL:g})"
    return replace(decision, reason=f"{_compared(decision)}: {unsure}")


def judge_replay(evidence: Evidence, expected: Expected, *, last_look: bool) -> Decision:
    """Whether a committed gain still stands, by its own analysis; the floor is half of it, at least 0.5 %.

    PROVEN when the lower bound at 5 %, split over the looks, is above the floor, REFUTED when the upper 99.5 % bound is
    below it, and below the least that the claim leaves room for here; else INCONCLUSIVE, at the last look too. A proven
    gain beside the committed interval has a note.
    """
    decision = _measured(evidence, REPLAY_PROVE_TAIL)
    if decision.reason:
        return decision
    analysis = evidence.analysis
    floor = max(analysis.step(expected.speedup) / 2, analysis.step_of_share(REPLAY_FLOOR))
    low = fleet.gain_interval(evidence.devices, REPLAY_PROVE_TAIL).low
    high = fleet.gain_interval(evidence.devices, REPLAY_REFUTE_TAIL).high
    decision = replace(decision, p_value=fleet.p_above(evidence.devices, floor))
    at_least = floor_text(analysis.gain(floor), analysis.scale)
    shown = f"{_compared(decision)}; committed {gain_text(expected.speedup, analysis.scale)}, floor {at_least}"
    if low > floor:
        now, note = gain_text(decision.speedup, decision.scale), ""
        if decision.speedup_high < expected.low:
            committed = limits_text(expected.low, expected.high, decision.scale)
            note = f"decayed: {now} now, {committed} committed"
        elif decision.speedup_low > expected.high:
            note = f"more than claimed: {now} now; refresh the claim with --tune-budget=0"
        return _proven(evidence, replace(decision, reason=shown, note=note))
    room = floor if expected.least is None else min(floor, analysis.step(expected.least))
    if high < room:
        return replace(decision, verdict=Verdict.REFUTED, reason=f"the gain is gone: {shown}")
    if high < floor:
        left = gain_text(analysis.gain(room), analysis.scale)
        return replace(decision, reason=f"less than the floor, as the claim leaves room for here ({left}): {shown}")
    more = _what_would_decide(evidence, floor, REPLAY_PROVE_TAIL) if last_look else "more processes follow"
    return replace(decision, reason=f"undecided: {shown}, sd between processes {decision.between_sd:.2%}; {more}")


def undecided(reason: str) -> Decision:
    """INCONCLUSIVE, with no numbers behind it."""
    return Decision(Verdict.INCONCLUSIVE, reason, 1.0, 1e-9, 1e9, 1.0, 0.0, 0.0, 0, 1.0)


def _proven(evidence: Evidence, decision: Decision) -> Decision:
    """``decision`` as PROVEN, unless single calls lose its gain: then they are its reason."""
    if lost := why_not_the_work(evidence, decision.speedup):
        verdict = Verdict.REFUTED if lost.sure else Verdict.INCONCLUSIVE
        reason = f"{_compared(decision)}; {lost.reason}"
        return replace(decision, verdict=verdict, reason=reason, note="", skipped=lost.sure)
    return replace(decision, verdict=Verdict.PROVEN)


def _measured(evidence: Evidence, level: float) -> Decision:
    """An undecided decision with the numbers that every decision shows; with a reason where evidence lacks."""
    scale, gain = evidence.analysis.scale, evidence.analysis.gain
    empty = replace(undecided(why_lost(evidence) or ""), level=level, scale=scale)
    if empty.reason:
        return empty
    devices = evidence.devices
    interval = fleet.gain_interval(devices, 0.025)
    means = [float(np.exp(np.nanmean(np.log(arm)))) for arm in (evidence.baseline, evidence.tuned) if scale is None]
    return replace(
        empty,
        speedup=gain(interval.estimate),
        speedup_low=gain(interval.low),
        speedup_high=gain(interval.high),
        cohens_d=cohens_d(*evidence.compared).estimate,
        between_sd=fleet.within_sd(devices),
        means=(means[0], means[1]) if means else None,
        devices=fleet.on_devices(devices, gain),
        fleet=fleet.fleet_of(devices, gain),
    )


def why_lost(evidence: Evidence) -> str | None:
    """Why too little evidence is left to decide anything; None where enough is."""
    if evidence.processes < 2:
        return f"{quantity(evidence.processes, 'process')} gave samples, and a verdict needs 2"
    if evidence.dropped > MAX_DROPPED:
        return f"{evidence.dropped:.0%} of the quads were dropped, and at most {MAX_DROPPED:.0%} may be"
    return fleet.why_too_few(evidence.devices)


def _false_pattern(evidence: Evidence, decision: Decision) -> Decision | None:
    """The decision on a false speed-up: a lucky minimum, or a wider spread; None where there is no sign of one.

    A better minimum alone neither proves nor refutes: one in five pairs of equal arms shows it.
    """
    baseline, tuned = evidence.compared
    if np.nanmin(tuned) < np.nanmin(baseline) - 1e-12 and decision.speedup <= 1:
        verdict = Verdict.REFUTED if decision.speedup_high < 1 else Verdict.INCONCLUSIVE
        reason = f"only the minimum is better, the mean is not: {_compared(decision)}"
        return replace(decision, verdict=verdict, reason=reason)
    # However wide the spread is: all but the worst 5 % are no worse than the baseline's median, on every device.
    of_devices = [evidence.on(unit) for unit in evidence.devices] if evidence.units else [np.full(len(tuned), True)]
    if all(np.nanpercentile(tuned[own], 95) <= np.nanmedian(baseline[own]) for own in of_devices):
        return None
    ratio, error = log_spread_ratio(*evidence.costs, LEAST_SPREAD)
    if ratio - 1.96 * error > math.log(MAX_SPREAD_RATIO):
        reason = f"the spread is wider: p5 to p95 is {math.exp(ratio):.2f} times the baseline's"
        return replace(decision, verdict=Verdict.REFUTED, reason=reason)
    return None


def _worse_somewhere(evidence: Evidence, decision: Decision, thresholds: Thresholds) -> Decision | None:
    """The refusal of what one of several devices surely pays for; None where none does."""
    floor = evidence.analysis.step_of_share(-thresholds.max_regression)
    if not (losing := fleet.surely_below(evidence.devices, floor)):
        return None
    margin, where = f"{thresholds.max_regression:.1%}", ", ".join(map(unit_text, losing))
    reason = f"{_compared(decision)}: surely more than {margin} worse on {where}"
    return replace(decision, verdict=Verdict.REFUTED, reason=reason)


def _what_would_decide(evidence: Evidence, floor: float, level: float) -> str:
    """How much more evidence of this kind would prove what is claimed, in words."""
    if (needed := fleet.what_would_decide(evidence.devices, floor, level)) is None:
        return f"no number of processes proves more than {evidence.analysis.gain(floor) - 1:.1%} from such a mean"
    return f"at this noise about {needed} would prove it"


def _gain_named(evidence: Evidence, floor: float) -> str:
    scale = evidence.analysis.scale
    if scale is None:
        return f"speed-up is not surely above {floor:g}"
    return f"gain is not surely above {floor_text(floor, scale)} ({floor - 1:.2%} of {number_text(scale)})"


def _compared(decision: Decision) -> str:
    interval = limits_text(decision.speedup_low, decision.speedup_high, decision.scale)
    another = (decision.fleet.another_low, decision.fleet.another_high) if decision.fleet else None
    scope = scope_text(len(decision.devices), another, decision.scale)
    strange = [
        f"an outlier among them: {unit_text(each.unit)}, {gain_text(each.speedup, decision.scale)}"
        for each in decision.devices
        if each.outlier
    ]
    compared = f"{gain_text(decision.speedup, decision.scale)} (95 % interval {interval})"
    return "; ".join((f"{compared} {scope}".rstrip(), *strange))


# ── how often a replay would hold a claim, by the deviation between processes that its own samples show ──────────

SMALL = 0.02  # a gain below it: a machine's state moves ratios by half a per cent from day to day
POWER = 0.8


def why_hard_to_hold(claim: Claim) -> str | None:
    """What to say of a gain that replays on this machine may not hold, with what would; None where they do."""
    if claim.kind != "gain" or claim.devices or claim.test is None or claim.speedup is None:
        return None
    analysis = Analysis(claim.scale)
    processes = claim.test.second or claim.test.processes
    low, high = analysis.step(claim.speedup_low or 0.0), analysis.step(claim.speedup_high or 0.0)
    # Between processes, by the claim's 95 % interval.
    deviation = (high - low) / 2 * math.sqrt(processes) / -float(scipy.special.stdtrit(processes - 1, 0.025))
    gain = analysis.step(claim.speedup)
    room = gain - max(gain / 2, analysis.step_of_share(REPLAY_FLOOR))
    power = _power(room, deviation)
    where = "" if claim.workload == "default" else f" on {claim.workload}"
    if power < POWER:
        most = _deviation_for(room)
        remedy = f"at most {most:.2%}: use longer calls or a quieter machine" if most > 0 else "a gain above 0.5%"
        return (
            f"{power:.0%} of replays here would hold the gain in {claim.objective}{where}: processes deviate by "
            f"{deviation:.2%}, and {POWER:.0%} requires {remedy}"
        )
    if claim.speedup - 1 < SMALL:
        return (
            f"replays may not hold the gain in {claim.objective}{where}: it is below {SMALL:.0%}, and a machine drifts "
            f"by about 0.5% a day; min_speedup={1 + SMALL:g} claims no gain so small"
        )
    return None


def _power(room: float, deviation: float) -> float:
    """The probability that the last look puts the gain above the floor that it exceeds by ``room``: noncentral t."""
    if deviation <= 0:
        return float(room > 0)
    most = LOOKS[-1]
    needed = -float(scipy.special.stdtrit(most - 1, REPLAY_PROVE_TAIL))
    return 1 - float(scipy.special.nctdtr(most - 1, room / deviation * math.sqrt(most), needed))


def _deviation_for(room: float) -> float:
    """The largest deviation between processes at which the power is ``POWER``, by bisection; 0 where there is none."""
    if room <= 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _power(room, middle) >= POWER else (low, middle)
    return low
