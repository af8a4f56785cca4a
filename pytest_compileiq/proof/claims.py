"""From a judged finalist to the claims that are stored, and to the score that chooses among several."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.claim import ChecksTable, Claim, DecisionRecord, Stress
from pytest_compileiq.model import ControlsFile, Direction, Objective, Thresholds, Workload
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.reduction import Loss
from pytest_compileiq.rules.claims import stored_conditions
from pytest_compileiq.rules.comparison import Analysis, steady_values
from pytest_compileiq.rules.evidence import Evidence, summarise
from pytest_compileiq.rules.gate import LOOKS, Decision, judge_non_inferior, lost_among
from pytest_compileiq.rules.words import change_text
from pytest_compileiq.samples import ChecksMade, Conditions, SampleRow
from pytest_compileiq.timing.conditions import run_environment
from pytest_compileiq.workers.pool import MeasuredBlock

SteadyScore = tuple[Objective, Workload, float, float]  # one number in every sample of an arm: baseline, tuned


@dataclass(frozen=True)
class Exact:
    """The exact metrics of a finalist: two numbers are a claim, and need no samples."""

    claims: tuple[Claim, ...]  # against the baseline
    losses: Mapping[str, float]  # how much worse than its rival, as a share, for each metric; negative is better
    changes: tuple[str, ...]  # the values of the rival and its own, in words

    @property
    def worst(self) -> float:
        return max(self.losses.values(), default=0.0)

    @property
    def has_gained(self) -> bool:
        return min(self.losses.values(), default=0.0) < 0

    def why_refused(self, thresholds: Thresholds) -> str | None:
        """Why these metrics alone prove nothing: one got worse, or none better; None where they prove a gain."""
        if self.worst > thresholds.max_regression:
            return f"something is worse: {', '.join(self.changes)}"
        return None if self.has_gained else f"no better: {', '.join(self.changes)}"


def judge_exact(
    benchmark: TunedBenchmark,
    against: ControlsFile | None,
    controls: ControlsFile | None,
    steady: Sequence[SteadyScore] = (),
) -> Exact:
    """The exact metrics of ``controls`` against the baseline, and against a rival; with scores that never varied.

    A claim of a score holds on the device that computed it.
    """
    base, other, built = map(benchmark.builds.get, (None, against, controls))
    claims: list[Claim] = []
    losses: dict[str, float] = {}
    changes: list[str] = []

    def claim(objective: Objective, workload: Workload, baseline: float, tuned: float, **device: Any) -> None:
        claims.append(
            Claim(
                workload=workload.name,
                objective=objective.metric,
                direction=objective.direction,
                kind="exact",
                baseline_value=baseline,
                tuned_value=tuned,
                **device,
            )
        )

    for objective in benchmark.exact_objectives:
        baseline, rival, tuned = (benchmark.value_of(objective.metric, build) for build in (base, other, built))
        losses[objective.metric] = exact_loss(objective, rival, tuned)
        changes.append(f"{objective.metric} {change_text(rival, tuned)}")
        for workload in benchmark.timed_workloads:
            claim(objective, workload, baseline, tuned, device=benchmark.builder.architecture)
    for objective, workload, before, after in steady:
        device = benchmark.device(objective.metric)
        claim(
            objective, workload, before, after, device=device.name, architecture=device.architecture,
            driver=device.driver, environment=run_environment(),
        )  # fmt: skip
        losses[f"{objective.metric} on {workload.name}"] = score_loss(objective.direction, before, after)
        where = "" if workload.name == "default" else f" on {workload.name}"
        changes.append(f"{objective.metric}{where} {change_text(before, after)}")
    return Exact(tuple(claims), losses, tuple(changes))


def exact_loss(objective: Objective, before: int, after: int) -> float:
    """How much worse ``after`` is, as a share of ``before``; negative when it is better."""
    return _lost(objective.direction, before, after) / max(before, 0.5)


def score_loss(direction: Direction, before: float, after: float) -> float:
    """How much worse ``after`` is, as a share of the magnitude of ``before``; negative when it is better."""
    return _lost(direction, before, after) / (abs(before) or abs(after) or 1.0)


def _lost(direction: Direction, before: float, after: float) -> float:
    return after - before if direction == "minimize" else before - after


@dataclass
class Finalist:
    """One set of controls under proof; ``left_out``: workload, objective and device whose rows do not count."""

    controls: ControlsFile | None
    rows: list[SampleRow] = field(default_factory=list)
    conditions: dict[tuple[str, str], list[Conditions]] = field(default_factory=dict)
    checks: dict[tuple[str, str], ChecksMade] = field(default_factory=dict)
    out: str | None = None
    left_out: frozenset[tuple[str, str, str]] = frozenset()

    def take(self, workload: Workload, block: MeasuredBlock) -> None:
        self.rows += block.rows
        for metric, conditions in block.conditions.items():
            self.conditions.setdefault((metric, workload.name), []).append(conditions)
        for metric, made in block.checks.items():
            key = metric, workload.name
            self.checks[key] = made.and_also(self.checks[key]) if key in self.checks else made

    def leave_out_lost(self) -> None:
        """Leave out devices that were lost before they gave enough processes, where enough are left without them."""
        processes: dict[tuple[str, str], Counter[str]] = {}
        for workload, objective, unit, _ in {(row.workload, row.objective, row.unit, row.process) for row in self.rows}:
            processes.setdefault((workload, objective), Counter())[unit] += 1
        self.left_out = frozenset((*key, unit) for key, by_unit in processes.items() for unit in lost_among(by_unit))

    @property
    def counted(self) -> list[SampleRow]:
        if not self.left_out:
            return self.rows
        return [row for row in self.rows if (row.workload, row.objective, row.unit) not in self.left_out]

    def of(self, metric: str, workload: Workload) -> list[SampleRow]:
        return [row for row in self.counted if (row.objective, row.workload) == (metric, workload.name)]

    def steady(self, benchmark: TunedBenchmark) -> list[SteadyScore]:
        """Its scores that never varied so far: in every sample one number for each arm."""
        return [
            (objective, workload, *values)
            for objective in benchmark.timed_objectives
            for workload in benchmark.timed_workloads
            if (values := self.steady_values(objective, workload)) is not None
        ]

    def is_steady(self, benchmark: TunedBenchmark) -> bool:
        """Whether all that is sampled are scores that never varied so far."""
        return len(self.steady(benchmark)) == len(benchmark.timed_objectives) * len(benchmark.timed_workloads)

    def steady_values(self, objective: Objective, workload: Workload) -> tuple[float, float] | None:
        """The one number of each arm; None where there are more, or where it is a time."""
        return steady_values(self.of(objective.metric, workload)) if objective.is_score else None


@dataclass(frozen=True)
class Proof:
    """Controls that the gate has proven."""

    controls: ControlsFile | None  # None where a calibration let the baseline stand against itself
    claims: tuple[Claim, ...]  # with ``samples`` still to be named by the store
    rows: tuple[SampleRow, ...]
    reason: str  # in words that are as true on another day: it is stored
    advice: tuple[str, ...] = ()  # disturbances; never stored, as the next
    passed_over: str = ""  # why a better finalist was not proven
    finalist: Finalist | None = None  # None where all was compared exactly
    look: int = 0
    losses: tuple[Loss, ...] = ()  # of smaller controls that were sampled beside
    why_larger: str = ""  # why these are not proven in its place
    ended: float = 0.0  # when the sample ended, by the pool's timer

    @property
    def winner(self) -> ControlsFile:
        """The controls of a proof that is no calibration's."""
        if self.controls is None:
            raise ValueError("the baseline, proven against itself, is no winner")
        return self.controls

    def with_stress(self, record: Stress | None) -> Proof:
        return replace(self, claims=tuple(claim.model_copy(update={"stress": record}) for claim in self.claims))


