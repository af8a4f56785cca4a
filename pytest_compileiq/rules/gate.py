"""The gate: samples in, verdict out. It fails closed: missing, dropped or non-finite values never count as evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pytest_compileiq.artifact import Summary
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import Direction, SampleRow, Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.analysis import BY_RATIO, Analysis, magnitude
from pytest_compileiq.rules.design import slot_values
from pytest_compileiq.rules.stats import (
    Floats,
    cohens_d,
    holm_levels,
    log_spread_ratio,
    paired_interval,
    paired_p,
    processes_for,
    sign_flip,
    welch_centred,
)
from pytest_compileiq.rules.words import floor_text, gain_text, limits_text, number_text
from pytest_compileiq.sample_table import SampleTable

LOOKS = (8, 16, 32)  # processes; alpha is split evenly over the looks
QUADS = 4  # per block; quads of one process are not independent, so more of them buy little
SAMPLES = 5  # per slot; their median is the slot's value
MAX_SPREAD_RATIO = 1.25
LEAST_SPREAD = 0.005  # of the baseline: no gain below it is worth an artifact, and no spread a refusal
MAX_DROPPED = 0.25
REPLAY_FLOOR = 0.005
REPLAY_REFUTE_TAIL = 0.005
REPLAY_PROVE_TAIL = 0.05


@dataclass(frozen=True)
class Evidence:
    """Slot values in the metric's unit, shape (processes, quads, 2); a dropped quad is NaN in both arms."""

    baseline: Floats
    tuned: Floats
    direction: Direction = "minimize"
    analysis: Analysis = BY_RATIO

    @property
    def processes(self) -> int:
        """How many processes gave a block."""
        return int(self.baseline.shape[0])

    @cached_property
    def dropped(self) -> float:
        """The fraction of quads that were dropped."""
        return float((~np.isfinite(self.by_quad)).mean()) if self.by_quad.size else 1.0

    @cached_property
    def compared(self) -> tuple[Floats, Floats]:
        """Both arms on the analysis' axis, lower is better: logs, or values in units of the scale."""
        return self.analysis.axis(self.baseline, self.direction), self.analysis.axis(self.tuned, self.direction)

    @property
    def costs(self) -> tuple[Floats, Floats]:
        """Both arms, lower is better: a maximised metric's reciprocal, whose spread a gain does not widen.

        Differences are moved so that the baseline's median is 1, the scale's unit: a spread does not see where it lies.
        """
        if self.analysis.scale is not None:
            baseline, tuned = self.compared
            middle = np.nanmedian(baseline) - 1
            return baseline - middle, tuned - middle
        if self.direction == "minimize":
            return self.baseline, self.tuned
        return 1.0 / self.baseline, 1.0 / self.tuned

    @cached_property
    def by_quad(self) -> Floats:
        """Baseline − tuned of each quad's mean on the axis, shape (processes, quads)."""
        baseline, tuned = self.compared
        quads: Floats = baseline.mean(axis=2) - tuned.mean(axis=2)
        return quads

    @cached_property
    def by_process(self) -> Floats:
        """Baseline − tuned of each process's mean, shape (processes,), without those that lost every quad."""
        kept = self.by_quad[np.isfinite(self.by_quad).any(axis=1)]
        means: Floats = np.nanmean(kept, axis=1)
        return means


@dataclass(frozen=True)
class Decision:
    """A verdict with its reason and the numbers behind it; speed-ups are gains, above 1 when tuned is better.

    Where ``scale`` is given they are not ratios: 1.02 is better by 2 % of it. ``means`` are
    the geometric ones of the baseline's and the tuned arm's slots, in the metric's unit, for a ratio.
    """

    verdict: Verdict
    reason: str
    speedup: float
    speedup_low: float
    speedup_high: float
    p_value: float
    cohens_d: float
    between_sd: float
    flips: int
    level: float
    note: str = ""
    scale: float | None = None
    means: tuple[float, float] | None = None


