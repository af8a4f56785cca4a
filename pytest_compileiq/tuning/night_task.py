"""One benchmark of a night: how far its search has come, and what its engine foresees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import BATCH
from pytest_compileiq.engines.base import Foreseeing, Outlook
from pytest_compileiq.errors import Signal
from pytest_compileiq.outcome import NightStanding
from pytest_compileiq.rules.task_scheduler import Course, Foreseen
from pytest_compileiq.tuning.under_way import UnderWay
from pytest_compileiq.workers.pool import Pool


class LeftAlone(Signal):
    """A benchmark takes no part in the night, or the night ended before it was proven; the message says why."""


@dataclass(frozen=True)
class Entry:
    """A benchmark before it is opened: ``make`` finds its compiler, or raises what keeps it out."""

    nodeid: str
    name: str
    make: Callable[[], TunedBenchmark]


@dataclass
class NightTask:
    """One benchmark of the night: Ansor's word.

    Attributes:
        by_time: its spending is counted in seconds, else in evaluations.
        held: its journal's lock, while it is open.
        is_served: a device has its turn.
        since: when ``seconds`` were counted last.
        seconds: wall time that the night has spent on it, in all its runs.
        opening_s: that opening it took in this run.
        curve: as ``Course`` has it.
        shift: as ``NightRow`` has it.
        foreseen: the falls that its engine foresaw so far, and that came.
    """

    entry: Entry
    by_time: bool
    held: ExitStack
    standing: NightStanding = "waiting"
    is_served: bool = False
    since: float = 0.0
    weight: float = 1.0
    under_way: UnderWay | None = None
    seconds: float = 0.0
    opening_s: float = 0.0
    evaluations: int = 0
    best: float = 0.0
    why: str = ""
    curve: list[tuple[float, float]] = field(default_factory=list)
    foreseen: tuple[float, float] = (0.0, 0.0)
    outlook: Outlook | None = None
    shift: float | None = None
    _pool: Pool | None = None

    @property
    def pool(self) -> Pool:
        """What it measures with, once it has a place."""
        assert self._pool is not None
        return self._pool

    def take_place(self, pool: Pool, pools: Sequence[Pool]) -> None:
        """Work on the device of ``pool``, one of ``pools``, from now on: its searches keep what they measure with."""
        if len(pools) == 1:
            self._pool = pool
        elif self._pool is None:
            self._pool = copy(pool)
        else:
            self._pool.crew = pool.crew

    @property
    def tuning(self) -> UnderWay:
        """Its search, of a task that is open."""
        assert self.under_way is not None
        return self.under_way

    @property
    def benchmark(self) -> TunedBenchmark:
        """Its benchmark, of a task that is open."""
        return self.tuning.tuning.benchmark

    @property
    def is_promising(self) -> bool:
        """Whether its search saw a gain that the gate may let pass."""
        return -self.best >= math.log(self.benchmark.spec.thresholds.min_speedup)

    @property
    def spent(self) -> float:
        """What its search has spent, in the budget's unit."""
        tally = self.tuning.search.tally
        return tally.seconds if self.by_time else float(tally.evaluations)

    @property
    def batch_s(self) -> float:
        """Seconds that one of its batches took, on the mean; 0 before the first."""
        tally = self.tuning.search.tally
        return BATCH * tally.seconds / tally.evaluations if tally.evaluations else 0.0

    def note(self) -> None:
        """Keep how far the search has come, and hold what its engine foresaw to what came."""
        tally, engine = self.tuning.search.tally, self.tuning.search.engine
        if tally.evaluations > self.evaluations and self.outlook is not None:
            before, came = self.foreseen
            before += self.outlook.improvement * (tally.evaluations - self.evaluations)
            self.foreseen = before, came + self.best - tally.best
        self.evaluations, self.best = tally.evaluations, tally.best
        self.outlook = engine.outlook() if isinstance(engine, Foreseeing) else None
        if self.spent > (self.curve[-1][0] if self.curve else 0.0):
            self.curve.append((self.spent, tally.best))

    def course(self) -> Course:
        """What the scheduler knows of it."""
        if self.outlook is None:
            return Course(self.weight, self.curve)
        per_unit = self.evaluations / max(self.spent, 1e-9)
        return Course(self.weight, self.curve, Foreseen(self.outlook.improvement * per_unit, *self.foreseen))
