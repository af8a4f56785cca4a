"""An engine of a third party, brought by an entry point: it searches, and what it breaks is its own, in one sentence."""

from __future__ import annotations

import os

import pytest

from tests.projects import Project

pytestmark = pytest.mark.slow

ENGINE_PY = """\
import random

from pytest_compileiq.model import Candidate


class Shuffled:
    def __init__(self, brief):
        self.left = [brief.space.knobs(point) for point in brief.space.points()]
        random.Random(brief.seed).shuffle(self.left)

    def ask(self, n):
        taken, self.left = self.left[:n], self.left[n:]
        return [Candidate(knobs, origin="shuffled") for knobs in taken]

    def tell(self, results):
        assert all(told.scores or told.failure for told in results)


class Patient(Shuffled):
    def ask(self, n):
        self.expect_one_thread()
        return super().ask(n)

    def tell(self, results):
        self.expect_one_thread()

    def expect_one_thread(self):
        import numpy
        from threadpoolctl import threadpool_info

        assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {1}


class Quick(Shuffled):
    def ask(self, n):
        assert n <= 4
        return super().ask(n)


class Unlicensed:
    def __init__(self, brief):
        raise RuntimeError("no licence server")


class Amnesiac(Shuffled):
    def tell(self, results):
        raise KeyError("candidate 3")


class Lost(Shuffled):
    def ask(self, n):
        return [Candidate({"-no-such-knob": 1})]
"""
ENTRY_POINTS = """\
[pytest_compileiq.engines]
amnesiac = shuffling:Amnesiac
lost = shuffling:Lost
nowhere = not_there:Engine
patient = shuffling:Patient
quick = shuffling:Quick
shuffled = shuffling:Shuffled
unlicensed = shuffling:Unlicensed
"""
SUM_C = "int sum(const int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += 3 * x[i]; return s; }\n"
TEST_PY = """\
import pytest

from pytest_compileiq import Cc, choice, literal, minimize


@pytest.mark.tune(
    Cc("sum.c", flags="-O3"),
    space={"-O": choice([1, 2, "s"]), "-funroll-loops": literal("", 0.5)},
    objectives=[minimize("code_bytes")],
)
def test_sum(acf):
    acf.build()
"""


@pytest.fixture
def with_engines(project, tmp_path, monkeypatch) -> Project:
    """A project beside which the package ``shuffling`` is installed."""
    installed = tmp_path / "installed"
    metadata = installed / "shuffling-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shuffling\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    (installed / "shuffling.py").write_text(ENGINE_PY)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    return project({"sum.c": SUM_C, "test_sum.py": TEST_PY})


def test_an_engine_of_an_entry_point_searches_proves_and_is_replayed(with_engines):
    output = with_engines.pytest("--tune", "--tune-budget=20", "--tune-engine=shuffled", code=0)
    assert "TUNED" in output
    assert "6 evaluations" in output  # the space ends before the budget
    assert "1 passed" in with_engines.pytest(code=0)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unlicensed", "(shuffling:Unlicensed of shuffling 1.0): loading it failed: RuntimeError: no licence server"),
        ("amnesiac", "(shuffling:Amnesiac of shuffling 1.0): tell() failed: KeyError: 'candidate 3'"),
        ("lost", "(shuffling:Lost of shuffling 1.0): ask() gave a candidate outside the space: the space has no knob"),
        ("nowhere", "(not_there:Engine of shuffling 1.0): loading it failed: ModuleNotFoundError"),
    ],
)
def test_what_an_engine_breaks_is_one_sentence_that_names_it(with_engines, name, said):
    output = with_engines.pytest("--tune", "--tune-budget=8", f"--tune-engine={name}", code=1)
    assert f"the engine {name!r} {said}" in output
    assert "EngineConformance on it, or use --tune-engine=ga" in output
    assert not list(with_engines.root.glob("acf/**/*.toml"))


def test_an_unknown_engine_is_refused_with_those_of_entry_points_among_what_exists(with_engines):
    output = with_engines.pytest("--tune", "--tune-engine=shuffle", code=1)
    assert (
        "there is no engine 'shuffle' (did you mean 'shuffled'?): expected auto, amnesiac, compileiq, ga, grid"
        in output
    )


def test_an_unknown_engine_is_told_before_anything_is_built(with_engines):
    with_engines.edit("sum.c", "{", "{ no C;")
    output = with_engines.pytest("--tune", "--tune-engine=shuffle", code=1)
    assert "there is no engine 'shuffle'" in output and "sum.c" not in output


def test_many_jobs_do_not_make_a_search_of_one_batch(with_engines):
    with_engines.pytest("--tune", "--tune-engine=quick", "--tune-budget=32", "--tune-jobs=64", code=0)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core: linear algebra has one thread anyway")
def test_an_engine_s_linear_algebra_leaves_the_cores_to_the_compilers(with_engines, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    # NumPy's threads are counted once it is there.
    (with_engines.root / "conftest.py").write_text("import numpy\n")
    with_engines.pytest("--tune", "--tune-engine=patient", "--tune-budget=3", code=0, forked=False)
