"""Who holds a lock of this machine is told while it is waited for, in one piece or in many."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.system import wait
from pytest_compileiq.system.wait import ToldWait, holder_of

HOLDING = "import fcntl, sys\nheld = open(sys.argv[1])\nfcntl.flock(held, fcntl.LOCK_EX)\nprint('held', flush=True)\nsys.stdin.read()\n"


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "device.lock"
    path.touch()
    return path


@pytest.fixture
def holder(lock):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_the_holder_is_named_by_its_process_and_command(lock, holder):
    assert holder_of(lock).startswith(f"process {holder.pid} ({Path(sys.executable).name} -c import fcntl")
    holder.kill()
    holder.wait()
    assert holder_of(lock) == "another process"


def test_a_lock_that_is_free_is_told_of_nobody(lock):
    said = []
    wait = ToldWait(said.append)
    with wait.holding(lock, "the processor"):
        assert holder_of(lock).startswith(f"process {os.getpid()} ")
    assert (said, wait.waited_s) == ([], 0.0)


def test_a_wait_is_told_with_its_holder_once_for_each_length(lock, holder, monkeypatch):
    monkeypatch.setattr(wait, "TOLD_S", (0.0001, 0.0002, 60.0))
    said = []
    told = ToldWait(lambda line: (said.append(line), len(said) == 2 and holder.kill()))
    with told.holding(lock, "the processor"):
        pass
    assert len(said) == 2 and told.waited_s > 0
    assert all(
        f"for the processor, one measurement at a time: process {holder.pid} (" in line
        and line.endswith("measures on it")
        for line in said
    )
