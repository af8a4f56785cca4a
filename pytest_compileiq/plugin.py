"""pytest's hooks, which only route. Nothing but pytest is imported until there is a tuned test or an ``acf/``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from pytest_compileiq.config import Settings
    from pytest_compileiq.session import Session
    from pytest_compileiq.workers.worker_plugin import WorkerPlugin

_SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
_SESSION: pytest.StashKey[Session] = pytest.StashKey()
_REPORTS: pytest.StashKey[_Reports] = pytest.StashKey()
_PARTIAL = "compileiq_partial"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare options and ini keys."""
    from pytest_compileiq.options import add_options

    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Check the settings, and listen to reports."""
    from pytest_compileiq.config import MARKER_ARGUMENTS
    from pytest_compileiq.options import read_settings

    if os.environ.get("ACF_EXPECT") or os.environ.get("ACF_COUNTS"):
        from pytest_compileiq import expect

        config.pluginmanager.register(expect, "compileiq-expect")
    config.addinivalue_line(
        "markers",
        f"tune(toolchain, *, {', '.join(MARKER_ARGUMENTS)}): search this benchmark's compiler controls with --tune, "
        "and hold the committed ones to their claim otherwise",
    )
    config.stash[_SETTINGS] = read_settings(config)
    config.stash[_REPORTS] = _Reports(config)
    config.pluginmanager.register(config.stash[_REPORTS], "compileiq-reports")


@pytest.fixture
def acf() -> Any:
    """The controls under evaluation: build(), measure(), record(), compare(), rng, workload, params, path, options."""
    from pytest_compileiq.benchmark.fixture import Unusable

    return Unusable()


@pytest.fixture
def acf_expect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Fails the test unless shipped artifacts, all or those named, were applied in it or in a process it started."""
    from pytest_compileiq.expect import expectation

    return expectation(tmp_path / "acf-counts.jsonl", monkeypatch)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under --tune only tuned benchmarks run."""
    if not config.stash[_SETTINGS].tune:
        return
    others = [item for item in items if item.get_closest_marker("tune") is None]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.get_closest_marker("tune")]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Hand the tuned tests to the session."""
    if any(item.get_closest_marker("tune") for item in session.items) and _inside(session.config) is None:
        _session(session.config).collected(session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Under --tune a benchmark is searched instead of run; no fixture is set up in this process."""
    if not item.config.stash[_SETTINGS].tune or item.get_closest_marker("tune") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for when in ("setup", "call", "teardown"):
        _report_phase(item, when)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _report_phase(item: pytest.Item, when: Any) -> None:
    def work() -> None:
        if when == "call":
            _session(item.config).tune(item)

    call = pytest.CallInfo.from_call(work, when=when, reraise=(pytest.exit.Exception, KeyboardInterrupt))
    report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    item.ihook.pytest_runtest_logreport(report=report)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A bad marker fails its test before any fixture is set up."""
    if item.get_closest_marker("tune") is not None and _inside(item.config) is None:
        _session(item.config).set_up(item)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A tuned test is replayed; in a worker it is evaluated as the parent asks."""
    if pyfuncitem.get_closest_marker("tune") is None:
        return None
    inside = _inside(pyfuncitem.config)
    if inside is None:
        _session(pyfuncitem.config).replay(pyfuncitem)
        return True
    from pytest_compileiq.workers.tasks import converse

    converse(inside, pyfuncitem)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the outcome of a tuned test to its report, as a string, which passes every process boundary."""
    report = yield
    if item.get_closest_marker("tune") is None or _inside(item.config) is not None:
        return report
    from pytest_compileiq.session import REPORT

    carried: Any = report
    if call.when == "setup" or report.failed:
        carried.compileiq_name = _session(item.config).name_of(item) or ""
    if call.when == "call" and (text := item.stash.get(REPORT, None)):
        carried.compileiq = text
        del item.stash[REPORT]  # an item may run again
    return report


class _Reports:
    """Routes reports, which name no config, to the session of the run.

    Attributes:
        partial: a test was deselected, or a module could not be collected.
        untuned: the tests that began without a marker.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.partial = False
        self.untuned: set[str] = set()

    def pytest_deselected(self) -> None:
        """Note that the run is partial, whoever deselects."""
        self.partial = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that failed or was skipped."""
        self.partial |= not report.passed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Note whether an xdist worker's run was partial: deselection happens there."""
        self.partial |= getattr(node, "workeroutput", {}).get(_PARTIAL, False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one report of a tuned test."""
        if hasattr(report, "compileiq_name") or hasattr(report, "compileiq"):
            _session(self._config).received(report)
        elif report.when == "setup":
            self.untuned.add(report.nodeid)


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Print one line per artifact, what was not checked, then the remedies."""
    if _SESSION in config.stash:
        config.stash[_SESSION].print_summary()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Judge the store, write the report, end the workers."""
    config = session.config
    if _inside(config) is not None or config.option.collectonly:
        return
    if hasattr(config, "workeroutput"):
        config.workeroutput[_PARTIAL] = config.stash[_REPORTS].partial
    complete = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and _is_complete(session)
    ours = config.stash.get(_SESSION, None)
    if ours is None and complete and config.stash[_SETTINGS].acf_dir.is_dir():
        ours = _session(config)
    if ours is None:
        return
    ours.close()
    if not hasattr(config, "workerinput"):
        code = ours.finish(complete=complete, untuned=config.stash[_REPORTS].untuned)
        if code is not None and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = code


def _is_complete(session: pytest.Session) -> bool:
    """Whether every test of the project was selected: only then is an artifact without a test called an orphan."""
    config = session.config
    option = config.option
    filtered = config.stash[_REPORTS].partial or any(
        getattr(option, name, None) for name in ("lf", "ignore", "ignore_glob")
    )
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS and config.invocation_params.dir == config.rootpath
    return whole and not filtered and not session.shouldstop and not session.shouldfail


def _session(config: pytest.Config) -> Session:
    if _SESSION not in config.stash:
        from pytest_compileiq.session import Session

        config.stash[_SESSION] = Session(config, config.stash[_SETTINGS])
    return config.stash[_SESSION]


def _inside(config: pytest.Config) -> WorkerPlugin | None:
    """The worker's own plugin; None unless this process is one of our workers."""
    inside: WorkerPlugin | None = config.pluginmanager.get_plugin("compileiq-worker")
    return inside
