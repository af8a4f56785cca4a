"""The tuned part of a pytest run: which items are tuned, the outcome of each, and the reports at the end."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_compileiq.benchmark.assertions import OFF, TURN_ON
from pytest_compileiq.benchmark.benchmark import TunedBenchmark, find_marker
from pytest_compileiq.benchmark.body import Body, body_of
from pytest_compileiq.benchmark.marker import name_within, read_marker
from pytest_compileiq.config import Budget, Settings, chosen
from pytest_compileiq.errors import CompileIQError, LeftAlone, MarkerError, StoreError, fault_of
from pytest_compileiq.outcome import Circumstances, ItemReport, RunReport, TunedTest, Verdict
from pytest_compileiq.report.progress import LineProgress, NightTable
from pytest_compileiq.report.values import JUNIT_PREFIX, junit_properties, write_json
from pytest_compileiq.store.status import orphans
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.cpu import what_it_runs
from pytest_compileiq.system.printing import Terminal, failure, interrupted, skipped
from pytest_compileiq.system.project_settings import named_options
from pytest_compileiq.system.vcs import revision
from pytest_compileiq.workers.pool import Pool
from pytest_compileiq.workers.resources import Resources

if TYPE_CHECKING:
    from pytest_compileiq.replay.run import Replay
    from pytest_compileiq.tuning.devices import Interruption, SideBySide
    from pytest_compileiq.tuning.night import Night

UNHEALTHY = 11


class Session:
    """The tuned part of one pytest run."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.config = config
        self.settings = settings
        self.store = Store(settings.acf_dir)
        self.report = RunReport()
        self.claimed: dict[str, str] = {}
        self.complete = True
        self._outcomes: list[TunedTest] = []
        self._items: list[pytest.Item] = []
        self._became: dict[str, ItemReport] = {}
        self._owners: dict[str, list[str]] = {}
        self._together: SideBySide | Night | None = None  # all that is tuned, unless each is by itself
        self._held = Resources(config, settings)

    # ── collection ───────────────────────────────────────────────────────────────────────────────────────────────

    def collected(self, items: list[pytest.Item]) -> None:
        """Note the tuned items and who claims which name."""
        self._items = self._held.items = [item for item in items if find_marker(item)]
        for item in self._items:
            name = self.name_of(item)
            if name is not None:
                self._owners.setdefault(name, []).append(item.nodeid)

    def name_of(self, item: pytest.Item) -> str | None:
        """The artifact's name; None if the marker is missing or invalid."""
        with suppress(CompileIQError):
            if mark := find_marker(item):
                return read_marker(mark, name_within(item)).name
        return None

    # ── items ────────────────────────────────────────────────────────────────────────────────────────────────────

    def set_up(self, item: pytest.Item) -> None:
        """Check the marker before any fixture is set up; a bad marker fails the test with a sentence."""
        with _told(item.nodeid):
            self._check_marker(item)

    def _check_marker(self, item: pytest.Item) -> None:
        mark = find_marker(item)
        name = read_marker(mark, name_within(item)).name if mark else ""
        if rivals := [nodeid for nodeid in self._owners.get(name, []) if nodeid != item.nodeid]:
            raise MarkerError(
                f"{item.nodeid} and {', '.join(rivals)} both claim the artifact {name!r}: give one tune(name=…)"
            )

    def replay(self, item: pytest.Function) -> ItemReport:
        """Replay one item, as a normal run does; raises pytest's outcomes."""
        with _told(item.nodeid):
            benchmark = self._benchmark(item)
            if self.settings.calibrate:
                return self._calibrate(item, benchmark, self.settings.calibrate)
            replay = self._replay_of(benchmark, body_of(item))
            report, cause = replay.run()
            if self.settings.arms and report.verdict in (Verdict.PROVEN, Verdict.REPLAYED):
                from pytest_compileiq.replay.arms import hand_out  # with zip files, which few runs read

                hand_out(benchmark, replay.integrity, self.settings.arms)
        self._keep(item, report)
        if cause is not None:
            raise cause
        if report.failed:
            what = f"{report.name} ({report.target}): {report.verdict}: {report.message}"
            raise failure(what, report.remedy) from None
        if report.verdict == Verdict.NO_DEVICE:
            raise skipped(report.message)
        return report

    def tune(self, item: pytest.Item) -> ItemReport:
        """Search for one item's controls; raises pytest's outcomes."""
        if not __debug__:
            raise failure(f"{OFF}; {TURN_ON} --tune {item.nodeid}")
        try:
            with _told(item.nodeid):
                report = self._tuned(item)
        except KeyboardInterrupt:  # not while it searched, which ends with a report
            if self.settings.budget is not None and self.settings.budget.proof_only:  # nothing stays for the next run
                raise
            raise interrupted(f"interrupted: {self._goes_on}") from None
        self._keep(item, report)
        return report

    @property
    def _goes_on(self) -> str:
        """What is said of a run that Ctrl-C ends."""
        if self.settings.total is not None:
            return "the same command goes on with the night"
        return f"the same command goes on with the {'search' if self._together is None else 'searches'}"

    def _tuned(self, item: pytest.Item) -> ItemReport:
        """The report of one item; the first that is asked for has all begun, where they share devices or a budget."""
        pools = self._held.pools
        if self._together is None and self.settings.total is not None:
            self._together = self._spend_night(self.settings.total, pools)
        elif self._together is None and len(pools) > 1:
            self._begin_side_by_side(pools)
        if self._together is None:
            report = self._searched(item, pools[0])
            if report.interrupted:
                item.session.shouldstop = self._goes_on
            return report
        try:
            return self._together.report_of(item.nodeid)
        finally:
            if self._together.interrupted and item is self._items[-1]:
                item.session.shouldstop = self._goes_on

    def _searched(self, item: pytest.Item, pool: Pool, heard: Interruption | None = None) -> ItemReport:
        """Search with one device's workers."""
        from pytest_compileiq.tuning.run import tune  # heavy: the engines and their linear algebra

        benchmark = self._tunable(item)
        progress = self._progress(benchmark.name)
        told = heard.heard_by(progress) if heard else progress
        try:
            return tune(benchmark, settings=self.settings, store=self.store, pool=pool, progress=told)
        finally:
            progress.done()

    def _begin_side_by_side(self, pools: Sequence[Pool]) -> None:
        from pytest_compileiq.tuning.devices import Interruption, SideBySide

        items, heard = {each.nodeid: each for each in self._items}, Interruption()
        self._together = SideBySide(lambda nodeid, pool: self._searched(items[nodeid], pool, heard), pools, heard)
        self._together.begin(list(items))

    def _spend_night(self, total: Budget, pools: Sequence[Pool]) -> Night:
        from pytest_compileiq.tuning.night import Night
        from pytest_compileiq.tuning.night_budget import NightEntry

        watch = NightTable(Terminal(self.config))
        entries = [NightEntry(it.nodeid, self.name_of(it) or it.name, partial(self._tunable, it)) for it in self._items]
        night = Night(self.settings, self.store, pools, watch, total, entries, self.config.getoption("maxfail"))
        try:
            self.report.night = night.spend()
        except Exception as error:  # every item tells it, and none has the night begin again
            night.endings = dict.fromkeys((entry.nodeid for entry in entries), error)
        finally:
            watch.done()
        return night

    def _tunable(self, item: pytest.Item) -> TunedBenchmark:
        """One benchmark to search.

        Raises:
            MarkerError: its marker is wrong, or claims another test's name.
            LeftAlone: ``--tune-new-only`` or ``--tune-stale-only`` skips it.
            TuneFailed: its artifact is another test's.
        """
        self._check_marker(item)
        benchmark = self._benchmark(item)
        if reason := self._why_left_alone(benchmark):
            raise LeftAlone(reason)
        return benchmark

    def _why_left_alone(self, benchmark: TunedBenchmark) -> str | None:
        from pytest_compileiq.tuning.baseline import expect_owner  # heavy

        expect_owner(benchmark, self.store)
        targets = self.store.targets(benchmark.name)
        if self.settings.new_only and benchmark.builder.target in targets:
            return f"--tune-new-only: {benchmark.name} has an artifact for {benchmark.builder.target}"
        if not self.settings.stale_only:
            return None
        if not targets:
            return f"--tune-stale-only: {benchmark.name} has no artifact; --tune-new-only tunes those"
        why = self._replay_of(benchmark, lambda acf: None).why_current()
        return f"--tune-stale-only: {why}" if why else None

    def _calibrate(self, item: pytest.Item, benchmark: TunedBenchmark, trials: int) -> ItemReport:
        from pytest_compileiq.proof.calibration import calibrate  # heavy: numpy

        progress = self._progress(benchmark.name)
        seed = chosen(self.settings.seed, benchmark.spec.seed, 0)
        try:
            report = calibrate(benchmark, self._held.first_pool(), trials, seed=seed, say=progress.say)
        finally:
            progress.done()
        self._keep(item, report)
        return report

    def _replay_of(self, benchmark: TunedBenchmark, body: Body) -> Replay:
        from pytest_compileiq.replay.committed import Integrity  # a tune replays nothing
        from pytest_compileiq.replay.run import Replay

        integrity = Integrity(benchmark, self.store, self.settings.adopt)
        return Replay(benchmark, self.settings, integrity, body, self._held.first_pool)

    def _benchmark(self, item: pytest.Item) -> TunedBenchmark:
        benchmark = self._held.benchmark(item)
        named = named_options(self.settings.options, self.settings.ini_file)
        benchmark.check_options(named, lambda: self.store.options_of(benchmark.name, benchmark.builder.target))
        benchmark.check_space()
        return benchmark

    def _keep(self, item: pytest.Item, report: ItemReport) -> None:
        item.stash[REPORT] = report.to_json()
        foreign = [pair for pair in item.user_properties if not pair[0].startswith(JUNIT_PREFIX)]
        item.user_properties[:] = [*foreign, *junit_properties(report)]  # an earlier try may have left some of ours

    def _progress(self, name: str) -> LineProgress:
        terminal = Terminal(self.config)
        return LineProgress(name, terminal, is_live=terminal.is_live and self._together is None)

    def close(self) -> None:
        """End what is under way, and all that the run holds."""
        if self._together is not None:
            self._together.close(self._held.close_transport)  # nothing else ends what is under way
        self._together = None
        self._held.close()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────

    def received(self, report: pytest.TestReport) -> None:
        """Take in one test report; under xdist it comes from another process."""
        name, text = getattr(report, "compileiq_name", None), getattr(report, "compileiq", None)
        if name:
            self.claimed[name] = report.nodeid
        elif name == "":
            self.complete = False
        item = ItemReport.from_json(text) if text else None
        if item is not None:
            self._became[item.nodeid] = item  # an item that runs again counts once
        place, line, _ = report.location  # relative to rootdir, which may lie in GitHub's workspace
        path, workspace = self.settings.rootdir / place, os.environ.get("GITHUB_WORKSPACE")
        file = path.relative_to(workspace).as_posix() if workspace and path.is_relative_to(workspace) else place
        failure = report.longreprtext if report.failed else ""
        self._outcomes.append(TunedTest(report.nodeid, file, (line or 0) + 1, failure, item))

    def finish(self, *, complete: bool, untuned: Collection[str] = ()) -> int | None:
        """Judge the store and write the reports; returns the exit code to use, None for pytest's own.

        Args:
            complete: every test of the project was selected.
            untuned: the tests that ran without a marker.
        """
        self.report.items = list(self._became.values())
        # A bad file of an artifact whose test ran fails that test instead.
        problems = self.store.health(but={item.name for item in self.report.items})
        self.report.store_problems = [health.problem for health in problems]
        if complete and self.complete and not self.settings.tune and self.settings.orphans != "ignore":
            with suppress(StoreError):  # it is one of the problems already
                self.report.orphans = orphans(self.store, self.claimed, self.settings.rootdir, untuned)
        recorded = self.settings.tune or self.settings.report is not None
        if self._became and recorded and (why := revision(self.settings.rootdir, []).not_asked):
            self.report.store_problems.append(f"no commit is recorded: {why}")
        written = self._write_reports()
        if os.environ.get("GITHUB_ACTIONS") == "true":
            self._tell_github()
        if not written:
            return pytest.ExitCode.USAGE_ERROR
        unhealthy = bool(problems) or (bool(self.report.orphans) and self.settings.orphans == "fail")
        return UNHEALTHY if unhealthy else None

    def _write_reports(self) -> bool:
        """Write the reports that were asked for; one that cannot be written becomes a line of the summary."""
        try:
            if self.settings.report is not None:
                date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                self.report.run = Circumstances(date, revision(self.settings.rootdir, []).commit, what_it_runs())
                write_json(self.report, self.settings.report)
            if self.settings.html is not None:
                from pytest_compileiq.report.html.page import write_html  # heavy, and few runs want a page

                write_html(self.report, self.store, self.settings.html, title="Compiler controls: this run")
        except OSError as error:
            problem = f"{error.filename} could not be written for the report: {error.strerror}; name another file"
            self.report.store_problems.append(problem)
            return False
        return True

    def print_summary(self) -> None:
        """Print one line per artifact, what was not checked, then the remedies."""
        from pytest_compileiq.report.terminal import summary_lines

        terminal = Terminal(self.config)
        shown = self.config.option.tbstyle not in ("no", "line")  # a failure in one line is cut off
        lines = list(summary_lines(self.report, failures_shown=shown))
        if lines:
            terminal.section("acf")
        for text, markup in lines:
            terminal.say(text, **markup)

    def _tell_github(self) -> None:
        """Mark the tests' lines, and add to the job summary."""
        from pytest_compileiq.report.markdown import annotation_lines, summary_text  # with all that acf diff says

        lines = list(annotation_lines(self._outcomes, self.report.store_problems))
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            try:
                with Path(path).open("a", encoding="utf-8") as stream:
                    stream.write(summary_text(self.report))
            except OSError as error:
                lines.append(f"::warning title=acf::the job summary could not be written: {error.strerror}")
        terminal = Terminal(self.config)
        for line in ["", *lines] if lines else []:  # GitHub reads commands at a line's start; pytest may be in mid-line
            terminal.command(line)


@contextmanager
def _told(nodeid: str) -> Iterator[None]:
    """Turn this package's exceptions, and the machine's ``OSError``, into a skip or a failure of one sentence."""
    try:
        yield
    except LeftAlone as reason:
        raise skipped(str(reason)) from None
    except (CompileIQError, OSError) as error:
        message = fault_of(error) if isinstance(error, OSError) else str(error)
        raise failure(message if nodeid in message else f"{nodeid}: {message}") from None


REPORT: pytest.StashKey[str] = pytest.StashKey()
