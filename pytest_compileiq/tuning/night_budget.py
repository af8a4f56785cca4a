"""What a night may spend, what it has spent in all its runs, and whether there is room for more."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pytest_compileiq.config import BATCH, Budget, Settings
from pytest_compileiq.tuning.night_task import NightTask
from pytest_compileiq.tuning.reserve import closing_seconds

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
