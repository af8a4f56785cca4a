"""Winners under stress with real gcc: what the search's one input does not show, other draws of ``acf.rng`` do."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path

import pytest

from pytest_compileiq.cli.main import main
from tests.projects import Project, make_project, naming
from tests.repository import git

NANS_C = """\
#include <math.h>
/* Under -ffinite-math-only nothing is no number. */
int nans(const float *x, int n) {
    int count = 0;
    for (int i = 0; i < n; i++)
        if (isnan(x[i])) count++;
    return count;
}
"""
KAHAN_C = """\
float kahan(const float *x, int n) {
    float sum = 0, lost = 0;
    for (int i = 0; i < n; i++) {
        float y = x[i] - lost, t = sum + y;
        lost = (t - sum) - y;
        sum = t;
    }
    return sum;
}
"""
SUM_C = """\
float total(const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum;
}
"""
TEST_PY = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, draws, literal, minimize


def tune(source, option, flags="-O2", **arguments):
    space = {option: literal("")}
    return pytest.mark.tune(Cc(source, flags=flags), space=space, objectives=[minimize("instructions")], **arguments)


def called(function, x, result=ctypes.c_float):
    function.restype = result
    return function(x.ctypes.data_as(ctypes.c_void_p), x.size)


@tune("nans.c", "-ffinite-math-only")
def test_nans(acf):
    x = draws.special(acf.rng, 64, share=0.01)  # most draws hold no NaN
    assert called(acf.build().load().nans, x, ctypes.c_int) == np.isnan(x).sum()


@tune("kahan.c", "-funsafe-math-optimizations")
def test_kahan(acf):
    x = draws.normal(acf.rng, 4096)
    acf.compare("sum", [np.float32(called(acf.build().load().kahan, x))], reference=[x.sum(dtype=np.float64)])


@tune("sum.c", "-fno-unroll-loops", "-O1 -funroll-loops", stress=20)
def test_total(acf):
    x = draws.special(acf.rng, 64, share=0.01)
    total = called(acf.build().load().total, x)
    assert np.isfinite(total)  # no kernel's fault
    acf.compare("sum", [total])
"""


@pytest.fixture(scope="module")
def _tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The project, and what its tune printed."""
    files = {"nans.c": NANS_C, "kahan.c": KAHAN_C, "sum.c": SUM_C, "test_k.py": TEST_PY}
    named = naming("-ffinite-math-only", "-funsafe-math-optimizations", "-fno-unroll-loops")
    made = make_project(tmp_path_factory.mktemp("stressed") / "project", {**named, **files})
    return made.root, made.pytest("--tune", "--tune-budget=2", code=0)


@pytest.fixture
def stressed(_tuned, tmp_path) -> Project:
    shutil.copytree(_tuned[0], tmp_path / "project")
    return Project(tmp_path / "project")


def stored(project: Project, name: str) -> str:
    return project.one(f"acf/{name}/*.toml").read_text()


def test_a_winner_that_is_wrong_for_what_the_search_did_not_draw_is_not_stored(stressed, _tuned):
    assert 'outcome = "baseline"' in stored(stressed, "nans")
    (command,) = re.findall(r"repeat it: pytest (test_k\.py::test_nans --tune-draw=\d+ --tune-from=\S+)", _tuned[1])
    repeated = stressed.pytest(*command.split(), code=1)
    assert "called(acf.build().load().nans, x, ctypes.c_int) == np.isnan(x).sum()" in repeated
    assert "both arms hold on draw 0" in stressed.pytest(*re.sub(r"draw=\d+", "draw=0", command).split(), code=0)


def test_a_winner_that_is_less_accurate_is_stored_and_called_so(stressed, _tuned):
    said = r"less accurate: 'sum' on default has [\d.]+ times the baseline's error, and is farther off its reference on \d+ of \d+ draws"
    assert re.search(said, _tuned[1])
    assert 'outcome = "tuned"' in stored(stressed, "kahan")


def test_what_is_less_accurate_and_by_which_option_is_told_wherever_a_winner_is_shown(stressed, monkeypatch, capsys):
    monkeypatch.chdir(stressed.root)
    git(stressed.root, "init", "-q", "-b", "main")
    git(stressed.root, "add", "test_k.py")
    git(stressed.root, "commit", "-q", "-m", "before")
    renderings = (
        ("show", "kahan"),
        ("diff", "HEAD"),
        ("diff", "HEAD", "--format", "markdown"),
        ("report", "page.html"),
    )
    for arguments in renderings:
        assert main([*arguments]) == 0
        shown = capsys.readouterr().out + "".join(path.read_text() for path in stressed.root.glob("*.html"))
        for said in ("less accurate: 'sum' on default", "relaxed-maths (-funsafe-math-optimizations)"):
            assert said in html.unescape(shown), arguments


def test_a_draw_on_which_the_baseline_fails_is_unusable_and_tells_what_is_left(stressed, _tuned):
    toml = stored(stressed, "total")
    assert 'outcome = "tuned"' in toml and "draws = 20\n" in toml
    usable = int(re.search(r"usable = (\d+)", toml)[1])
    assert 0 < usable < 20
    assert f"stress: {usable} of 20 draws, all clean" in _tuned[1]
    assert "every compared output has the baseline's bits" in _tuned[1]


@pytest.mark.slow
def test_a_normal_run_draws_what_the_search_drew_and_one_draw_can_be_repeated(stressed):
    stressed.pytest(code=0)
    assert "both arms hold on draw 3" in stressed.pytest("test_k.py::test_kahan", "--tune-draw=3", code=0)
    assert "leave --tune out" in stressed.pytest("--tune", "--tune-draw=3", code=4)
