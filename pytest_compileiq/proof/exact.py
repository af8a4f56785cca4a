"""What the exact metrics of a build are worth as evidence: two integers, no samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_compileiq.artifact import Claim
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.model import ControlsFile, Objective


@dataclass(frozen=True)
class Exact:
    """What the exact metrics say of a finalist: two integers are a claim, on every workload, and need no samples.

    Attributes:
        claims: against the baseline.
        losses: how much worse than its rival, as a share, for each metric; negative is better.
    """

    claims: tuple[Claim, ...]
    losses: Mapping[str, float]

    def worst(self) -> float:
        """The largest loss, 0 without exact metrics."""
        return max(self.losses.values(), default=0.0)

    def gained(self) -> bool:
        """Whether some metric is better than the rival's."""
        return min(self.losses.values(), default=0.0) < 0


def judge_exact(benchmark: TunedBenchmark, against: ControlsFile | None, controls: ControlsFile | None) -> Exact:
    """The exact metrics of ``controls`` against the baseline, and against a rival."""
    base, other, built = map(benchmark.builds.get, (None, against, controls))
    claims: list[Claim] = []
    losses: dict[str, float] = {}
    for objective in benchmark.exact_objectives:
        baseline, rival, tuned = (benchmark.value_of(objective.metric, build) for build in (base, other, built))
        losses[objective.metric] = exact_loss(objective, rival, tuned)
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
    return Exact(tuple(claims), losses)


def exact_loss(objective: Objective, before: int, after: int) -> float:
    """How much worse ``after`` is, as a share of ``before``; negative when it is better."""
    worse = after - before if objective.direction == "minimize" else before - after
    return worse / max(before, 0.5)
