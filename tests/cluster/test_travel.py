"""Nodes that do not see this machine's files: the project and the builds travel, and the search is the same one."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import needs
from tests.cluster.nodes import SETTINGS, can_hide_files, head, joined
from tests.examples import SUM_C
from tests.projects import Project, make_project

TEST = """\
import os
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
            stream.write(f"{HERE}\\t{acf.build().path}\\n")
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


@pytest.fixture
def temporary(monkeypatch):
    """Where runs have their folders: of a short name, since Ray keeps sockets there."""
    folder = Path(tempfile.mkdtemp(prefix="", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Rows:
    """What was noted."""

    folder: Path

    def evaluated(self) -> list[list[str]]:
        """The test file's directory and what was loaded, of every evaluation."""
        return [line.split("\t") for line in (self.folder / "rows").read_text().splitlines()]

    def built(self) -> list[str]:
        """The project's root, of every build by ``slow-gcc``."""
        return (self.folder / "built").read_text().splitlines()


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
    assert {Path(where).is_relative_to(made.root) for where, _ in rows.evaluated()} == {False}
    assert {where.rpartition("/project/")[2] for where, _ in rows.evaluated()} == {"tests"}
    assert {Path(built).is_relative_to(Path(where).parents[1] / "builds") for where, built in rows.evaluated()} == {
        True
    }
    assert made.one("acf/total/*.acf").read_bytes() == of_this_machine_alone
    assert not list(temporary.iterdir())


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
    made = make_project(folder, {**SLOW_FILES, "tests/slow-gcc": SLOW_GCC})
    (made.root / "tests/slow-gcc").chmod(0o755)
    return made


@pytest.fixture
def slow_alone(tmp_path, rows, monkeypatch):
    """The controls that a search with the slow compiler finds without a cluster."""
    monkeypatch.setenv("SIZE", "3")
    here = slow(tmp_path / "here")
    here.pytest("--tune", f"--tune-budget={BUDGET}", code=0)
    return here.one("acf/total/*.acf").read_bytes()


@needs.ray
@can_hide_files
def test_builds_are_made_here_and_on_a_node_that_builds_alike_and_the_artifact_is_the_same(
    slow_alone, tmp_path, rows, temporary, on_a_cluster
):
    made, built_alone = slow(tmp_path / "project"), len(rows.built())
    with head() as address, joined(address, {}, [made.root, temporary]):
        output = made.pytest("--tune", f"--tune-budget={BUDGET}", f"--tune-on={address}", code=0, forked=False)
    assert "builds nothing" not in output and "is not used" not in output, output
    where = Counter(place == str(made.root) for place in rows.built()[built_alone:])
    assert where[True] >= 3 and where[False] >= 3, (where, output)
    assert where.total() == built_alone + 1, (where, built_alone, output)  # the baseline, once more on the node
    assert made.one("acf/total/*.acf").read_bytes() == slow_alone
