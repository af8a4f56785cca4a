"""pytest's side of "is it in use?": the fixture ``acf_expect``, and ``ACF_EXPECT`` for a run of tests.

Its hooks are registered where ``ACF_EXPECT`` or ``ACF_COUNTS`` is set.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_compileiq.ship.usage import Counts

_FROM_WORKERS: pytest.StashKey[list[dict[str, Any]]] = pytest.StashKey()
_LINE: pytest.StashKey[tuple[str, bool]] = pytest.StashKey()
_CARRIED = "compileiq_counts"


def expectation(file: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The fixture's function: ``acf_expect("softmax", "matmul")``, or ``acf_expect()`` for all that the exports ship.

    Processes inherit ``ACF_COUNTS``, which names ``file``; ``ACF_EXPECT`` is taken from them, since the test judges
    them together.
    """
    from pytest_compileiq.ship import usage

    monkeypatch.setenv("ACF_COUNTS", str(file))
    monkeypatch.delenv("ACF_EXPECT", raising=False)
    before = {counts.process: counts for counts in usage.of_this_process()}

    def expect(*names: str) -> None:
        own = [counts.less(before.get(counts.process)) for counts in usage.of_this_process()]
        others = usage.read_counts(file) if file.exists() else []
        _, missing = _judge([*own, *others], ",".join(names) or "all")
        if missing:
            from pytest_compileiq.system.printing import failure

            raise failure("; ".join(missing))

    return expect


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what an xdist worker counted."""
    carried = getattr(node, "workeroutput", {}).get(_CARRIED, [])
    node.config.stash.setdefault(_FROM_WORKERS, []).extend(carried)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Judge the run by ``ACF_EXPECT``, the processes of xdist together; an exit status of its own stands."""
    config, expected = session.config, os.environ.get("ACF_EXPECT", "")
    import msgspec

    from pytest_compileiq.ship import usage

    for runtime in usage.runtimes():
        runtime.leave_judging()
    if hasattr(config, "workeroutput"):
        config.workeroutput[_CARRIED] = [runtime.report() for runtime in usage.runtimes()]
        return
    if config.option.collectonly or config.pluginmanager.has_plugin("compileiq-worker"):
        return
    if config.option.tune:
        config.stash[_LINE] = "in use: not judged: a search applies no shipped controls", False
        return
    carried = msgspec.convert(config.stash.get(_FROM_WORKERS, []), list[usage.Counts])
    line, missing = _judge([*carried, *usage.of_this_process()], expected)
    config.stash[_LINE] = line, bool(missing)
    if missing and session.exitstatus == pytest.ExitCode.OK:
        from pytest_compileiq.ship.acf_runtime import NEVER_APPLIED

        session.exitstatus = NEVER_APPLIED


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(config: pytest.Config) -> None:
    """Print how much of what was shipped is in use."""
    if _LINE in config.stash:
        from pytest_compileiq.system.printing import Terminal

        line, is_bad = config.stash[_LINE]
        Terminal(config).say(line, red=is_bad)


def _judge(counts: list[Counts], expected: str) -> tuple[str, list[str]]:
    """A line that tells what is in use, and why what is expected ("" for nothing) was not applied."""
    from pytest_compileiq.ship.acf_runtime import unmet
    from pytest_compileiq.ship.usage import headline, together

    if not counts:
        nothing = "no process of this run imported an acf_runtime"
        return f"in use: {nothing}", [nothing] if expected else []
    report = together(counts)
    missing = unmet(report, expected) if expected else []
    return headline(report, missing), missing
