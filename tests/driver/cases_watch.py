"""The GPU in use, by its UUID, its lock, and who else computes on it, above the driver and the NVML without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from pytest_compileiq.system.files import locked, machine_lock
from pytest_compileiq.timing.cuda_context import cuda_core, current_uuid, holds_context
from pytest_compileiq.timing.gpu_watch import GpuWatch
from pytest_compileiq.timing.sampler import Disturbance
from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray

FIRST, SECOND = (f"GPU-{x * 8}-{x * 4}-{x * 4}-{x * 4}-{x * 12}" for x in "ab")
HIDDEN = str(2**31 - 1)


@pytest.fixture(autouse=True)
def _own_locks(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ACF_LOCK_DIR", str(tmp_path))


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    """This process computes on the first GPU."""
    core = cuda_core()
    core.Device(0).set_current()
    DeviceArray(np.zeros(1))
    yield
    core.Device(0).set_current()


def block(quads: int = 2, *, parent_holds_context: bool = False) -> tuple[str, ...]:
    with GpuWatch(lambda: None, parent_holds_context=parent_holds_context) as watch:
        watch.before()
        for _ in range(quads):
            watch.after_quad()
        watch.after_quad()
    return watch.remarks


def test_the_gpu_in_use_is_the_current_contexts_and_that_one_is_watched_and_locked():
    assert (holds_context(), current_uuid()) == (True, FIRST)
    cuda_core().Device(1).set_current()
    assert (holds_context(), current_uuid()) == (True, SECOND)

    with GpuWatch(lambda: None, parent_holds_context=False) as watch:
        watch.before()
        with pytest.raises(BlockingIOError), locked(machine_lock(f"device {SECOND}"), wait=False):
            pass
        with locked(machine_lock(f"device {FIRST}"), wait=False):
            pass


def test_a_process_of_others_is_a_neighbour_and_our_own_children_are_none(monkeypatch):
    script = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(script, stdin=subprocess.PIPE) as one, subprocess.Popen(script, stdin=subprocess.PIPE) as two:
        monkeypatch.setenv("STUB_NVML_PID", str(two.pid))
        assert block() == ()
        monkeypatch.setattr(os, "getppid", lambda: one.pid)  # as though this process were a child of its own child
        with pytest.raises(Disturbance, match=f"on the GPU: {two.pid}$"):
            block()
        one.communicate()
        two.communicate()


def test_a_process_that_proc_does_not_know_is_a_neighbour(monkeypatch):
    monkeypatch.setenv("STUB_NVML_PID", HIDDEN)
    with pytest.raises(Disturbance, match=rf"1 process of another container or user \(pids on the host {HIDDEN}\)"):
        block()


def test_where_processes_have_the_hosts_numbers_whoever_is_more_than_we_are_is_a_neighbour(monkeypatch):
    monkeypatch.setenv("STUB_NVML_AS", "4194305")
    assert block() == ()
    monkeypatch.setenv("STUB_NVML_PID", "4194306")
    assert block(parent_holds_context=True) == ()
    with pytest.raises(Disturbance, match=r"1 process of .* \(among the pids on the host 4194305, 4194306\)"):
        block()


def test_where_nothing_is_listed_a_remark_says_that_nobody_would_be_seen(monkeypatch):
    monkeypatch.setenv("STUB_NVML_AS", "")
    (remark,) = block()
    assert "NVML does not show which processes compute on this GPU" in remark


@pytest.mark.parametrize("query", range(1, 5))
def test_a_neighbour_that_comes_and_goes_is_seen_by_whichever_question_it_meets(query):
    script = (
        "from tests.driver.cases_watch import block, cuda_core\n"
        "cuda_core().Device(0).set_current()\n"
        "try:\n"
        "    print(block(quads=2))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__)\n"
    )
    said = {}
    for during in (query, query + 4):
        environment = {**os.environ, "STUB_NVML_PID": HIDDEN, "STUB_NVML_DURING": f"{during}-{during}"}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
        said[during] = done.stdout.strip() or done.stderr
    assert said == {query: "Disturbance", query + 4: "()"}
