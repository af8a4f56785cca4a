"""Whose an artifact is: a living test's, and nobody else's; a test that does not run today is still there."""

from __future__ import annotations

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


def test_a_moved_test_that_is_proven_again_is_fresh(tuned):
    (tuned.root / "a").rename(tuned.root / "c")
    assert "was made for a/test_sum.py::test_total" in tuned.pytest(code=1)
    tuned.pytest("--tune", "--tune-budget=0", code=0)
    assert "1 proven" in tuned.pytest(code=0)
