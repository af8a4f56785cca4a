"""Workers on a Ray cluster: a search whose actor or whose driver is killed loses nothing, and leaves nothing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys

import pytest

from pytest_compileiq.system.watchdog import of_each_process
from tests import needs
from tests.cluster.clusters import real_cluster
from tests.examples import SUM_C
from tests.projects import NOT_NEEDED, Project, make_project
from tests.waiting import wait_until

SIZE_PY = """\
import os, time
from pathlib import Path
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("sum.c", flags="-O1 -fstrict-aliasing"), objectives=[minimize("code_bytes")])
def test_total(acf):
    acf.build()
    assert not [name for name in os.environ if name.startswith("RAY_")]  # no candidate has the cluster's token
    if not acf.is_baseline:
        with Path("actors").open("a") as stream:
            stream.write(f"{os.getppid()}\\n")
        while Path("wait").exists():
            time.sleep(0.02)
"""
MARK = "COMPILEIQ_CLUSTER_TEST"
BUDGET = 16


@pytest.fixture
def made(tmp_path):
    return make_project(tmp_path / "project", {"sum.c": SUM_C, "test_sum.py": SIZE_PY})


def start(made: Project, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    argv = [sys.executable, "-m", "pytest", *(f"-pno:{name}" for name in NOT_NEEDED), "--tune", *arguments]
    return subprocess.Popen(
        argv, cwd=made.root, env={**environment, MARK: str(made.root)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def actors(made: Project) -> list[int]:
    """The process that each evaluation's worker was started by."""
    path = made.root / "actors"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def left(made: Project) -> list[int]:
    """Processes that the searches started, whoever has killed or adopted them meanwhile."""
    mark = f"{MARK}={made.root}".encode()
    return [pid for pid, environ in of_each_process("environ") if mark in environ.split(b"\0")]


@needs.ray
def test_a_search_whose_driver_and_whose_actor_are_killed_ends_as_an_unkilled_one_and_leaves_nothing(
    made, tmp_path, temporary
):
    here = make_project(tmp_path / "here", {"sum.c": SUM_C, "test_sum.py": SIZE_PY})
    here.pytest("--tune", f"--tune-budget={BUDGET}", code=0)

    def evaluating(process: subprocess.Popen[bytes], count: int) -> bool:
        return wait_until(lambda: len(actors(made)) >= count or process.poll() is not None, 120)

    (made.root / "wait").touch()
    driver = start(made, f"--tune-budget={BUDGET}", "--tune-on=ray")
    assert evaluating(driver, 1)
    driver.kill()
    driver.communicate()
    assert wait_until(lambda: not left(made), 90)

    (made.root / "wait").unlink()
    evaluated = len(actors(made))
    driver = start(made, f"--tune-budget={BUDGET}", "--tune-on=ray")
    assert evaluating(driver, evaluated + 3)
    with contextlib.suppress(ProcessLookupError):
        os.kill(actors(made)[-1], signal.SIGKILL)
    output = driver.communicate(timeout=200)[0].decode()
    assert driver.returncode == 0, output
    assert re.search(rf"{BUDGET} evaluations in", output), output
    assert "invalid" not in output and "Traceback" not in output, output
    assert output.count("the worker's actor on node") == output.count("; another one takes its place") == 1
    assert len(set(actors(made))) >= 3, output  # one of each run, and another for the killed one
    assert made.one("acf/total/*.acf").read_bytes() == here.one("acf/total/*.acf").read_bytes()
    assert wait_until(lambda: not left(made) and not list(temporary.iterdir()), 90)


@pytest.fixture
def two_nodes(monkeypatch):
    """The address of a cluster of two nodes."""
    with real_cluster(2) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        yield cluster.address


SIDE_BY_SIDE_PY = """\
import os, time
from pathlib import Path
import pytest
from pytest_compileiq import Cc, minimize

def evaluate(acf, name):
    acf.build()
    Path(name).touch()
    while not (Path("first").exists() and Path("second").exists()):  # neither gets past this alone
        time.sleep(0.02)

@pytest.mark.tune(Cc("sum.c", flags="-O1 -fstrict-aliasing"), objectives=[minimize("code_bytes")])
def test_first(acf):
    evaluate(acf, "first")

@pytest.mark.tune(Cc("sum.c", flags="-O2 -fstrict-aliasing"), objectives=[minimize("code_bytes")])
def test_second(acf):
    evaluate(acf, "second")
"""


@pytest.fixture
def two_benchmarks(tmp_path):
    return make_project(tmp_path / "project", {"sum.c": SUM_C, "test_sum.py": SIDE_BY_SIDE_PY})


@needs.ray
@pytest.mark.parametrize(
    ("budget", "said"),
    [("--tune-budget=8", "8 evaluations in"), ("--tune-total=24", "of 24 evaluations; 2 closed; done")],
)
def test_two_benchmarks_are_tuned_at_once(two_benchmarks, two_nodes, budget, said):
    driver = start(two_benchmarks, budget, f"--tune-on={two_nodes}")
    output = driver.communicate(timeout=200)[0].decode()
    assert driver.returncode == 0, output
    assert said in output and output.count("TUNED") >= 2, output
    assert "asks for no token" not in output


HANGS_PY = """\
import time
import pytest
from pytest_compileiq import Cc, literal, minimize

@pytest.mark.tune(
    Cc("sum.c", flags="-O1"), space={"-O2": literal("")}, objectives=[minimize("code_bytes")], timeout_s=4, budget=1,
    engine="grid",
)
def test_total(acf):
    acf.build()
    while not acf.is_baseline:
        time.sleep(60)
"""


@needs.ray
def test_a_candidate_that_hangs_is_ended_where_it_runs_and_is_no_loss_of_its_device(tmp_path, two_nodes):
    made = make_project(tmp_path / "project", {"sum.c": SUM_C, "test_sum.py": HANGS_PY})
    driver = start(made, f"--tune-on={two_nodes}")
    output = driver.communicate(timeout=200)[0].decode()
    assert "no progress for 4 s; see timeout_s" in output, output
    assert "was lost" not in output and "Traceback" not in output, output
