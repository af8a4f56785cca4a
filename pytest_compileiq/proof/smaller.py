"""Which of two proven finalists is stored: one with fewer controls, or the one that it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_compileiq.artifact import Claim
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.kept_controls import Loss
from pytest_compileiq.model import ControlsFile, Objective, SampleRow, Workload
from pytest_compileiq.proof.claims import Finalist
from pytest_compileiq.proof.exact import score_loss
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


Compared = tuple[bool | None, Loss | None]  # surely within the budget, or beyond; the loss
Choose = Callable[[Sequence[Proven], Sequence[Finalist], bool], Proven | None]


def best(proven: Sequence[Proven], alive: Sequence[Finalist] = (), is_last: bool = True) -> Proven | None:
    """The best by its claims; None where none is proven."""
    return max(proven, key=lambda entry: entry.score, default=None)


@dataclass
class PreferSmaller:
    """Chooses the smaller finalist if it is proven and not inferior to the one that it was made of.

    Another finalist stands in its way only if it is surely better by more than the budget. While that is open and there
    are looks left, more samples are taken: what was proven by then stays proven.

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
    why_not: str = "it was not proven itself"
    _standing: Proven | None = field(default=None)

    def __call__(self, proven: Sequence[Proven], alive: Sequence[Finalist], is_last: bool) -> Proven | None:
        """The one to store; None to go on sampling, or where none is proven."""
        own = next((entry for entry in proven if entry.finalist.controls is self.smaller), None)
        others = best([entry for entry in proven if entry is not own])
        if self._standing is not None and self._standing.finalist not in alive:  # it failed meanwhile
            self._standing = None
        self._standing = others or self._standing
        smaller, full = (self._among(alive, controls) for controls in (self.smaller, self.full))
        if smaller is None:
            return self._standing
        if full is smaller:  # there was nothing to leave out but what changes no machine code
            return others if own is None or self._is_beaten(others, own) else own
        is_as_good = self._is_as_good(full, smaller)
        if own is not None and is_as_good and not self._is_beaten(others, own):
            return own
        if is_last or is_as_good is False or not proven:
            return self._standing or (own if is_last else None)
        return None

    def _among(self, alive: Sequence[Finalist], controls: ControlsFile) -> Finalist | None:
        return next((finalist for finalist in alive if finalist.controls is controls), None)

    def _is_as_good(self, full: Finalist | None, smaller: Finalist) -> bool | None:
        if full is None:  # it failed in the proof, and has nothing to compare with
            return True
        verdicts = self._compared(full, smaller)
        self.losses = tuple(loss for _, loss in verdicts if loss is not None)
        within = [verdict for verdict, _ in verdicts]
        if False in within:
            self.why_not = "it lost more than the budget allows"
            return False
        self.why_not = (
            "it was not proven itself" if all(within) else "more loss than the budget allows was not ruled out"
        )
        return True if all(within) else None

    def _is_beaten(self, others: Proven | None, own: Proven) -> bool:
        if others is None or others.finalist.controls is self.full:
            return False
        if beaten := any(verdict is False for verdict, _ in self._compared(others.finalist, own.finalist)):
            self.why_not = "another finalist was surely better"
        return beaten

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
