"""Worker processes that this machine does not start."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pytest_compileiq.errors import NoWorker
from pytest_compileiq.system.process import Guard
from pytest_compileiq.workers.pool import Pool


def test_a_machine_that_starts_no_more_processes_is_a_fault_of_the_environment(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    guard = Guard(tmp_path / "builds")
    workers = Pool(pytestconfig, [], guard, tmp_path)
    monkeypatch.setattr("subprocess.Popen", refuse)
    with pytest.raises(NoWorker, match=r"says nothing about any controls: .*Resource temporarily unavailable"):
        workers.prepare(range(1), None)  # type: ignore[arg-type]  # it does not get as far as the benchmark
    guard.close()