@dataclass(frozen=True)
class NoWinner:
    """Nothing was proven."""

    reason: str  # in words that are as true on another day: it is stored
    advice: tuple[str, ...] = ()  # what the best finalist lacked and what disturbed the samples; never stored
    lost: bool = False  # too much evidence was dropped to judge a finalist, so that nothing may be written

    @property
    def told(self) -> str:
        return "; ".join((self.reason, *self.advice))


@dataclass(frozen=True)
class Judged:
    """One finalist on one objective and workload, with its evidence."""

    finalist: Finalist
    objective: Objective
    workload: Workload
    evidence: Evidence


@dataclass(frozen=True)
class Look:
    """Which look it was, by which seed, at how many finalists."""

    number: int
    seed: int
    finalists: int


def claims_of(
    benchmark: TunedBenchmark, judged: Sequence[tuple[Judged, Decision]], exact: Exact, look: Look
) -> tuple[Claim, ...] | None:
    """The finalist's claims when one gain is proven and nothing else got worse, else None."""
    thresholds = benchmark.spec.thresholds
    if exact.worst > thresholds.max_regression:
        return None
    if not any(gain.verdict is Verdict.PROVEN for _, gain in judged) and not exact.has_gained:
        return None
    claims = []
    for entry, gain in judged:
        if gain.verdict is Verdict.PROVEN:
            claims.append(claim_of(benchmark, entry, gain, "gain", look))
            continue
        # Any of the finalists may pass by chance; of its own claims all have to, which needs no correction.
        level = thresholds.alpha / len(LOOKS) / look.finalists
        decision = judge_non_inferior(entry.evidence, thresholds, level=level)
        if decision.verdict is not Verdict.PROVEN:
            return None
        claims.append(claim_of(benchmark, entry, decision, "non-inferior", look))
    metrics = [objective.metric for objective in benchmark.objectives]
    return tuple(sorted((*claims, *exact.claims), key=lambda claim: metrics.index(claim.objective)))


