"""What is worth two numbers as evidence, and no samples: a build's metrics, and scores that never vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_compileiq.artifact import Claim
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.model import ControlsFile, Direction, Objective, Thresholds, Workload
from pytest_compileiq.rules.words import change_text


@dataclass(frozen=True)
class SteadyScore:
    """A score that is one number in every sample of an arm."""

    objective: Objective
    workload: Workload
    baseline: float
    tuned: float

    def __str__(self) -> str:
        where = "" if self.workload.name == "default" else f" on {self.workload.name}"
        return f"{self.objective.metric}{where} {change_text(self.baseline, self.tuned)}"


@dataclass(frozen=True)
class Exact:
    """What the exact metrics say of a finalist: two numbers are a claim, and need no samples.

    Attributes:
        claims: against the baseline.
        losses: how much worse than its rival, as a share, for each metric; negative is better.
        changes: the values of the rival and its own, in words.
    """

    claims: tuple[Claim, ...]
    losses: Mapping[str, float]
    changes: tuple[str, ...]

    def and_also(self, other: Exact) -> Exact:
        """Both together."""
        changes = (*self.changes, *other.changes)
        return Exact((*self.claims, *other.claims), {**self.losses, **other.losses}, changes)

    def worst(self) -> float:
        """The largest loss, 0 without exact metrics."""
        return max(self.losses.values(), default=0.0)

    def gained(self) -> bool:
        """Whether some metric is better than the rival's."""
        return min(self.losses.values(), default=0.0) < 0

    def why_refused(self, thresholds: Thresholds) -> str | None:
        """Why these metrics alone prove nothing: one got worse, or none better; None where they prove a gain."""
        if self.worst() > thresholds.max_regression:
            return f"something is worse: {', '.join(self.changes)}"
        return None if self.gained() else f"no better: {', '.join(self.changes)}"


def judge_exact(benchmark: TunedBenchmark, against: ControlsFile | None, controls: ControlsFile | None) -> Exact:
    """The exact metrics of ``controls`` against the baseline, and against a rival."""
    base, other, built = map(benchmark.builds.get, (None, against, controls))
    claims: list[Claim] = []
    losses: dict[str, float] = {}
    changes: list[str] = []
    for objective in benchmark.exact_objectives:
        baseline, rival, tuned = (benchmark.value_of(objective.metric, build) for build in (base, other, built))
        losses[objective.metric] = exact_loss(objective, rival, tuned)
        changes.append(f"{objective.metric} {change_text(rival, tuned)}")
        claims += [
            Claim(
                device=benchmark.builder.architecture,
                workload=workload.name,
                objective=objective.metric,
                direction=objective.direction,
                kind="exact",
                baseline_value=baseline,
                tuned_value=tuned,
            )
            for workload in benchmark.timed_workloads
        ]
    return Exact(tuple(claims), losses, tuple(changes))


def exact_loss(objective: Objective, before: int, after: int) -> float:
    """How much worse ``after`` is, as a share of ``before``; negative when it is better."""
    return _lost(objective.direction, before, after) / max(before, 0.5)


def judge_scores(benchmark: TunedBenchmark, scores: Sequence[SteadyScore]) -> Exact:
    """The scores of a finalist that never varied; a claim of theirs holds on the device that computed them."""
    claims = []
    for score in scores:
        device = benchmark.device(score.objective.metric)
        claims.append(
            Claim(
                device=device.name,
                workload=score.workload.name,
                objective=score.objective.metric,
                direction=score.objective.direction,
                kind="exact",
                architecture=device.architecture,
                driver=device.driver,
                baseline_value=score.baseline,
                tuned_value=score.tuned,
            )
        )
    losses = {
        f"{score.objective.metric} on {score.workload.name}": score_loss(
            score.objective.direction, score.baseline, score.tuned
        )
        for score in scores
    }
    return Exact(tuple(claims), losses, tuple(map(str, scores)))


def score_loss(direction: Direction, before: float, after: float) -> float:
    """How much worse ``after`` is, as a share of the magnitude of ``before``; negative when it is better."""
    return _lost(direction, before, after) / (abs(before) or abs(after) or 1.0)


def _lost(direction: Direction, before: float, after: float) -> float:
    return after - before if direction == "minimize" else before - after
