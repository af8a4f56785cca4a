"""What a night may spend, what it has spent in all its runs, and whether there is room for more."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pytest_compileiq.config import BATCH, Budget, Settings
from pytest_compileiq.rules import gate
from pytest_compileiq.rules.task_scheduler import closing_s
from pytest_compileiq.search import scoring
from pytest_compileiq.search.finalists import FEWEST_ROUNDS, PLAYOFF, SHARE_OF_SEARCH
from pytest_compileiq.tuning import attribution, reduce, stress
from pytest_compileiq.tuning.finals import FINALISTS
from pytest_compileiq.tuning.night_task import NightTask
from pytest_compileiq.tuning.under_way import UnderWay

_LOOK = 1  # what is real is decided at the first look or at this one
# Calls of one block of the gate's for a quad of the search's, each slot with its discarded call.
_BLOCK = gate.QUADS * (gate.SAMPLES + 1) / (scoring.SAMPLES + 1)
_PLAYED = PLAYOFF * (1 + FEWEST_ROUNDS)  # each is checked once more, which is at most a block
_SAMPLES = 2  # of a proof


def closing_seconds(tuning: UnderWay, settings: Settings, start_s: float) -> float:
    """Seconds from the end of the search to the stored artifact; a worker starts in ``start_s``."""
    scorer, search_s = tuning.brief.scorer, tuning.search.tally.seconds
    is_timed = bool(tuning.tuning.benchmark.timed_objectives)
    processes = gate.looks_of(tuning.tuning.pool.devices)[_LOOK]
    proofs = processes * (FINALISTS + 1 + settings.reduce) * _BLOCK  # in the second sample, full and reduced
    stressed = FINALISTS * stress.SHARE if tuning.baseline.drew else 0.0
    reduced = reduce.SHARE_OF_SEARCH + attribution.SHARE_OF_SEARCH if settings.reduce else 0.0
    waited_s = (0.0 if settings.reduce else gate.CONFIRM_AFTER_S) + _SAMPLES * processes * gate.PROCESS_EVERY_S
    more_s = SHARE_OF_SEARCH * search_s + waited_s if is_timed else 0.0  # more rounds of the play-off
    return more_s + closing_s(
        blocks=(_PLAYED + proofs) * len(tuning.tuning.benchmark.timed_workloads) if is_timed else 0.0,
        block_s=scorer.quads_s / max(scorer.quads, 1),
        starts=_SAMPLES * math.ceil(processes / settings.jobs) if is_timed else 0.0,
        start_s=start_s,
        share=reduced + stressed,
        search_s=search_s,
        least_s=reduce.FLOOR_S + reduce.IDLE_S + attribution.FLOOR_S if settings.reduce else 0.0,
    )


MOST_RESERVED = 0.5  # of the whole: a night that is too short for its benchmarks still searches


@dataclass
class NightBudget:
    """The budget of one night: a time, proofs included, or evaluations of its searches.

    Attributes:
        devices: that serve a benchmark each at the same time.
        tasks: the night's benchmarks.
        earlier_s, earlier_evaluations: that earlier runs of the night have spent.
        start_s: that a worker takes to start.
        is_proving: nothing more is searched: the rest of the budget was kept for proofs.
    """

    total: Budget
    settings: Settings
    devices: int
    tasks: Sequence[NightTask] = ()
    earlier_s: float = 0.0
    earlier_evaluations: int = 0
    start_s: float = 0.0
    is_proving: bool = False
    _started: float = field(default_factory=time.monotonic)

    @property
    def by_time(self) -> bool:
        """Whether it is a time."""
        return self.total.evaluations is None

    @property
    def whole(self) -> float:
        """All of it, in seconds or evaluations."""
        return float(self.total.seconds or self.total.evaluations or 0.0)

    @property
    def spent_s(self) -> float:
        """Wall time since the night began, in all its runs."""
        return self.earlier_s + time.monotonic() - self._started

    @property
    def spent_evaluations(self) -> int:
        """Evaluations of all its runs."""
        return max(self.earlier_evaluations, sum(task.evaluations for task in self.tasks))

    @property
    def spent(self) -> float:
        """What is gone, in its own unit."""
        return self.spent_s if self.by_time else float(self.spent_evaluations)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.whole

    def has_room(self, next_s: float, task: NightTask | None = None) -> bool:
        """Whether one more batch fits in, with the proofs to come.

        Args:
            next_s: that it is estimated to take of a time.
            task: whose batch it is; all others that have a turn now make one more too.
        """
        if self.is_proving:
            return False
        if not self.by_time:
            beside = sum(other.is_served for other in self.tasks if other is not task)
            return self.spent + BATCH * (1 + beside) <= self.whole
        return self.spent + next_s + self.reserved() < self.whole

    @property
    def opening_s(self) -> float:
        """Seconds that it takes to open one more benchmark: the mean of those that are open."""
        opened = [task for task in self.tasks if task.standing == "searching"]
        return sum(task.opening_s for task in opened) / max(len(opened), 1)

    def reserved(self) -> float:
        """Seconds that the proofs to come are estimated to need; a budget of evaluations is for searches alone."""
        if not self.by_time:
            return 0.0
        return min(self._needed(self._promising, self.settings) / self.devices, MOST_RESERVED * self.whole)

    def can_be_made_small(self, task: NightTask) -> bool:
        """Whether there is time for it, with the proofs alone of all others: they come before small winners."""
        others = self._needed([other for other in self._promising if other is not task], proofs_alone(self.settings))
        left = math.inf if self.total.seconds is None else self.total.seconds - self.spent_s
        return self._needed([task], self.settings) + others / self.devices <= left

    def _needed(self, tasks: Iterable[NightTask], settings: Settings) -> float:
        """Seconds that it is estimated to take to prove ``tasks``."""
        return sum(closing_seconds(task.tuning, settings, self.start_s) for task in tasks)

    @property
    def _promising(self) -> list[NightTask]:
        return [task for task in self.tasks if task.standing == "searching" and task.is_promising]


def proofs_alone(settings: Settings) -> Settings:
    """The settings of a proof that nothing is made small for."""
    return replace(settings, reduce=False)