_DECIDED = ("speedup", "speedup_low", "speedup_high", "p_value", "cohens_d", "fleet", "devices")


def claim_of(
    benchmark: TunedBenchmark, judged: Judged, decision: Decision, kind: Literal["gain", "non-inferior"], look: Look
) -> Claim:
    """The claim of one ``decision``, as it is stored."""
    objective, evidence = judged.objective, judged.evidence
    device = benchmark.device(objective.metric)
    baseline, tuned = summarise(evidence.baseline.ravel()), summarise(evidence.tuned.ravel())
    taken = judged.finalist.conditions.get((objective.metric, judged.workload.name))
    checks = judged.finalist.checks.get((objective.metric, judged.workload.name))
    rows = judged.finalist.of(objective.metric, judged.workload)
    return Claim(
        device=device.name,
        workload=judged.workload.name,
        objective=objective.metric,
        direction=objective.direction,
        kind=kind,
        architecture=device.architecture,
        driver=device.driver,
        environment=run_environment(),
        power_limit_w=device.power_limit_w,
        scale=evidence.analysis.scale,
        **{name: getattr(decision, name) for name in _DECIDED},
        test=DecisionRecord(
            **asdict(benchmark.spec.thresholds),
            level=decision.level,
            look=look.number,
            processes=evidence.processes,
            flips=decision.flips,
            seed=look.seed,
            finalists=look.finalists,
        ),
        conditions=stored_conditions(taken, rows, min(baseline.p50, tuned.p50)) if taken else None,
        checks=ChecksTable.of(checks) if checks else None,
        samples="unnamed.csv",
        baseline=baseline,
        tuned=tuned,
    )


def score_of(benchmark: TunedBenchmark, claims: Sequence[Claim]) -> tuple[float, ...]:
    """For each objective, the most important first, the weighted mean over workloads of its log gain.

    A measured gain counts by its lower bound. Where values may be zero or negative, the difference as a share of the
    baseline's magnitude stands for the log gain, which it equals to first order.
    """
    weights = {workload.name: workload.weight for workload in benchmark.timed_workloads}
    return tuple(
        sum(weights[claim.workload] * _log_gain(claim) for claim in claims if claim.objective == objective.metric)
        / sum(weights.values())
        for objective in benchmark.objectives
    )


def _log_gain(claim: Claim) -> float:
    if claim.kind != "exact":
        low = claim.speedup_low or 0.0
        return Analysis(claim.scale).step(low) if claim.scale else math.log(max(low, 1e-9))
    before, after = claim.baseline_value or 0, claim.tuned_value or 0
    if not claim.of_the_build and min(before, after) <= 0:
        return -score_loss(claim.direction or "minimize", before, after)
    if claim.of_the_build:
        before, after = max(before, 0.5), max(after, 0.5)
    return math.log(before / after) if claim.direction == "minimize" else math.log(after / before)
