"""Hostile candidates: each is one typed invalid evaluation, and nothing is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from pytest_compileiq.system.watchdog import of_each_process
from tests.projects import naming

pytestmark = pytest.mark.slow

KERNEL_C = """\
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int kernel(int x) {
#ifdef __FAST_MATH__
    static int first = 1;
    if (!first) return x + 1;
    first = 0;
    %s
#endif
    return x + 1;
}
"""
NAMED = naming("-ffast-math")
TEST_PY = """\
import pytest
from pytest_compileiq import Cc, literal


@pytest.mark.tune(Cc("kernel.c"), space={"-ffast-math": literal("", knockout_prob=0.5)}, timeout_s=2)
def test_kernel(acf):
    kernel = acf.build().load().kernel
    assert kernel(41) == 42
    acf.measure(lambda: kernel(1))
"""
HOSTILE = {
    "segfaults": ("*(volatile int *)0 = 1;", "crash", "SIGSEGV"),
    "aborts": ("abort();", "crash", "SIGABRT"),
    "exits": ("exit(0);", "crash", "exited with status 0"),
    "loops for ever": ("for (volatile int i = 0;; i++) ;", "timeout", "no progress for 2 s; see timeout_s"),
    "prints 100 MB": (
        'for (int i = 0; i < 100 * 1024; i++) printf("%01024d", i); fflush(stdout);',
        "wrong",
        "printed more than",
    ),
    "forks": ("if (fork() == 0) { sleep(600); }", "crash", "behind"),
    "forks a daemon": ("if (fork() == 0) { setsid(); if (fork() == 0) sleep(600); _exit(0); }", "crash", "behind"),
    "forks and returns": ("fork();", "crash", "behind"),
    "answers wrongly": ("return 0;", "wrong", "assert 0 == 42"),
}


def carriers() -> set[int]:
    """Processes that a run of ours started."""
    return {pid for pid, environ in of_each_process("environ") if b"PYTEST_COMPILEIQ_RUN=" in environ}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_candidate_is_one_typed_invalid_evaluation(project, what):
    code, kind, said = HOSTILE[what]
    made = project(NAMED | {"kernel.c": KERNEL_C % code, "test_kernel.py": TEST_PY})
    output = made.pytest("--tune", "--tune-budget=4", "--tune-engine=random", code=0)
    assert f"invalid ({kind})" in output and said in output
    metadata = tomllib.loads(made.one("acf/kernel/*.toml").read_text())
    assert metadata["outcome"] == "baseline"
    assert metadata["search"]["invalid"] == 1


SERVER_PY = """\
import subprocess

import pytest


@pytest.fixture(scope="session")
def server():
    with subprocess.Popen(["sleep", "600"]) as started:
        yield started
        started.kill()
"""


def test_what_a_fixture_started_is_not_left_behind_by_a_candidate(project):
    test = TEST_PY.replace("def test_kernel(acf):", "def test_kernel(acf, server):\n    assert server.poll() is None")
    code = KERNEL_C % HOSTILE["forks a daemon"][0]
    made = project(NAMED | {"kernel.c": code, "test_kernel.py": test, "conftest.py": SERVER_PY})
    output = made.pytest("--tune", "--tune-budget=4", "--tune-engine=random", code=0)
    assert "invalid (crash)" in output and "behind" in output
    assert tomllib.loads(made.one("acf/kernel/*.toml").read_text())["search"]["invalid"] == 1


CONFTEST_PY = """\
import itertools

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    channel = getattr(pyfuncitem.config.pluginmanager.get_plugin("compileiq-worker"), "channel", None)
    if channel is not None:
        tick, ticks = channel.tick, itertools.count()
        channel.tick = lambda: 1 / 0 if next(ticks) == 1 else tick()  # once it has entered, a task's beginning
    return (yield)
"""


def test_a_test_that_ends_within_its_task_is_one_typed_failure_with_its_reason(project):
    test = TEST_PY.replace('space={"-ffast-math": literal("", knockout_prob=0.5)}, ', "")
    made = project(NAMED | {"kernel.c": KERNEL_C % "", "test_kernel.py": test, "conftest.py": CONFTEST_PY})
    output = made.pytest("--tune", "--tune-budget=4", code=1)
    assert "the test ended within its task" in output and "ZeroDivisionError" in output


def test_kill_9_of_pytest_leaves_nothing_running(project):
    made = project(
        NAMED
        | {
            "kernel.c": KERNEL_C % "for (;;) sleep(1);",
            "test_kernel.py": TEST_PY.replace("timeout_s=2", "timeout_s=600"),
        }
    )
    environment = dict(os.environ)
    environment.pop("PYTEST_COMPILEIQ_RUN", None)
    parent = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--tune", "--tune-engine=random", "--tune-budget=4", "-q", "-p", "no:xdist"],
        cwd=made.root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    mine = _wait_for(lambda: {pid for pid in carriers() if _started_in(pid, made.root)})
    assert mine, "no worker was started"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert _wait_for(lambda: not {pid for pid in carriers() if pid in mine})


# Asked for its version, it says who it is and answers no more.
SILENT_COMPILER = """\
#!/bin/sh
case " $* " in *" --version "*) echo $$ > asked; exec sleep 600 ;; esac
exec gcc "$@"
"""


def test_kill_9_while_the_compiler_is_asked_what_it_is_leaves_neither_it_nor_a_folder(project, tmp_path):
    test = TEST_PY.replace('Cc("kernel.c")', 'Cc("kernel.c", compiler="./compiler")')
    made = project(NAMED | {"kernel.c": KERNEL_C % "", "test_kernel.py": test, "compiler": SILENT_COMPILER})
    (made.root / "compiler").chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    environment.pop("PYTEST_COMPILEIQ_RUN", None)
    parent = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--tune", "--tune-budget=4", "-q", "-p", "no:xdist"],
        cwd=made.root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    asked = made.root / "asked"
    assert _wait_for(lambda: asked.exists() and asked.read_text().strip()), "the compiler was not asked"
    assert list(temporary.glob("compileiq-*"))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert _wait_for(lambda: int(asked.read_text()) not in carriers())
    assert _wait_for(lambda: not list(temporary.glob("compileiq-*")))


def _started_in(pid: int, root: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").resolve() == root.resolve()
    except OSError:
        return False


def _wait_for(condition, seconds: float = 60.0):
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return value
