"""What one kernel's artifact taught another's search, with real gcc: said, stored, and never trusted."""

from __future__ import annotations

import hashlib
import re
import shutil
import tomllib

import pytest

from tests.projects import Project, make_project

pytestmark = pytest.mark.slow

KERNELS_C = """\
int dot(const int *restrict x, const int *restrict y, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}
"""
OTHER_C = """\
int largest(const int *x, int n)
{
    int most = x[0];
    for (int i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}
"""
TEST_PY = """\
import ctypes
import pytest
from pytest_compileiq import Cc, literal, minimize

FLAGS = "-O3 -march=x86-64-v3"
SPACE = {f"-f{name}": literal("", knockout_prob=0.9) for name in
         ["no-tree-loop-vectorize", "no-gcse", "no-tree-sra", "no-ivopts", "no-tree-pre", "no-jump-tables", "tracer",
          "no-ipa-sra", "no-if-conversion", "no-tree-slp-vectorize", "split-paths", "gcse-after-reload"]}
VALUES = (ctypes.c_int * 8)(*range(8))


@pytest.mark.tune(Cc("dot.c", flags=FLAGS), space=SPACE, objectives=[minimize("code_bytes")])
def test_dot(acf):
    assert acf.build().load().dot(VALUES, VALUES, 8) == 140


@pytest.mark.tune(Cc("other.c", flags=FLAGS), space=SPACE, objectives=[minimize("code_bytes")])
def test_other(acf):
    assert acf.build().load().largest(VALUES, 8) == 7
"""
UNHEALTHY = 11  # the exit code when all passed and the store is not whole
LEARNED = "starts from what 1 artifact taught: dot/"


@pytest.fixture(scope="module")
def taught_once(tmp_path_factory) -> Project:
    files = {"dot.c": KERNELS_C, "other.c": OTHER_C, "test_two.py": TEST_PY, "pytest.ini": "[pytest]\n"}
    project = make_project(tmp_path_factory.mktemp("taught") / "project", files)
    project.pytest("--tune", "--tune-budget=30", "-k", "dot", code=0)
    return project


@pytest.fixture
def project(taught_once, tmp_path) -> Project:
    return Project(shutil.copytree(taught_once.root, tmp_path / "project"))


def tune_other(project: Project, *arguments: str, code: int = 0) -> str:
    return project.pytest("--tune", "--tune-budget=3", "-k", "other", *arguments, code=code)


def search_of(project: Project, name: str) -> dict:
    return tomllib.loads(project.one(f"acf/{name}/*.toml").read_text())["search"]


def test_three_evaluations_find_what_another_kernel_s_search_learned(project):
    output = tune_other(project)
    assert LEARNED in output
    (teacher,) = search_of(project, "other")["transferred"]
    assert teacher == f"dot/{project.one('acf/dot/*.toml').stem}"
    assert "-fno-tree-loop-vectorize" in project.one("acf/other/*.acf").read_text()
    assert f"taught by  {teacher}" in project.acf("show", "other")
    assert "2 proven" in project.pytest(code=0)


def test_an_artifact_of_sources_that_changed_teaches_nothing(project):
    project.edit("dot.c", "int sum = 0", "int sum = 1")
    assert "starts from" not in tune_other(project)


def test_a_retired_artifact_teaches_nothing(project):
    project.acf("retire", "dot", "--reason", "wrong on odd sizes")
    assert "starts from" not in tune_other(project)


def test_a_damaged_artifact_costs_a_sentence(project):
    metadata = project.one("acf/dot/*.toml")
    metadata.write_text("schema = 1\n")
    output = tune_other(project, code=UNHEALTHY)
    assert "starts from" not in output
    assert f"dot/{metadata.stem} taught nothing: acf/dot/{metadata.name}" in output


def test_a_forged_artifact_brings_no_option_that_the_test_did_not_offer(project):
    metadata, controls = project.one("acf/dot/*.toml"), project.one("acf/dot/*.acf")
    stored = tomllib.loads(metadata.read_text())["controls"]
    evil = b"-fplugin=./evil.so\n-fno-gcse\n"
    sha256 = hashlib.sha256(evil).hexdigest()
    forged = controls.with_name(controls.name.replace(stored["sha256"][:8], sha256[:8]))
    controls.rename(forged).write_bytes(evil)
    text = metadata.read_text().replace(stored["file"], forged.name).replace(stored["sha256"], sha256)
    text = text.replace(f"size_bytes = {stored['size_bytes']}", f"size_bytes = {len(evil)}")
    table = "[controls.knobs]\n" + "".join(f'{name} = ""\n' for name in stored["knobs"])
    assert table in text
    text = text.replace(table, '[controls.knobs]\n"-fplugin=" = "./evil.so"\n-fno-gcse = ""\n')
    brought = re.compile(r"^\[\[?(reduction|attribution)(.*\n)+?(?=^\[provenance\]|\Z)", re.MULTILINE)
    metadata.write_text(brought.sub("", text))
    output = tune_other(project, "-v")
    assert LEARNED in output
    assert "evil" not in output
    assert "evil" not in project.one("acf/other/*.toml").read_text()
