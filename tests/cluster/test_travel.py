"""Nodes that do not see this machine's files: the project and the builds travel, and the search is the same one."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_compileiq.system.watchdog import of_each_process
from tests import needs
from tests.cluster.nodes import SETTINGS, can_hide_files, head, joined
from tests.examples import SUM_C
from tests.projects import NOT_NEEDED, Project, make_project
from tests.waiting import wait_until

TEST = """\
import os, time
from pathlib import Path
import pytest
from pytest_compileiq import Cc, minimize
from sizes import LENGTH  # of the project's own code

HERE = Path(__file__).parent

@pytest.mark.tune(Cc("sum.c", flags="-O1 -fstrict-aliasing"), objectives=[minimize("code_bytes")])
def test_total(acf):
    kernel = acf.build().load()
    assert kernel.total and len((HERE / "data/input.bin").read_bytes()) == LENGTH
    assert os.environ.get("SIZE") == "3"
    assert not [name for name in os.environ if name.startswith("RAY_")]
    if folder := os.environ.get("EVALUATED"):
        with (Path(folder) / "rows").open("a") as stream:
            stream.write(f"{HERE}\\t{acf.build().path}\\t{os.getppid()}\\n")
        while (Path(folder) / "wait").exists():
            time.sleep(0.02)
"""
FILES = {
    "sum.c": SUM_C, "tests/test_sum.py": TEST.replace('"sum.c"', '"../sum.c"'), "src/sizes.py": "LENGTH = 4\n",
    "tests/data/input.bin": "1234", "pytest.ini": "[pytest]\npythonpath = src\n", "__pycache__/left.pyc": "stale",
}  # fmt: skip
BUDGET = 16


@pytest.fixture
def made(tmp_path):
    return make_project(tmp_path / "project", FILES)


@pytest.fixture
def of_this_machine_alone(tmp_path, monkeypatch):
    """The controls that a search finds without a cluster."""
    monkeypatch.setenv("SIZE", "3")
    here = make_project(tmp_path / "here", FILES)
    here.pytest("--tune", f"--tune-budget={BUDGET}", code=0)
    return here.one("acf/total/*.acf").read_bytes()


@dataclass(frozen=True)
class Rows:
    """What was noted."""

    folder: Path

    def evaluated(self) -> list[list[str]]:
        """The test file's directory, what was loaded, and who started the worker, of every evaluation."""
        rows = self.folder / "rows"
        return [line.split("\t") for line in rows.read_text().splitlines()] if rows.exists() else []

    def built(self, root: Path) -> Counter[str]:
        """How many builds ``slow-gcc`` has made ``here``, in ``root``, and ``there``, in a copy on a node."""
        places = (self.folder / "built").read_text().splitlines()
        return Counter("here" if place == str(root) else "there" for place in places if place.endswith("/project"))


@pytest.fixture
def rows(monkeypatch):
    """Where every evaluation ran, and what it loaded: noted in a folder that all nodes see."""
    folder = Path(tempfile.mkdtemp())
    monkeypatch.setenv("EVALUATED", str(folder))
    yield Rows(folder)
    shutil.rmtree(folder)


@pytest.fixture
def on_a_cluster(monkeypatch):
    """The settings of clusters, for nodes and drivers."""
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


@needs.ray
@can_hide_files
def test_a_search_on_a_node_that_sees_no_file_of_this_machine_ends_with_the_same_artifact(
    of_this_machine_alone, made, rows, temporary, on_a_cluster, monkeypatch
):
    monkeypatch.setenv("SIZE", "4")
    node = {"SIZE": "3", "PYTHONDONTWRITEBYTECODE": "1"}
    with head(node, hidden=[made.root, temporary]) as address:
        output = made.pytest("--tune", f"--tune-budget={BUDGET}", f"--tune-on={address}", code=0, forked=False)
    assert not re.search(r"[1-9]\d* invalid", output), output
    assert {Path(where).is_relative_to(made.root) for where, *_ in rows.evaluated()} == {False}
    assert {where.rpartition("/project/")[2] for where, *_ in rows.evaluated()} == {"tests"}
    assert {Path(built).is_relative_to(Path(where).parents[1] / "builds") for where, built, _ in rows.evaluated()} == {
        True
    }
    assert made.one("acf/total/*.acf").read_bytes() == of_this_machine_alone
    assert not list(temporary.iterdir())


