"""The benchmarks of a night, and the budget that they share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import BATCH, Budget
from pytest_compileiq.engines.base import Foreseeing, Outlook
from pytest_compileiq.outcome import NightStanding
from pytest_compileiq.rules import gate
from pytest_compileiq.rules.task_scheduler import Course, Foreseen, closing_s
from pytest_compileiq.search import scoring
from pytest_compileiq.search.finalists import FEWEST_ROUNDS, PLAYOFF, SHARE_OF_SEARCH
from pytest_compileiq.tuning import attribution, reduction, stress
from pytest_compileiq.tuning.run import TuningRun
from pytest_compileiq.tuning.winner import FINALISTS
from pytest_compileiq.workers.pool import Pool


@dataclass(frozen=True)
class NightEntry:
    """A benchmark before it is opened: ``make`` finds its compiler, or raises what keeps it out."""

    nodeid: str
    name: str
    make: Callable[[], TunedBenchmark]


@dataclass(eq=False)
class NightTask:
    """One benchmark of the night: Ansor's word."""

    entry: NightEntry
    by_time: bool  # its spending is counted in seconds, else in evaluations
    held: ExitStack  # its journal's lock, while it is open
    standing: NightStanding = "waiting"
    is_served: bool = False
    since: float = 0.0  # when ``seconds`` were counted last: wall time in all runs of the night
    weight: float = 1.0
    run: TuningRun = field(init=False, repr=False)  # while it is open
    seconds: float = 0.0
    opening_s: float = 0.0
    evaluations: int = 0
    best: float = 0.0
    why: str = ""
    curve: list[tuple[float, float]] = field(default_factory=list)  # as ``Course`` has it
    foreseen: tuple[float, float] = (0.0, 0.0)  # the falls that its engine foresaw so far, and that came
    outlook: Outlook | None = None
    shift: float | None = None
    pool: Pool = field(init=False, repr=False)  # once a device served it

    def take_place(self, pool: Pool, pools: Sequence[Pool]) -> None:
        """Work on the device of ``pool``, one of ``pools``, from now on: its searches keep what they measure with."""
        if len(pools) == 1:
            self.pool = pool
        elif "pool" in vars(self):
            self.pool.move_to(pool)
        else:
            self.pool = copy(pool)

    @property
    def benchmark(self) -> TunedBenchmark:
        return self.run.tuning.benchmark

    @property
    def is_promising(self) -> bool:
        """Whether its search saw a gain that the gate may let pass."""
        return -self.best >= math.log(self.benchmark.spec.thresholds.min_speedup)

    @property
    def spent(self) -> float:
        tally = self.run.search.tally
        return tally.seconds if self.by_time else float(tally.evaluations)

    @property
    def batch_s(self) -> float:
        """Seconds that one of its batches took, on the mean; 0 before the first."""
        tally = self.run.search.tally
        return BATCH * tally.seconds / tally.evaluations if tally.evaluations else 0.0

    def note(self) -> None:
        """Keep how far the search has come, and hold what its engine foresaw to what came."""
        tally, engine = self.run.search.tally, self.run.search.engine
        if tally.evaluations > self.evaluations and self.outlook is not None:
            before, came = self.foreseen
            before += self.outlook.improvement * (tally.evaluations - self.evaluations)
            self.foreseen = before, came + self.best - tally.best
        self.evaluations, self.best = tally.evaluations, tally.best
        self.outlook = engine.outlook() if isinstance(engine, Foreseeing) else None
        if self.spent > (self.curve[-1][0] if self.curve else 0.0):
            self.curve.append((self.spent, tally.best))

    def course(self) -> Course:
        if self.outlook is None:
            return Course(self.weight, self.curve)
        per_unit = self.evaluations / max(self.spent, 1e-9)
        return Course(self.weight, self.curve, Foreseen(self.outlook.improvement * per_unit, *self.foreseen))


