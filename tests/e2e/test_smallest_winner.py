"""The smallest winner with real gcc: two of eight options stay, and every face says how few and what each brings."""

from __future__ import annotations

import json
import shutil
import tomllib

import pytest

from tests.projects import Project, make_project
from tests.repository import git

KERNEL_C = """\
int dot(const int *restrict x, const int *restrict y, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

int of_eight(const int *x)
{
    int sum = 0;
    for (int i = 0; i < 8; i++)
        sum += x[i] * x[i];
    return sum;
}
"""
TEST_PY = """\
import ctypes
import pytest
from pytest_compileiq import Cc, literal, minimize

NEEDED = ["-fno-tree-loop-vectorize", "--param=max-completely-peel-times=1"]
SHADOWED = ["-fno-tree-slp-vectorize", "-mprefer-vector-width=128"]
IDLE = ["-fno-jump-tables", "-fno-gcse", "-fno-tree-sra", "-fno-ipa-sra"]


@pytest.mark.tune(
    Cc("kernel.c", flags="-O3 -march=x86-64-v3"),
    space={name: literal("", knockout_prob=0.001) for name in [*IDLE, *SHADOWED, *NEEDED]},
    objectives=[minimize("code_bytes")],
)
def test_kernel(acf):
    library = acf.build().load()
    values = (ctypes.c_int * 8)(*range(8))
    assert library.dot(values, values, 8) == library.of_eight(values) == 140
"""
NEEDED = {"-fno-tree-loop-vectorize", "--param=max-completely-peel-times=1"}
TOLD = "8 controls → 2: 6 change no machine code, in"
BRINGS = "without -fno-tree-loop-vectorize code_bytes"


@pytest.fixture(scope="module")
def tuned_small(tmp_path_factory) -> tuple[Project, str]:
    files = {"kernel.c": KERNEL_C, "test_kernel.py": TEST_PY, "pytest.ini": "[pytest]\n"}
    project = make_project(tmp_path_factory.mktemp("small") / "project", files)
    return project, project.pytest("--tune", "--tune-budget=2", code=0)


@pytest.fixture
def small(tuned_small, tmp_path) -> Project:
    shutil.copytree(tuned_small[0].root, tmp_path / "project")
    return Project(tmp_path / "project")


def read(project: Project) -> dict:
    return tomllib.loads(project.one("acf/kernel/*.toml").read_text())


def test_what_changes_nothing_is_not_stored_and_the_run_says_what_the_rest_brings(tuned_small):
    project, output = tuned_small
    artifact = read(project)
    assert artifact["classes"] == ["value-safe"]
    assert artifact["reduction"]["before"] == 8 and artifact["reduction"]["after"] == 2
    sizes = {entry["knobs"][0]: entry["value_without"] - entry["value"] for entry in artifact["attribution"]["without"]}
    assert set(sizes) == set(artifact["controls"]["knobs"]) == NEEDED
    assert all(lost > 0 for lost in sizes.values())
    assert TOLD in output and BRINGS in output
    assert "PROVEN" in project.pytest(code=0)


def test_every_face_of_a_review_says_how_few_controls_are_stored_and_what_each_brings(small):
    git(small.root, "init", "-q", "-b", "main")
    git(small.root, "add", "kernel.c", "test_kernel.py", "pytest.ini")
    git(small.root, "commit", "-qm", "A kernel")
    assert TOLD in small.acf("show", "kernel") and BRINGS in small.acf("show", "kernel")
    for shape in ("terminal", "markdown"):
        review = small.acf("diff", "HEAD", "--format", shape)
        assert TOLD in review and "-fno-tree-loop-vectorize" in review, review
    (change,) = json.loads(small.acf("diff", "HEAD", "--format", "json"))["changes"]
    assert change["reduction"]["after"] == 2 and len(change["attribution"]["without"]) == 2
    small.acf("report", "page.html")
    page = (small.root / "page.html").read_text()
    assert TOLD in page and "Effect of each control" in page


def test_a_winner_is_stored_as_it_was_found_where_that_is_asked_for(small):
    shutil.rmtree(small.root / "acf")
    output = small.pytest("--tune", "--tune-budget=2", "--no-tune-reduce", code=0)
    assert "controls →" not in output and len(read(small)["controls"]["knobs"]) == 8
    assert "reduced    no: all 8 controls as they were found" in small.acf("show", "kernel")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("after = 2", "after = 3", "8 controls less 6 and 0 are not the 3 that stay"),
        ("after = 2\nby_code = 6", "after = 0\nby_code = 8", "says that 0 controls stay, and there are 2"),
        ('knobs = [\n    "-fno-tree-loop-vectorize",\n]', 'knobs = ["-O9"]', "-O9"),
    ],
)
def test_what_an_artifact_says_of_its_size_is_held_to_its_controls(small, old, new, said):
    small.edit(str(small.one("acf/kernel/*.toml").relative_to(small.root)), old, new)
    for output in (small.pytest(code=1), small.acf("check", code=1)):
        assert "kernel" in output and said in output, output