def started(made: Project, *arguments: str) -> subprocess.Popen[bytes]:
    """A search that goes on by itself."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    argv = [sys.executable, "-m", "pytest", *(f"-pno:{name}" for name in NOT_NEEDED), "--tune", *arguments]
    return subprocess.Popen(argv, cwd=made.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@needs.ray
@can_hide_files
def test_an_actor_that_takes_the_place_of_a_killed_one_is_given_the_project_again(
    of_this_machine_alone, made, rows, temporary, on_a_cluster
):
    waiting = rows.folder / "wait"
    waiting.touch()
    with head(hidden=[made.root, temporary]) as address:
        driver = started(made, f"--tune-budget={BUDGET}", f"--tune-on={address}")
        assert wait_until(lambda: rows.evaluated() or driver.poll() is not None, 120)
        os.kill(int(rows.evaluated()[0][2]), signal.SIGKILL)
        waiting.unlink()
        output = driver.communicate(timeout=200)[0].decode()
    assert driver.returncode == 0, output
    assert output.count("another one takes its place") == 1 and "Traceback" not in output, output
    assert len({where for where, *_ in rows.evaluated()}) == 2
    assert made.one("acf/total/*.acf").read_bytes() == of_this_machine_alone


SLOW_GCC = """\
#!/bin/sh
case "$*" in *.so*) pwd >> "$EVALUATED/built"; sleep 0.3;; esac
exec gcc "$@"
"""
SLOW_FILES = {
    **FILES, "tests/test_sum.py": FILES["tests/test_sum.py"].replace('-aliasing"', '-aliasing", compiler="./slow-gcc"')
}  # fmt: skip


def slow(folder: Path) -> Project:
    """A project whose compiler notes where it links, and takes its time."""
    # The folder as text: no compiler sees the variable.
    compiler = SLOW_GCC.replace("$EVALUATED", os.environ["EVALUATED"])
    made = make_project(folder, {**SLOW_FILES, "tests/slow-gcc": compiler})
    (made.root / "tests/slow-gcc").chmod(0o755)
    return made


@pytest.fixture
def slow_alone(tmp_path, rows, monkeypatch):
    """The controls that a search with the slow compiler finds without a cluster."""
    monkeypatch.setenv("SIZE", "3")
    here = slow(tmp_path / "alone")
    here.pytest("--tune", f"--tune-budget={BUDGET}", code=0)
    return here.one("acf/total/*.acf").read_bytes()


@needs.ray
@can_hide_files
def test_builds_are_made_here_and_on_a_node_that_builds_alike_and_the_artifact_is_the_same(
    slow_alone, tmp_path, rows, temporary, on_a_cluster
):
    made = slow(tmp_path / "project")
    with head() as address, joined(address, {}, [made.root, temporary]):
        output = made.pytest("--tune", f"--tune-budget={BUDGET}", f"--tune-on={address}", code=0, forked=False)
    assert "builds nothing" not in output and "is not used" not in output, output
    built = rows.built(made.root)
    assert built["here"] >= 2 and built["there"] >= 3, (built, output)  # the baseline on either side
    assert built.total() <= BUDGET + len(("here", "there")), (built, output)
    assert made.one("acf/total/*.acf").read_bytes() == slow_alone


def marks(mark: str) -> list[int]:
    """Processes that were started with ``mark`` in their environment, whoever has adopted them."""
    return [pid for pid, environ in of_each_process("environ") if mark.encode() in environ.split(b"\0")]


@needs.ray
@can_hide_files
def test_builds_that_are_lost_with_their_node_are_made_here(slow_alone, tmp_path, rows, temporary, on_a_cluster):
    made = slow(tmp_path / "project")
    mark = f"COMPILEIQ_NODE_TEST={made.root}"
    with head() as address, joined(address, dict([mark.split("=")]), [made.root, temporary]):
        driver = started(made, f"--tune-budget={BUDGET}", f"--tune-on={address}")
        # Its baseline, and then one of the candidates.
        assert wait_until(lambda: rows.built(made.root)["there"] >= 2, 120)
        for pid in marks(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        output = driver.communicate(timeout=200)[0].decode()
    assert driver.returncode == 0, output
    assert output.count("its builds are made elsewhere") == 1, output
    assert not re.search(r"[1-9]\d* invalid", output) and "Traceback" not in output, output
    assert made.one("acf/total/*.acf").read_bytes() == slow_alone


@pytest.fixture
def clang_as_gcc(tmp_path):
    """A PATH on which gcc is clang."""
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("needs clang beside gcc")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gcc").symlink_to(clang)
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"


@needs.ray
@can_hide_files
def test_a_node_with_another_compiler_builds_nothing_and_is_told_with_both(
    of_this_machine_alone, made, clang_as_gcc, temporary, on_a_cluster
):
    with head() as address, joined(address, {"PATH": clang_as_gcc}, [made.root, temporary]):
        output = made.pytest("--tune", f"--tune-budget={BUDGET}", f"--tune-on={address}", code=0, forked=False)
    told = r"node \w+ \(.*\) builds nothing of tests/test_sum.py::test_total: its compiler: clang .* \(here gcc "
    assert len(re.findall(told, output)) == 1, output
    assert made.one("acf/total/*.acf").read_bytes() == of_this_machine_alone


@needs.ray
@can_hide_files
def test_a_cluster_whose_only_node_has_another_compiler_measures_nothing(
    made, clang_as_gcc, temporary, on_a_cluster, monkeypatch
):
    monkeypatch.setenv("SIZE", "3")
    with head({"PATH": clang_as_gcc}, hidden=[made.root, temporary]) as address:
        output = made.pytest("--tune", f"--tune-budget={BUDGET}", f"--tune-on={address}", code=1, forked=False)
    assert re.search(r"is not used: tests/test_sum.py::test_total: it builds for x86-64-clang\S+ \(here ", output), (
        output
    )
    assert not list(made.root.glob("acf/total/*"))


HOST_GCC = """\
#!/bin/bash
# gcc on a machine whose processor is what host-march prints: a compiler sees no other variable of the machine than PATH
exec gcc "${@/-march=native/-march=$(host-march)}"
"""


def path_of_a_machine(folder: Path, processor: str) -> str:
    """A PATH on which ``host-march`` says that the processor is this one."""
    folder.mkdir()
    (folder / "host-march").write_text(f"#!/bin/sh\necho {processor}\n")
    (folder / "host-march").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@needs.ray
@can_hide_files
def test_native_is_the_processor_of_the_machine_that_measures(tmp_path, temporary, on_a_cluster, monkeypatch):
    far = path_of_a_machine(tmp_path / "far", "x86-64-v2")
    monkeypatch.setenv("PATH", path_of_a_machine(tmp_path / "here", "x86-64"))
    monkeypatch.setenv("SIZE", "3")
    test = FILES["tests/test_sum.py"].replace(
        'flags="-O1 -fstrict-aliasing"', 'flags="-O1 -march=native", compiler="./host-gcc"'
    )
    made = make_project(tmp_path / "project", {**FILES, "tests/test_sum.py": test, "tests/host-gcc": HOST_GCC})
    (made.root / "tests/host-gcc").chmod(0o755)
    with head({"PATH": far}, hidden=[made.root, temporary]) as address:
        output = made.pytest("--tune", f"--tune-budget={BUDGET}", f"--tune-on={address}", code=0, forked=False)
    assert made.one("acf/total/*.toml").name.startswith("x86-64-v2-gcc")
    assert "is not used" not in output and "builds nothing" not in output, output


@needs.ray
@can_hide_files
def test_a_run_whose_tests_import_code_from_elsewhere_is_refused_where_that_would_have_to_travel(
    tmp_path, temporary, on_a_cluster, monkeypatch
):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/sizes.py").write_text("LENGTH = 4")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"), prepend=os.pathsep)
    files = {name: text for name, text in FILES.items() if not name.startswith("src/")}
    second = "import sizes\nfrom test_sum import *\n"
    made = make_project(tmp_path / "project", {**files, "tests/test_again.py": second})
    with head(hidden=[made.root, temporary]) as address:
        output = made.pytest("--tune", f"--tune-budget={BUDGET}", f"--tune-on={address}", code=1, forked=False)
    told = f"the tests import sizes from {tmp_path}/elsewhere/sizes.py, which lies outside the project {made.root}"
    assert output.count(told) >= 1 and "Ray before" not in output, output
