"""Which of two proven finalists is stored: one with fewer controls, or the one that it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_compileiq.artifact import Claim
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.kept_controls import Loss
from pytest_compileiq.model import ControlsFile, Objective, SampleRow, Workload
from pytest_compileiq.proof.claims import Finalist
from pytest_compileiq.proof.exact import score_loss
from pytest_compileiq.rules.gate import LOOKS
from pytest_compileiq.rules.reduction import LEVEL, is_within, losses_beside
from pytest_compileiq.rules.stats import paired_interval


@dataclass(frozen=True)
class Proven:
    """A finalist that the gate has proven at one look, with its claims, and its samples up to then."""

    finalist: Finalist
    claims: tuple[Claim, ...]
    rows: tuple[SampleRow, ...]
    score: tuple[float, ...]
    look: int


_UNPROVEN = "were not proven themselves"
Compared = tuple[bool | None, Loss | None]  # surely within the budget, or beyond; the loss
Choose = Callable[[Sequence[Proven], Sequence[Finalist], bool], Proven | None]


def best(proven: Sequence[Proven], alive: Sequence[Finalist] = (), is_last: bool = True) -> Proven | None:
    """The best by its claims; None where none is proven."""
    return max(proven, key=lambda entry: entry.score, default=None)


@dataclass
class PreferSmaller:
    """Chooses the smaller of two if it is proven, and surely loses no more than the budget against the other.

    While that is open and there are looks left, more samples are taken.

    Attributes:
        full, smaller: the two.
        budgets: timed metric → the largest loss.
        losses: what the smaller one lost by the samples so far.
        why_not: why it is not chosen.
    """

    benchmark: TunedBenchmark
    full: ControlsFile
    smaller: ControlsFile
    budgets: Mapping[str, float]
    losses: tuple[Loss, ...] = ()
    why_not: str = _UNPROVEN

    def __call__(self, proven: Sequence[Proven], alive: Sequence[Finalist], is_last: bool) -> Proven | None:
        """The one to store; None to go on sampling, or where none is proven."""
        full, smaller = (_among(alive, controls) for controls in (self.full, self.smaller))
        is_as_good = self._is_as_good(full, smaller)
        claimed = {id(entry.finalist): entry for entry in proven}
        if is_as_good and id(smaller) in claimed:
            return claimed[id(smaller)]
        return claimed.get(id(full)) if is_last or is_as_good is False else None

    def _is_as_good(self, full: Finalist | None, smaller: Finalist | None) -> bool | None:
        if smaller is None:
            self.why_not = "failed in the proof"
            return False
        if full is None:  # it failed, and there is nothing to compare with
            return True
        verdicts = self._compared(full, smaller)
        self.losses = tuple(loss for _, loss in verdicts if loss is not None)
        within = [verdict for verdict, _ in verdicts]
        if False in within:
            self.why_not = "lost more than the budget allows"
            return False
        self.why_not = _UNPROVEN if all(within) else "may have lost more than the budget allows"
        return True if all(within) else None

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
        within = is_within(losses, self.budgets[objective.metric], LEVEL / len(LOOKS))
        low, high = interval.low, interval.high
        return within, Loss(
            objective=objective.metric, workload=workload.name, loss=interval.estimate, low=low, high=high
        )


def _among(finalists: Sequence[Finalist], controls: ControlsFile) -> Finalist | None:
    return next((finalist for finalist in finalists if finalist.controls is controls), None)
