"""``pytest --tune-total``: one budget over many benchmarks. All are opened, searched in turns, and proven once each.

Each device of the run serves one benchmark at a time. Builds are made for the searches whose turn it is, and on a
device of this machine none is under way while another is measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import Budget, Settings
from pytest_compileiq.errors import LeftAlone
from pytest_compileiq.outcome import ItemReport, NightReport, NightRow, NightStanding, Verdict
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.report.progress import NightTable
from pytest_compileiq.rules.task_scheduler import longest_turn, next_course
from pytest_compileiq.spelling import quantity
from pytest_compileiq.store.store import Store
from pytest_compileiq.tuning.devices import on_devices
from pytest_compileiq.tuning.night_budget import NightBudget, NightEntry, NightTask
from pytest_compileiq.tuning.night_state import NightBook, open_night
from pytest_compileiq.tuning.run import open_run
from pytest_compileiq.workers.pool import Pool

SWITCHES = 20  # a turn is at least so many times as long as it takes a worker to enter another test: 5 % is lost


@dataclass
class Night:
    """One night."""

    settings: Settings
    store: Store
    pools: Sequence[Pool]  # one for each device
    watch: NightTable
    total: Budget  # its budget, proofs included where it is a time
    entries: Sequence[NightEntry]
    most_failures: int = 0  # failures after which it stops (pytest's ``--maxfail``); 0 for never
    endings: dict[str, ItemReport | Exception] = field(default_factory=dict)  # by node id: a report, or why none
    _tasks: list[NightTask] = field(default_factory=list)
    _turns: threading.Condition = field(default_factory=threading.Condition)
    _doing: dict[int, str] = field(default_factory=dict)
    _over: str = ""
    _stopped: str = ""
    _budget: NightBudget = field(init=False)
    _book: NightBook = field(init=False)

    def __post_init__(self) -> None:
        self._budget = NightBudget(self.total, self.settings.reduce, len(self.pools))

    def spend(self) -> NightReport:
        """Open, search and prove all entries. Ctrl-C ends the searches, and proves what is promising.

        Raises:
            StoreError: another night is spent in this project, or the state of an earlier one cannot be used.
            KeyboardInterrupt: a second Ctrl-C; the same command goes on.
        """
        budget = self._budget
        with open_night(self.settings, self.store) as self._book, ExitStack() as held:
            state = self._book.state
            budget.earlier_s, budget.earlier_evaluations = state.spent_s, state.evaluations
            budget.is_proving = state.is_proving
            if state.closed:
                closed = quantity(len(state.closed), "benchmark")
                self.watch.say(f"going on with an earlier night, which closed {closed}; --tune-fresh starts anew")
            self._tasks = budget.tasks = [
                NightTask(entry, budget.by_time, held.enter_context(ExitStack())) for entry in self.entries
            ]
            for task in self._tasks:
                task.seconds = state.seconds.get(task.entry.nodeid, 0.0)
            waiting = iter(self._tasks)
            longest = longest_turn(budget.whole * len(self.pools), len(self._tasks))
            try:
                # Every baseline is checked, and every search has its first batch, as long as there is room.
                self._on_devices(lambda: None if self._stopped else next(waiting, None), self._open)
                # Turn by turn where the weighted log-time falls fastest.
                self._on_devices(self._next_turn, lambda task, place: self._serve(task, place, longest))
                self._prove()
            except KeyboardInterrupt:
                self._interrupt()
                self._prove()
            if not self._stopped:
                self._book.end(keeps_closed=bool(self._of("not reached")))
        return self.report()

    def report_of(self, nodeid: str) -> ItemReport:
        """What became of one benchmark; raises why nothing did."""
        if isinstance(ending := self.endings[nodeid], Exception):
            raise ending
        return ending

    def close(self, _end_work: Callable[[], None]) -> None:
        """Nothing is under way once it is spent."""

    @property
    def interrupted(self) -> bool:
        return self._stopped == "interrupted"

    def report(self) -> NightReport:
        by_time, whole = self._budget.by_time, self._budget.whole
        rows = tuple(
            NightRow(
                task.entry.nodeid, task.entry.name, task.weight, task.standing, task.evaluations, task.best,
                (task.seconds if by_time else task.evaluations) / whole, task.why, task.shift,
            )
            for task in self._tasks
        )  # fmt: skip
        doing = self._over or ", ".join(doing for _, doing in sorted(self._doing.items()))
        unit: Literal["s", "evaluations"] = "s" if by_time else "evaluations"
        return NightReport(unit, whole, self._budget.spent, self._budget.reserved(), doing, rows)

    def evaluated(self, task: NightTask) -> None:
        """Note one evaluation, and show the night; raises ``KeyboardInterrupt`` on a thread that hears no Ctrl-C."""
        with self._turns:
            self._keep_spent(task)
            self._book.save_now_and_then()
            self.watch.show(self.report)
        if self.interrupted and threading.current_thread() is not threading.main_thread():
            raise KeyboardInterrupt

    def _keep_spent(self, task: NightTask) -> None:
        """Note what is spent by now, of late on ``task``; it is gone also where a kill comes next."""
        now = time.monotonic()
        task.seconds += now - task.since
        task.since = now
        self._book.spend(
            task.entry.nodeid, task.seconds, spent_s=self._budget.spent_s, evaluations=self._budget.spent_evaluations
        )

    def _on_devices(self, take: Callable[[], NightTask | None], do: Callable[[NightTask, int], None]) -> None:
        on_devices(len(self.pools), take, do, self._interrupt)

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self, task: NightTask, place: int) -> None:
        with self._served(task, place):
            self._doing[place] = f"opening {task.entry.name}"
            with self._noted(task):
                benchmark = task.entry.make()
                begun, task.weight = time.monotonic(), benchmark.spec.weight
                if self._is_closed(task, benchmark):
                    return
                has_room = self._budget.has_room(self._budget.opening_s, task)
                if not has_room and benchmark.nodeid not in self._book.state.opened:
                    self._leave(task, "the budget has no room for it: the same command goes on with it")
                    return
                self._enter(task, benchmark)
                opened = open_run(
                    benchmark, settings=self.settings, store=self.store, pool=task.pool,
                    progress=_TaskProgress(self, task), budget=Budget(),
                )  # fmt: skip
                task.run = task.held.enter_context(opened)
                task.standing = "searching"
                self._book.open(benchmark.nodeid)
                self._turn(task, 1 if self._budget.has_room(0.0, task) else 0)
                task.opening_s = time.monotonic() - begun

    def _is_closed(self, task: NightTask, benchmark: TunedBenchmark) -> bool:
        """Whether an earlier run of this night proved it: what is proven once is not proven again."""
        if closed := self._book.closed(benchmark):
            task.evaluations, task.best = closed.evaluations, closed.best
            self._end(task, closed.report, "closed by an earlier run of this night")
            return True
        if stored := self._book.stored_by_a_killed_run(benchmark):
            self._book.close(benchmark, stored, 0, 0.0)
            self._end(task, stored, "stored by an earlier run of this night, which was killed then")
            return True
        return False

    # ── searching ────────────────────────────────────────────────────────────────────────────────────────────────

    def _next_turn(self) -> NightTask | None:
        """Whose turn is next, among those whom no device serves now; None once no more turn can come."""
        with self._turns:
            while not self._stopped:
                open_ = [task for task in self._of("searching") if self._budget.has_room(task.batch_s)]
                if free := [task for task in open_ if not task.is_served]:
                    task = free[next_course([task.course() for task in free])]
                    task.is_served = True
                    return task
                if not any(task.is_served for task in self._tasks):
                    return None
                self._turns.wait()
        return None

    def _serve(self, task: NightTask, place: int, longest: float) -> None:
        """At least one batch, and on until the switch to it weighs little; a search that is over is proven at once."""
        with self._served(task, place):
            self._doing[place] = f"searching {task.entry.name}"
            with self._noted(task):
                switch_s = self._enter(task, task.benchmark)
                begun_s, begun = time.monotonic(), task.spent

                def goes_on() -> bool:
                    is_short = time.monotonic() - begun_s < SWITCHES * switch_s
                    return is_short and task.spent - begun < longest and self._budget.has_room(task.batch_s, task)

                self._turn(task, 1, goes_on)
            if task.standing == "searching" and task.run.search.is_over:
                self._close(task, place, "its engine had nothing left to try")

    @contextmanager
    def _served(self, task: NightTask, place: int) -> Iterator[None]:
        task.take_place(self.pools[place], self.pools)
        task.is_served = True
        try:
            yield
        finally:
            with self._turns:
                task.is_served = False
                self._turns.notify_all()

    def _turn(self, task: NightTask, least: int, goes_on: Callable[[], bool] = lambda: False) -> None:
        """At least so many batches, and more while ``goes_on``; what an earlier run has in the journal comes first."""
        run, made = task.run, 0

        def next_batch() -> bool:
            nonlocal made
            task.note()
            if run.search.is_catching_up:
                return True
            made += 1
            return made <= least or goes_on()

        run.advance(next_batch)
        task.note()
        if run.search.interrupted:
            self._interrupt()

    def _enter(self, task: NightTask, benchmark: TunedBenchmark) -> float:
        """Have the worker that searches enter the test; how long that took, in seconds."""
        begun = time.monotonic()
        task.pool.prepare(range(1), benchmark)
        seconds = time.monotonic() - begun
        self._budget.start_s = max(self._budget.start_s, seconds)  # the first one started the worker
        return seconds

    # ── proving ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _prove(self) -> None:
        """Prove what is still open, the greatest gain first; after a Ctrl-C what is promising, and nothing after -x."""
        state, budget = self._book.state, self._budget
        # What an earlier run was killed in the middle of is gone on with, whatever the time.
        has_end = budget.by_time and not (self._stopped or state.is_proving)
        state.is_proving |= not self._stopped
        if budget.is_over:
            why = "the budget was spent"
        elif budget.reserved():
            why = "the rest of the budget was kept for proofs"
        else:
            why = "the budget has no room for another batch"
        in_order = iter(sorted(self._of("searching"), key=lambda task: task.best * task.weight))

        def settle(task: NightTask, place: int) -> None:
            if self._stopped and not (self.interrupted and task.is_promising):
                self._leave(task, f"{self._stopped} before it was proven: the same command goes on with its search")
            elif has_end and budget.is_over:
                was_promising = "the time was over before its proof"
                over = was_promising if task.is_promising else "no gain worth a proof was seen in the time"
                self._leave(task, f"{over}: the same command goes on with its search")
            else:
                with self._served(task, place):
                    self._close(task, place, self._stopped or why)

        self._on_devices(lambda: next(in_order, None), settle)
        for task in self._of("waiting"):
            self._leave(task, f"{self._stopped} before it was opened: the same command goes on with it")
        left = len(self._of("not reached"))
        self._over = self._stopped or (f"unfinished: {left} not reached" if left else "done")
        self.watch.show(self.report)

    def _close(self, task: NightTask, place: int, why: str) -> None:
        """Prove and store it, once and for all."""
        run, benchmark = task.run, task.benchmark
        reduces = self.settings.reduce and not self.interrupted and self._budget.can_be_reduced(task)
        self._doing[place], task.standing = f"proving {task.entry.name}", "proving"
        self.watch.show(self.report)
        run.search.interrupted = False  # its journal goes with its proof
        with self._noted(task):
            self._book.begin_closing(benchmark)
            report = run.close(reduces=reduces)
            large = ("stored as it was found: there was no time to make it small",)
            hurried = large if self.settings.reduce and not reduces and report.verdict is Verdict.TUNED else ()
            report = replace(report, notes=(*report.notes, *hurried, f"its part of the night ended since {why}"))
            self._book.close(benchmark, report, task.evaluations, task.best)
            self._end(task, report, why)

    # ── how a task ends ──────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _noted(self, task: NightTask) -> Iterator[None]:
        """Work for one benchmark: its time is its own, and a failure in it ends nothing else."""
        task.since = time.monotonic()
        try:
            yield
        except LeftAlone as reason:
            self._leave(task, str(reason), "skipped")
        except Exception as error:
            task.standing, task.why = "failed", str(error)
            self.endings[task.entry.nodeid] = error
            self.watch.say(f"{task.entry.name}: failed: {error}")
            if self.most_failures and len(self._of("failed")) >= self.most_failures:
                self._stopped = f"stopped after {quantity(self.most_failures, 'failure')}"
        except KeyboardInterrupt:
            task.standing = "searching" if task.standing == "proving" else task.standing
            raise
        finally:
            if task.standing not in ("searching", "proving"):
                task.held.close()
                vars(task).pop("run", None)  # its engine may hold a process
            with self._turns:
                self._keep_spent(task)
                self._book.save()
                self.watch.show(self.report)

    def _interrupt(self) -> None:
        self._stopped = "interrupted"

    def _end(self, task: NightTask, report: ItemReport, why: str) -> None:
        task.standing, task.why = "closed", f"{report.verdict}: {why}"
        self.endings[task.entry.nodeid] = report
        self.watch.say(f"{task.entry.name}: {task.why}")

    def _leave(self, task: NightTask, why: str, standing: NightStanding = "not reached") -> None:
        task.standing, task.why = standing, why
        self.endings[task.entry.nodeid] = LeftAlone(f"{task.entry.name}: {why}")

    def _of(self, standing: NightStanding) -> list[NightTask]:
        return [task for task in self._tasks if task.standing == standing]


@dataclass(frozen=True)
class _TaskProgress:
    night: Night
    task: NightTask

    def evaluated(self, tally: SearchCounts, budget: Budget, shift: float | None) -> None:
        self.task.shift = shift
        self.night.evaluated(self.task)

    def say(self, text: str) -> None:
        self.night.watch.say(f"{self.task.entry.name}: {text}")
