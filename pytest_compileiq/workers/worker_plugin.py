"""A worker's own end: a pytest that runs a test when the parent says so, and answers the parent's tasks within it."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_compileiq.system.process import adopt_orphans
from pytest_compileiq.workers.messages import Channel, Enter, Failed, Left, Order, Query, Ready, Start, decode_order
from pytest_compileiq.workers.start import enter_project, worker_config


class WorkerPlugin:
    """The worker's own pytest plugin: it runs tests when told to, and ``tasks.converse`` does the tasks within them."""

    def __init__(self, channel: Channel[Order], builds: Path) -> None:
        self.channel = channel
        self.builds = builds
        self.builder: bytes | None = None
        self.is_entered = False  # whether the fixtures of the test are up
        self._failure: str | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take orders until the parent quits or is gone."""
        items = {item.nodeid: item for item in session.items}
        if session.testsfailed:
            self.channel.send(Failed(self._failure))
            return True
        gc.freeze()  # it all stays to the end: the collections before samples and at the exit need not go through it
        self.channel.send(Ready())
        with contextlib.suppress(EOFError, OSError):
            while isinstance(order := self.channel.receive(), Enter | Query):
                self._failure = None
                if (item := items.get(order.nodeid)) is None:
                    self.channel.send(Failed("it was not collected in the worker"))
                elif isinstance(order, Query):
                    from pytest_compileiq.workers.tasks import answer_query  # heavy, and most workers build nothing

                    self.channel.tick()
                    self.channel.send(answer_query(item, self.builds, order))
                else:
                    self.is_entered, self.builder = False, order.builder
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                    self.channel.send(Left(self._failure) if self.is_entered else Failed(self._failure))
        return True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why collection failed."""
        if report.failed:
            self._failure = f"{report.nodeid}: {_why(report)}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep why a set-up failed."""
        if report.failed or report.skipped:
            self._failure = f"{report.when}: {_why(report)}"

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Tell what ended this pytest."""
        self.fail(excinfo.value)

    def fail(self, error: BaseException) -> None:
        """Tell the parent that ``error`` ends this worker, or what failed in collection before it."""
        cause = error.__cause__
        said = _described(error) if cause is None else f"{_described(error)} ({_described(cause)})"
        with contextlib.suppress(OSError):
            self.channel.send(Failed(self._failure or said))


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {_last_line(str(error))}"


def _why(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return _last_line(crash.message.partition("\n")[0] if crash else report.longreprtext)


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].removeprefix("E ").strip()[:400] if lines else "no reason given"


def main() -> int:
    """Run as ``python -m`` with ROOT BUILDS READ WRITE PROGRESS: paths, then descriptors."""
    root, builds, *descriptors = sys.argv[1:]
    channel: Channel[Order] = Channel(decode_order, *map(int, descriptors))
    threading.Thread(target=_die_with_parent, args=(os.getppid(),), daemon=True).start()
    adopt_orphans()
    inside = WorkerPlugin(channel, Path(builds))
    try:
        start = channel.receive()
        if not isinstance(start, Start):
            raise TypeError(f"a worker begins with a Start, not with a {type(start).__name__}")
        enter_project(start, Path(root))
        config = worker_config(start, Path(root))
        config.pluginmanager.register(inside, "compileiq-worker")
        return int(config.hook.pytest_cmdline_main(config=config) or 0)
    except BaseException as error:  # a conftest.py may raise SystemExit
        inside.fail(error)
        return 1


def _die_with_parent(parent: int) -> None:
    """End with the parent: a second safeguard beside the run's guard, and the only one where there is no /proc."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    # Under -m this file is __main__; the plugin must meet the same classes by the package's name.
    from pytest_compileiq.workers.worker_plugin import main as packaged_main

    sys.exit(packaged_main())
