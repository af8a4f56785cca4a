"""A worker that builds for another machine: by the compiler that it has, and without entering the test."""

from __future__ import annotations

import os
import sys

import pytest

from pytest_compileiq.benchmark.builds import put
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.system.process import Guard
from pytest_compileiq.workers.local import LocalTransport
from pytest_compileiq.workers.messages import BuildRefused, Identify, Make, Start
from pytest_compileiq.workers.pool import Worker
from pytest_compileiq.workers.transport import WorkerDied
from tests.examples import SUM_C
from tests.projects import make_project

TEST = """\
import pytest
from pathlib import Path
from pytest_compileiq import Cc, minimize

@pytest.fixture
def entered():
    Path("entered").touch()

@pytest.mark.tune(Cc("sum.c", flags="-O1", compiler="COMPILER"), objectives=[minimize("code_bytes")])
def test_total(acf, entered):
    acf.build()
"""
NODEID = "test_sum.py::test_total"


@pytest.fixture
def worker(tmp_path):
    """A worker of a project whose compiler is named so."""
    workers = []

    def start(compiler: str):
        made = make_project(tmp_path / "project", {"sum.c": SUM_C, "test_sum.py": TEST.replace("COMPILER", compiler)})
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with_options = Start(".", (NODEID,), {"plugins": []}, (), (None,), environment)
        workers.append(Worker(LocalTransport(made.root, guard, guard.folder / "builds").launch(with_options, 0)))
        return workers[0], made

    with Guard(tmp_path / "run") as guard:
        yield start
        for each in workers:
            each.line.kill()


def test_it_builds_what_it_is_asked_and_enters_no_test(worker, tmp_path):
    asked, made = worker("gcc")
    told = asked.query(Identify(NODEID, None), 60)
    assert told.identity["compiler"].startswith("gcc ")
    assert str(tmp_path) not in str(told.identity)
    baseline, other = (
        put(asked.query(Make(NODEID, {}, controls), 60).build, tmp_path / name)
        for name, controls in {"baseline": None, "other": ControlsFile("options", b"-O3\n", {"-O": 3})}.items()
    )
    assert baseline.digest != other.digest and other.path.read_bytes()[:4] == b"\x7fELF"
    refused = asked.query(Make(NODEID, {}, ControlsFile("options", b"-fno-such\n", {})), 60)
    assert isinstance(refused, BuildRefused) and "-fno-such" in refused.reason and refused.kind == "compile"
    assert asked.query(Make(NODEID, {}, None), 60).build.code == baseline.code
    assert not (made.root / "entered").exists()


def test_a_machine_without_the_compiler_says_so(worker):
    asked, _ = worker("no-such-gcc")
    with pytest.raises(WorkerDied, match="no compiler 'no-such-gcc' on PATH"):
        asked.query(Identify(NODEID, None), 60)


def test_a_test_that_is_not_there_is_not_built(worker):
    asked, _ = worker("gcc")
    with pytest.raises(WorkerDied, match="not collected"):
        asked.query(Make("test_sum.py::test_other", {}, None), 60)
