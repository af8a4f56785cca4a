"""Whose an artifact is: a living test's, and nobody else's; a test that does not run today is still there."""

from __future__ import annotations

import shlex
import shutil

import pytest

from tests.examples import SIZE_PY, SUM_C
from tests.projects import Project, make_project

CALM = SIZE_PY.replace("    time.sleep(0.02)\n", "")


@pytest.fixture(scope="module")
def _tuned_once(tmp_path_factory) -> Project:
    made = make_project(tmp_path_factory.mktemp("owners") / "project", {"a/sum.c": SUM_C, "a/test_sum.py": CALM})
    made.pytest("--tune", "--tune-budget=3", "--tune-engine=random", code=0)
    return made


@pytest.fixture
def tuned(tmp_path, _tuned_once) -> Project:
    return Project(shutil.copytree(_tuned_once.root, tmp_path / "project"))


def test_another_tests_artifact_is_not_overwritten_nor_believed(tuned):
    shutil.copytree(tuned.root / "a", tuned.root / "b")
    before = tuned.one("acf/total/*.toml").read_bytes()
    for arguments in ((), ("--tune-new-only",), ("--tune-stale-only",), ("--tune-budget=0",), ("--tune-total=9",)):
        output = tuned.pytest("--tune", *arguments, "b/test_sum.py", code=1)
        assert "holds the artifact of a/test_sum.py::test_total, which is not overwritten" in output
        assert "tune(name=" in output
    assert "tune(name=" in tuned.pytest("b/test_sum.py", code=1)
    assert tuned.one("acf/total/*.toml").read_bytes() == before


UNSEEN = {
    "a conftest that shrinks the items": "def pytest_collection_modifyitems(items):\n    items.clear()\n",
    "a conftest that ignores the file": "collect_ignore = ['a']\n",
}


@pytest.mark.slow
def test_a_test_that_is_not_seen_keeps_its_artifact_until_its_text_is_gone(tuned):
    fail = ("-o", "acf_orphans=fail")
    for text in UNSEEN.values():
        (tuned.root / "conftest.py").write_text(text)
        assert "orphan" not in tuned.pytest(*fail, code=5).replace("acf_orphans", "")
        assert "no artifact is orphaned" in tuned.acf("prune", "--yes")
    (tuned.root / "conftest.py").unlink()
    assert "orphan" not in tuned.pytest(*fail, "-o", "norecursedirs=a", code=5).replace("acf_orphans", "")
    tuned.edit("a/test_sum.py", "@pytest.mark.tune", "if HAVE_GPU := False:\n  @pytest.mark.tune")
    tuned.edit("a/test_sum.py", "def test_total(acf):\n    acf", "  def test_total(acf):\n    acf")
    assert "orphan" not in tuned.pytest(*fail, code=5).replace("acf_orphans", "")
    (tuned.root / "a/test_sum.py").write_text("def test_other(): pass\n")
    assert "orphaned, no test claims them: total" in tuned.pytest(*fail, code=11)
    assert "1 removed" in tuned.acf("prune", "--yes")


MOVED_PY = """\
import pytest
from dataclasses import dataclass
from pytest_compileiq import Cc, choice, minimize
from .helper import built

@dataclass
class Case:
    n: int

class TestSum:
    @pytest.mark.parametrize("case", [Case(3)], ids=["small"])
    @pytest.mark.tune(Cc("sum.c", flags="-O1"), space={"-O": choice([2, "s"])}, objectives=[minimize("code_bytes")])
    def test_total(self, acf, buffer, case):
        built(acf, buffer)
"""


@pytest.mark.slow
def test_a_moved_or_renamed_test_is_told_to_keep_its_artifact_and_keeps_it(tmp_path):
    helper = "def built(acf, buffer):\n    acf.build()\n    assert buffer == 3\n"
    conftest = "import pytest\n\n@pytest.fixture\ndef buffer():\n    return 3\n"
    files = {"test_sum.py": MOVED_PY, "sum.c": SUM_C, "helper.py": helper, "conftest.py": conftest, "__init__.py": ""}
    project = make_project(tmp_path / "project", {f"a/{name}": text for name, text in files.items()})
    project.pytest("--tune", "--tune-budget=2", "--tune-engine=grid", code=0)

    def keeps(name: str) -> None:
        output = project.pytest(code=1)
        assert "has its digest and its machine code\nif the test moved or was renamed, keep the artifact: " in output
        command = shlex.split(output.partition("keep the artifact: pytest ")[2].splitlines()[0])[:2]
        assert "adopted the artifact of a" in project.pytest(*command, code=0)
        assert "1 proven" in project.pytest("-o", "acf_orphans=fail", code=0)
        assert project.one("acf/*/*.toml").parent.name == name

    (project.root / "a").rename(project.root / "aa")
    project.edit("aa/test_sum.py", "Cc(", "Cc(  # another comment\n        ")
    keeps("Sum-total-small")
    project.edit("aa/test_sum.py", "class TestSum", "class TestTotal")
    keeps("Total-total-small")
    project.edit("aa/test_sum.py", "def test_total", "def test_whole")
    keeps("Total-whole-small")

    project.edit("aa/test_sum.py", "def test_whole", "def test_other")
    project.edit("aa/conftest.py", "return 3", "return 1 + 2")
    assert "holds no artifact" in project.pytest("--acf-adopt", code=1), "its fixture is another"
    project.edit("aa/conftest.py", "return 1 + 2", "return 3")
    project.edit("aa/sum.c", "sum += x[i] * x[i]", "sum += x[i]")
    assert "holds no artifact" in project.pytest("--acf-adopt", code=1), "its machine code is another"
    project.edit("aa/sum.c", "sum += x[i]", "sum += x[i] * x[i]")
    project.edit("aa/test_sum.py", "[Case(3)]", "[Case(4)]")
    assert "holds no artifact" in project.pytest("--acf-adopt", code=1), "its input is another"
    assert "leave --tune out" in project.pytest("--acf-adopt", "--tune", code=4)


def test_a_moved_test_that_is_proven_again_is_fresh(tuned):
    (tuned.root / "a").rename(tuned.root / "c")
    assert "was made for a/test_sum.py::test_total" in tuned.pytest(code=1)
    tuned.pytest("--tune", "--tune-budget=0", code=0)
    assert "1 proven" in tuned.pytest(code=0)
