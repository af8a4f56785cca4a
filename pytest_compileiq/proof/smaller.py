"""Which of two proven finalists is stored: one with fewer controls, or the one that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.claim import Claim
from pytest_compileiq.model import ControlsFile, Objective, Workload
from pytest_compileiq.proof.claims import Finalist, score_loss
from pytest_compileiq.reduction import Loss
from pytest_compileiq.rules.reduction import LEVEL, is_within, losses_beside
from pytest_compileiq.rules.stats import paired_interval


@dataclass(frozen=True)
class Proven:
    """A finalist that the gate has proven at one look, with its claims.

    Attributes:
        passed_over: why a better finalist was not proven; empty without one.
    """

    finalist: Finalist
    claims: tuple[Claim, ...]
    score: tuple[float, ...]
    look: int
    passed_over: str = ""


_UNPROVEN = "were not proven themselves"
Compared = tuple[bool | None, Loss | None]  # surely within the budget, or beyond; the loss


@dataclass
class PreferSmaller:
    """Chooses the smaller of two where it is proven, and surely loses no more than the budget against the other.

    Attributes:
        smaller: the controls that are left.
        budgets: timed metric → the largest loss.
        losses: what the smaller one lost.
        why_not: why it is not chosen.
    """

    benchmark: TunedBenchmark
    smaller: ControlsFile
    budgets: Mapping[str, float]
    losses: tuple[Loss, ...] = ()
    why_not: str = _UNPROVEN

    def is_chosen(self, full: Finalist, smaller: Finalist, *, is_proven: bool) -> bool:
        """Whether the smaller one is to be stored, by samples of both in the same processes."""
        if smaller.out:
            self.why_not = "failed in the proof"
            return False
        if full.out:  # it failed, and there is nothing to compare with
            return is_proven
        verdicts = self._compared(full, smaller)
        self.losses = tuple(loss for _, loss in verdicts if loss is not None)
        within = [verdict for verdict, _ in verdicts]
        if False in within:
            self.why_not = "lost more than the budget allows"
        elif not all(within):
            self.why_not = "may have lost more than the budget allows"
        return all(within) and is_proven

    def _compared(self, full: Finalist, smaller: Finalist) -> list[Compared]:
        return [
            self._compare(full, smaller, objective, workload)
            for objective in self.benchmark.timed_objectives
            for workload in self.benchmark.timed_workloads
        ]

    def _compare(self, full: Finalist, smaller: Finalist, objective: Objective, workload: Workload) -> Compared:
        both = [finalist.steady_values(objective, workload) for finalist in (full, smaller)]
        if both[0] is not None and both[1] is not None:
            loss = score_loss(objective.direction, both[0][1], both[1][1])
            return loss <= 0, Loss(objective=objective.metric, workload=workload.name, loss=loss, low=loss, high=loss)
        of_full, of_smaller = (finalist.of(objective.metric, workload) for finalist in (full, smaller))
        losses = losses_beside(of_full, of_smaller, objective.direction)
        if losses.size < 2:
            return None, None
        interval = paired_interval(losses, 0.025)
        within = is_within(losses, self.budgets[objective.metric], LEVEL)
        low, high = interval.low, interval.high
        return within, Loss(
            objective=objective.metric, workload=workload.name, loss=interval.estimate, low=low, high=high
        )
