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
from typing import Literal, Protocol

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import Budget, Settings
from pytest_compileiq.outcome import ItemReport, NightReport, NightRow, NightStanding, Verdict
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.rules.task_scheduler import longest_turn, next_course
from pytest_compileiq.spelling import quantity
from pytest_compileiq.store.store import Store
from pytest_compileiq.tuning.devices import on_devices
from pytest_compileiq.tuning.night_budget import LeftAlone, NightBudget, NightEntry, NightTask
from pytest_compileiq.tuning.night_state import NightBook, open_night
from pytest_compileiq.tuning.run import open_run
from pytest_compileiq.workers.pool import Pool

SWITCHES = 20  # a turn is at least so many times as long as it takes a worker to enter another test: 5 % is lost


class NightProgress(Protocol):
    """Who watches a night."""

    def show(self, night: Callable[[], NightReport]) -> None:
        """Called after every evaluation and change; ``night`` is asked for only when something is shown."""
        ...

    def say(self, text: str) -> None:
        """One line of what happens now."""
        ...


@dataclass
class Night:
    """One night.

    Attributes:
        pools: one for each device.
        total: what it may spend, proofs included where it is a time.
        most_failures: it stops when so many benchmarks have failed (pytest's ``--maxfail``); 0 for never.
        endings: node id → the report, or why there is none.
    """

    settings: Settings
    store: Store
    pools: Sequence[Pool]
    watch: NightProgress
    total: Budget
    entries: Sequence[NightEntry]
    most_failures: int = 0
    endings: dict[str, ItemReport | Exception] = field(default_factory=dict)
    _tasks: list[NightTask] = field(default_factory=list)
    _turns: threading.Condition = field(default_factory=threading.Condition)
    _doing: dict[int, str] = field(default_factory=dict)
    _over: str = ""
    _stopped: str = ""
    _budget: NightBudget = field(init=False)

    def __post_init__(self) -> None:
        """Begin to spend."""
        self._budget = NightBudget(self.total, self.settings.reduce, len(self.pools))

    def spend(self) -> NightReport:
        """Open, search and prove all entries. Ctrl-C ends the searches, and proves what is promising.

        Raises:
            StoreError: another night is spent in this project, or the state of an earlier one cannot be used.
            KeyboardInterrupt: a second Ctrl-C; the same command goes on.
        """
        with open_night(self.settings.rootdir, self.store, fresh=self.settings.fresh) as book, ExitStack() as held:
            self._budget.earlier_s, self._budget.earlier_evaluations = book.state.spent_s, book.state.evaluations
            self._budget.is_proving = book.state.is_proving
            if book.state.closed:
                closed = quantity(len(book.state.closed), "benchmark")
                self.watch.say(f"going on with an earlier night, which closed {closed}; --tune-fresh starts anew")
            self._tasks = self._budget.tasks = [
                NightTask(entry, self._budget.by_time, held.enter_context(ExitStack())) for entry in self.entries
            ]
            for task in self._tasks:
                task.seconds = book.state.seconds.get(task.entry.nodeid, 0.0)
            try:
                self._open(book)
                self._search(book)
                self._prove(book)
            except KeyboardInterrupt:
                self._interrupt()
                self._prove(book)
            if not self._stopped:
                book.end(keeps_closed=bool(self._of("not reached")))
        return self.report()

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self._stopped == "interrupted"

    def report(self) -> NightReport:
        """The night as it stands."""
        by_time = self._budget.by_time
        rows = tuple(
            NightRow(
                task.entry.nodeid, task.entry.name, task.weight, task.standing, task.evaluations, task.best,
                (task.seconds if by_time else task.evaluations) / self._budget.whole, task.why, task.shift,
            )
            for task in self._tasks
        )  # fmt: skip
        unit: Literal["s", "evaluations"] = "s" if by_time else "evaluations"
        doing = self._over or ", ".join(doing for _, doing in sorted(self._doing.items()))
        return NightReport(unit, self._budget.whole, self._budget.spent, self._budget.reserved(), doing, rows)

    def keep_spent(self, task: NightTask, book: NightBook) -> None:
        """Note what is spent by now, of late on ``task``; it is gone also where a kill comes next."""
        now = time.monotonic()
        task.seconds += now - task.since
        task.since = now
        book.spend(
            task.entry.nodeid, task.seconds, spent_s=self._budget.spent_s, evaluations=self._budget.spent_evaluations
        )

    def evaluated(self, task: NightTask, book: NightBook) -> None:
        """Note one evaluation, and show the night.

        Raises:
            KeyboardInterrupt: the night was interrupted, of which only the main thread hears.
        """
        with self._turns:
            self.keep_spent(task, book)
            book.save_now_and_then()
            self.watch.show(self.report)
        if self.interrupted and threading.current_thread() is not threading.main_thread():
            raise KeyboardInterrupt

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self, book: NightBook) -> None:
        waiting = iter(self._tasks)

        def next_to_open() -> NightTask | None:
            return None if self._stopped else next(waiting, None)

        on_devices(len(self.pools), next_to_open, lambda task, place: self._open_at(task, place, book), self._interrupt)

    def _open_at(self, task: NightTask, place: int, book: NightBook) -> None:
        with self._served(task, place):
            self._doing[place] = f"opening {task.entry.name}"
            with self._on(task, book):
                self._open_one(task, task.entry.make(), book)

    def _open_one(self, task: NightTask, benchmark: TunedBenchmark, book: NightBook) -> None:
        begun, task.weight = time.monotonic(), benchmark.spec.weight
        if self._is_closed(task, benchmark, book):
            return
        if not self._budget.has_room(self._budget.opening_s, task) and benchmark.nodeid not in book.state.opened:
            self._leave(task, "the budget has no room for it: the same command goes on with it")
            return
        self._enter(task, benchmark)
        progress = _TaskProgress(self, task, book)
        opened = open_run(
            benchmark, settings=self.settings, store=self.store, pool=task.pool, progress=progress, budget=Budget()
        )
        task.run = task.held.enter_context(opened)
        task.standing = "searching"
        book.open(benchmark.nodeid)
        self._turn(task, 1 if self._budget.has_room(0.0, task) else 0)
        task.opening_s = time.monotonic() - begun

    def _is_closed(self, task: NightTask, benchmark: TunedBenchmark, book: NightBook) -> bool:
        """Whether an earlier run of this night proved it: what is proven once is not proven again."""
        if closed := book.closed(benchmark, self.settings):
            task.evaluations, task.best = closed.evaluations, closed.best
            self._end(task, closed.report, "closed by an earlier run of this night")
            return True
        if stored := book.stored_by_a_killed_run(benchmark, self.settings):
            book.close(benchmark, stored, self.settings, 0, 0.0)
            self._end(task, stored, "stored by an earlier run of this night, which was killed then")
            return True
        return False

    # ── searching ────────────────────────────────────────────────────────────────────────────────────────────────

    def _search(self, book: NightBook) -> None:
        """Turn by turn where the weighted log-time falls fastest; a search that is over is proven at once."""
        longest = longest_turn(self._budget.whole * len(self.pools), len(self._tasks))
        on_devices(len(self.pools), self._next_turn, lambda task, place: self._serve(task, place, longest, book),
                   self._interrupt)  # fmt: skip

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

    def _serve(self, task: NightTask, place: int, longest: float, book: NightBook) -> None:
        with self._served(task, place):
            self._doing[place] = f"searching {task.entry.name}"
            with self._on(task, book):
                self._take_turn(task, longest)
            if task.standing == "searching" and task.opened.search.is_over:
                self._close(task, place, book, "its engine had nothing left to try")

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

    def _take_turn(self, task: NightTask, longest: float) -> None:
        """At least one batch, and on until the switch to it weighs little."""
        switch_s = self._enter(task, task.benchmark)
        begun_s, begun = time.monotonic(), task.spent

        def goes_on() -> bool:
            is_short = time.monotonic() - begun_s < SWITCHES * switch_s
            return is_short and task.spent - begun < longest and self._budget.has_room(task.batch_s, task)

        self._turn(task, 1, goes_on)

    def _turn(self, task: NightTask, least: int, goes_on: Callable[[], bool] = lambda: False) -> None:
        """At least so many batches, and more while ``goes_on``; what an earlier run has in the journal comes first."""
        run, made = task.opened, 0

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
        begun = time.monotonic()
        task.pool.prepare(range(1), benchmark)
        seconds = time.monotonic() - begun
        self._budget.start_s = max(self._budget.start_s, seconds)  # the first one started the worker
        return seconds

    # ── proving ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _prove(self, book: NightBook) -> None:
        """Prove what is still open, the greatest gain first; after a Ctrl-C what is promising, and nothing after -x.

        What an earlier run was killed in the middle of is gone on with, whatever the time.
        """
        has_end = self._budget.by_time and not (self._stopped or book.state.is_proving)
        book.state.is_proving |= not self._stopped
        why = self._why_over()
        in_order = iter(sorted(self._of("searching"), key=lambda task: task.best * task.weight))

        def settle(task: NightTask, place: int) -> None:
            if reason := self._why_unproven(task, has_end=has_end):
                self._leave(task, reason)
                return
            with self._served(task, place):
                self._close(task, place, book, self._stopped or why)

        on_devices(len(self.pools), lambda: next(in_order, None), settle, self._interrupt)
        for task in self._of("waiting"):
            self._leave(task, f"{self._stopped} before it was opened: the same command goes on with it")
        left = len(self._of("not reached"))
        self._over = self._stopped or (f"unfinished: {left} not reached" if left else "done")
        self.watch.show(self.report)

    def _why_unproven(self, task: NightTask, *, has_end: bool) -> str | None:
        if self._stopped and not (self.interrupted and task.is_promising):
            return f"{self._stopped} before it was proven: the same command goes on with its search"
        if has_end and self._budget.is_over:
            was_promising = "the time was over before its proof"
            over = was_promising if task.is_promising else "no gain worth a proof was seen in the time"
            return f"{over}: the same command goes on with its search"
        return None

    def _why_over(self) -> str:
        if self._budget.is_over:
            return "the budget was spent"
        return (
            "the rest of the budget was kept for proofs"
            if self._budget.reserved()
            else "the budget has no room for another batch"
        )

    def _close(self, task: NightTask, place: int, book: NightBook, why: str) -> None:
        """Prove and store it, once and for all."""
        run, benchmark = task.opened, task.benchmark
        reduces = self.settings.reduce and not self.interrupted and self._budget.can_be_reduced(task)
        self._doing[place], task.standing = f"proving {task.entry.name}", "proving"
        self.watch.show(self.report)
        run.search.interrupted = False  # its journal goes with its proof
        with self._on(task, book):
            book.begin_closing(benchmark, self.settings)
            report = run.close(reduces=reduces)
            large = ("stored as it was found: there was no time to make it small",)
            hurried = large if self.settings.reduce and not reduces and report.verdict is Verdict.TUNED else ()
            report = replace(report, notes=(*report.notes, *hurried, f"its part of the night ended since {why}"))
            book.close(benchmark, report, self.settings, task.evaluations, task.best)
            self._end(task, report, why)

    # ── how a task ends ──────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _on(self, task: NightTask, book: NightBook) -> Iterator[None]:
        """What is done for one benchmark: its time is its own, and what fails in it ends nothing else."""
        task.since = time.monotonic()
        try:
            yield
        except LeftAlone as reason:
            self._leave(task, str(reason), "skipped")
        except Exception as error:
            self._fail(task, error)
        except KeyboardInterrupt:
            task.standing = "searching" if task.standing == "proving" else task.standing
            raise
        finally:
            if task.standing not in ("searching", "proving"):
                task.held.close()
                task.run = None  # its engine may hold a process
            with self._turns:
                self.keep_spent(task, book)
                book.save()
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

    def _fail(self, task: NightTask, error: Exception) -> None:
        task.standing, task.why = "failed", str(error)
        self.endings[task.entry.nodeid] = error
        self.watch.say(f"{task.entry.name}: failed: {error}")
        if self.most_failures and len(self._of("failed")) >= self.most_failures:
            self._stopped = f"stopped after {quantity(self.most_failures, 'failure')}"

    def _of(self, standing: NightStanding) -> list[NightTask]:
        return [task for task in self._tasks if task.standing == standing]


@dataclass(frozen=True)
class _TaskProgress:
    night: Night
    task: NightTask
    book: NightBook

    def evaluated(self, tally: SearchCounts, budget: Budget, shift: float | None) -> None:
        """Show the night, and keep what it has spent."""
        self.task.shift = shift
        self.night.evaluated(self.task, self.book)

    def say(self, text: str) -> None:
        """Say it."""
        self.night.watch.say(f"{self.task.entry.name}: {text}")