def gather(rows: SampleTable | Sequence[SampleRow], direction: Direction, analysis: Analysis | None = None) -> Evidence:
    """Arrange raw samples of one objective as evidence; a slot's value is the median of its samples, or a tail of them.

    A tail's interval is as valid as the median's: the unit is the process, whose quantiles are one observation
    (Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013, section 5), not the single sample.

    Args:
        analysis: that of an earlier claim; by default all values of both arms decide: ratios where all are positive.

    Raises:
        StoreError: the rows are not a complete design, as ``slot_values`` says.
    """
    baseline, tuned = slot_values(rows)
    if analysis is None:
        analysis = BY_RATIO if all_positive(rows) else Analysis(magnitude(baseline, tuned))
    return Evidence(baseline, tuned, direction, analysis)


def all_positive(rows: SampleTable | Sequence[SampleRow]) -> bool:
    """Whether a ratio of these values means something."""
    values = rows.columns.value if isinstance(rows, SampleTable) else (row.value for row in rows)
    return all(value > 0 for value in values)


def overall_p(evidence: Evidence, thresholds: Thresholds, *, seed: int, level: float) -> float:
    """The largest p-value of the gate's three tests: all must reject (Berger, Technometrics 24, 1982)."""
    if why_lost(evidence):
        return 1.0
    flipped, _ = sign_flip(evidence.by_quad, flips=_flips(level), seed=seed)
    welch = welch_centred(*evidence.compared).p_value
    return max(welch, flipped, paired_p(evidence.by_process, evidence.analysis.step(thresholds.min_speedup)))


def levels_by_holm(p_values: Sequence[float], level: float) -> list[float]:
    """The level that each hypothesis is tested at, by Holm's step-down procedure."""
    return holm_levels(p_values, level)


def judge_gain(
    evidence: Evidence, thresholds: Thresholds, *, level: float, seed: int, flips: int | None = None
) -> Decision:
    """PROVEN when tuned beats baseline by the rules of the gate at ``level``; REFUTED when the gain is a false pattern.

    Args:
        level: alpha after the split over looks and Holm's correction; nothing is proven at 0.
        flips: of the randomisation test, to repeat a recorded decision; None where ``level`` determines them.
    """
    decision = _measured(evidence, level)
    if reason := why_lost(evidence):
        return replace(decision, reason=reason)
    p_flip, used = sign_flip(evidence.by_quad, flips=flips or _flips(level), seed=seed)
    p_welch = welch_centred(*evidence.compared).p_value
    floor = evidence.analysis.step(thresholds.min_speedup)
    p_floor = paired_p(evidence.by_process, floor)
    decision = replace(decision, p_value=max(p_welch, p_flip, p_floor), flips=used)
    if pattern := _false_pattern(evidence, decision):
        return pattern
    failing = [
        text
        for text, failed in (
            (f"Welch's p = {p_welch:.2g} is above {level:.2g}", not p_welch <= level),
            (
                f"d = {decision.cohens_d:.2f} is below {thresholds.min_effect:g}",
                not decision.cohens_d >= thresholds.min_effect,
            ),
            (f"the randomisation test's p = {p_flip:.2g} is above {level:.2g}", not p_flip <= level),
            (
                f"the {_gain_named(evidence, thresholds.min_speedup)} (p = {p_floor:.2g}, needed {level:.2g})",
                not p_floor <= level,
            ),
        )
        if failed
    ]
    if failing:
        more = _what_would_decide(evidence, floor, level)
        return replace(decision, reason=f"{_compared(decision)}: {failing[0]}; {more}")
    return replace(
        decision,
        verdict=Verdict.PROVEN,
        reason=f"{_compared(decision)}, p = {decision.p_value:.2g}, d = {decision.cohens_d:.1f}",
    )