_LOOK = 1  # what is real is decided at the first look or at this one
# Calls of one block of the gate's for a quad of the search's, each slot with its discarded call.
_BLOCK = gate.QUADS * (gate.SAMPLES + 1) / (scoring.SAMPLES + 1)
_PLAYED = PLAYOFF * (1 + FEWEST_ROUNDS)  # each is checked once more, which is at most a block
_SAMPLES = 2  # of a proof


def closing_seconds(run: TuningRun, start_s: float, reduces: bool) -> float:
    """Seconds from the end of the search to the stored artifact; a worker starts in ``start_s``."""
    tuning, scorer, search_s = run.tuning, run.brief.scorer, run.search.tally.seconds
    is_timed = bool(tuning.benchmark.timed_objectives)
    processes = gate.looks_of(tuning.pool.devices)[_LOOK]
    proofs = processes * (FINALISTS + 1 + reduces) * _BLOCK  # in the second sample, full and reduced
    stressed = FINALISTS * stress.SHARE if tuning.baseline.drew else 0.0
    reduced = reduction.SHARE_OF_SEARCH + attribution.SHARE_OF_SEARCH if reduces else 0.0
    waited_s = (0.0 if reduces else gate.CONFIRM_AFTER_S) + _SAMPLES * processes * gate.PROCESS_EVERY_S
    more_s = SHARE_OF_SEARCH * search_s + waited_s if is_timed else 0.0  # more rounds of the play-off
    return more_s + closing_s(
        blocks=(_PLAYED + proofs) * len(tuning.benchmark.timed_workloads) if is_timed else 0.0,
        block_s=scorer.quads_s / max(scorer.quads, 1),
        starts=_SAMPLES * math.ceil(processes / tuning.settings.jobs) if is_timed else 0.0,
        start_s=start_s,
        share=reduced + stressed,
        search_s=search_s,
        least_s=reduction.FLOOR_S + reduction.IDLE_S + attribution.FLOOR_S if reduces else 0.0,
    )


MOST_RESERVED = 0.5  # of the whole: a night that is too short for its benchmarks still searches


@dataclass
class NightBudget:
    """The budget of one night: a time, proofs included, or evaluations of its searches."""

    total: Budget
    reduces: bool
    devices: int
    tasks: Sequence[NightTask] = ()
    earlier_s: float = 0.0  # spent by earlier runs of the night
    earlier_evaluations: int = 0
    start_s: float = 0.0  # that a worker takes to start
    is_proving: bool = False  # nothing more is searched: the rest of the budget was kept for proofs
    _started: float = field(default_factory=time.monotonic)

    @property
    def by_time(self) -> bool:
        return self.total.evaluations is None

    @property
    def whole(self) -> float:
        return float(self.total.seconds or self.total.evaluations or 0.0)

    @property
    def spent_s(self) -> float:
        return self.earlier_s + time.monotonic() - self._started

    @property
    def spent_evaluations(self) -> int:
        return max(self.earlier_evaluations, sum(task.evaluations for task in self.tasks))

    @property
    def spent(self) -> float:
        return self.spent_s if self.by_time else float(self.spent_evaluations)

    @property
    def is_over(self) -> bool:
        return self.spent >= self.whole

    def has_room(self, next_s: float, task: NightTask | None = None) -> bool:
        """Whether ``next_s``, or a batch of ``task`` and of all others that have a turn, fit in with the proofs."""
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
        return min(self._needed(self._promising, self.reduces) / self.devices, MOST_RESERVED * self.whole)

    def can_be_reduced(self, task: NightTask) -> bool:
        """Whether there is time for it, with the proofs alone of all others: they come before small winners."""
        others = self._needed([other for other in self._promising if other is not task], reduces=False)
        left = math.inf if self.total.seconds is None else self.total.seconds - self.spent_s
        return self._needed([task], reduces=True) + others / self.devices <= left

    def _needed(self, tasks: Iterable[NightTask], reduces: bool) -> float:
        return sum(closing_seconds(task.run, self.start_s, reduces) for task in tasks)

    @property
    def _promising(self) -> list[NightTask]:
        return [task for task in self.tasks if task.standing == "searching" and task.is_promising]