def judge_non_inferior(evidence: Evidence, thresholds: Thresholds, *, level: float) -> Decision:
    """PROVEN when tuned is surely no more than ``max_regression`` worse; REFUTED when it surely is."""
    decision = _measured(evidence, level)
    if reason := why_lost(evidence):
        return replace(decision, reason=reason)
    floor = evidence.analysis.step_of_share(-thresholds.max_regression)
    p_value = paired_p(evidence.by_process, floor)
    worse = paired_p(-evidence.by_process, -floor)
    decision = replace(decision, p_value=p_value)
    margin = f"{thresholds.max_regression:.1%} worse"
    if p_value <= level:
        return replace(decision, verdict=Verdict.PROVEN, reason=f"{_compared(decision)}: surely less than {margin}")
    if worse <= level:
        return replace(decision, verdict=Verdict.REFUTED, reason=f"{_compared(decision)}: surely more than {margin}")
    return replace(decision, reason=f"{_compared(decision)}: {margin} is not ruled out")


def judge_replay(
    evidence: Evidence, *, committed_speedup: float, committed_low: float, committed_high: float, last_look: bool
) -> Decision:
    """Does a committed gain still stand, by its own analysis? The floor is half of it, at least 0.5 %.

    PROVEN when the lower 95 % bound is above the floor, REFUTED when the upper 99.5 % bound is below it, and else
    INCONCLUSIVE, at the last look too. A proven gain below the committed interval has a note that it decayed.
    """
    decision = _measured(evidence, REPLAY_PROVE_TAIL)
    if reason := why_lost(evidence):
        return replace(decision, reason=reason)
    analysis = evidence.analysis
    floor = max(analysis.step(committed_speedup) / 2, analysis.step_of_share(REPLAY_FLOOR))
    low = paired_interval(evidence.by_process, REPLAY_PROVE_TAIL).low
    high = paired_interval(evidence.by_process, REPLAY_REFUTE_TAIL).high
    decision = replace(decision, p_value=paired_p(evidence.by_process, floor))
    at_least = floor_text(analysis.gain(floor), analysis.scale)
    shown = f"{_compared(decision)}; committed {gain_text(committed_speedup, analysis.scale)}, floor {at_least}"
    if low > floor:
        return replace(
            decision, verdict=Verdict.PROVEN, reason=shown, note=_drift(decision, committed_low, committed_high)
        )
    if high < floor:
        return replace(decision, verdict=Verdict.REFUTED, reason=f"the gain is gone: {shown}")
    more = _what_would_decide(evidence, floor, REPLAY_PROVE_TAIL) if last_look else "more processes follow"
    return replace(decision, reason=f"undecided: {shown}, sd between processes {decision.between_sd:.2%}; {more}")


def undecided(reason: str) -> Decision:
    """INCONCLUSIVE, with no numbers behind it."""
    return Decision(Verdict.INCONCLUSIVE, reason, 1.0, 1e-9, 1e9, 1.0, 0.0, 0.0, 0, 1.0)


def _drift(decision: Decision, committed_low: float, committed_high: float) -> str:
    if decision.speedup_high < committed_low:
        committed = limits_text(committed_low, committed_high, decision.scale)
        return f"decayed: {gain_text(decision.speedup, decision.scale)} now, {committed} committed"
    if decision.speedup_low > committed_high:
        now = gain_text(decision.speedup, decision.scale)
        return f"more than claimed: {now} now; refresh the claim with --tune-budget=0"
    return ""


def summarise(values: Floats) -> Summary:
    """The distribution of slot values, in their unit; ``values`` of any shape, NaN left out."""
    flat = values.ravel()[np.isfinite(values.ravel())]
    if flat.size == 0:
        raise StoreError("there is no sample to summarise")
    p5, p50, p95, p99 = (float(value) for value in np.percentile(flat, [5, 50, 95, 99]))
    std = float(flat.std(ddof=1)) if flat.size > 1 else 0.0
    return Summary(n=int(flat.size), mean=float(flat.mean()), std=std, p5=p5, p50=p50, p95=p95, p99=p99)


def _measured(evidence: Evidence, level: float) -> Decision:
    """An undecided decision with the numbers that every decision shows."""
    scale, gain = evidence.analysis.scale, evidence.analysis.gain
    empty = replace(undecided(""), level=level, scale=scale)
    if why_lost(evidence):
        return empty
    differences = evidence.by_process
    interval = paired_interval(differences, 0.025)
    effect = cohens_d(*evidence.compared)
    return replace(
        empty,
        speedup=gain(interval.estimate),
        speedup_low=gain(interval.low),
        speedup_high=gain(interval.high),
        cohens_d=effect.estimate,
        between_sd=float(differences.std(ddof=1)),
        means=_geometric_means(evidence) if scale is None else None,
    )


def _geometric_means(evidence: Evidence) -> tuple[float, float]:
    baseline, tuned = (float(np.exp(np.nanmean(np.log(arm)))) for arm in (evidence.baseline, evidence.tuned))
    return baseline, tuned


def why_lost(evidence: Evidence) -> str | None:
    """Why too little evidence is left to decide anything, or None when enough is."""
    if evidence.processes < 2:
        return f"{evidence.processes} process(es) gave samples, and a verdict needs 2"
    if evidence.dropped > MAX_DROPPED:
        return f"{evidence.dropped:.0%} of the quads were dropped, and at most {MAX_DROPPED:.0%} may be"
    return None


def _false_pattern(evidence: Evidence, decision: Decision) -> Decision | None:
    """The decision on a false speed-up: a lucky minimum, or a wider spread; None where there is no sign of one.

    A better minimum alone neither proves nor refutes: one in five pairs of equal arms shows it.
    """
    baseline, tuned = evidence.compared
    if np.nanmin(tuned) < np.nanmin(baseline) - 1e-12 and decision.speedup <= 1:
        verdict = Verdict.REFUTED if decision.speedup_high < 1 else Verdict.INCONCLUSIVE
        reason = f"only the minimum is better, the mean is not: {_compared(decision)}"
        return replace(decision, verdict=verdict, reason=reason)
    if evidence.analysis.scale is not None and np.nanpercentile(tuned, 95) <= np.nanpercentile(baseline, 95):
        return None  # however wide, it reaches no worse
    ratio, error = log_spread_ratio(*evidence.costs, LEAST_SPREAD)
    if ratio - 1.96 * error > math.log(MAX_SPREAD_RATIO):
        reason = f"the spread is wider: p5 to p95 is {math.exp(ratio):.2f} times the baseline's"
        return replace(decision, verdict=Verdict.REFUTED, reason=reason)
    return None


def _what_would_decide(evidence: Evidence, floor: float, level: float) -> str:
    """How much more evidence of this kind would prove what is claimed, in words."""
    if not level > 0:
        return "Holm's procedure stops at the first finalist that is not proven, and this one comes after it"
    means = evidence.by_process
    needed = processes_for(float(means.mean()), floor, float(means.std(ddof=1)), level)
    if needed is None:
        return f"no number of processes proves more than {evidence.analysis.gain(floor) - 1:.1%} from such a mean"
    return f"at this noise about {max(needed, means.size + 1)} processes would prove it"


def _flips(level: float) -> int:
    return max(4096, math.ceil(20 / level)) if level > 0 else 4096


def _gain_named(evidence: Evidence, floor: float) -> str:
    scale = evidence.analysis.scale
    if scale is None:
        return f"speed-up is not surely above {floor:g}"
    return f"gain is not surely above {floor_text(floor, scale)} ({floor - 1:.2%} of {number_text(scale)})"


def _compared(decision: Decision) -> str:
    interval = limits_text(decision.speedup_low, decision.speedup_high, decision.scale)
    return f"{gain_text(decision.speedup, decision.scale)} (95 % interval {interval})"
