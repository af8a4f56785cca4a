"""Retire, promote, search what is stale: what a team does with an artifact after its proof."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from tests.examples import EXACT_PY, NAMED, SUM_C
from tests.projects import Project, make_project


def artifact(made: Project) -> dict:
    return tomllib.loads(made.one("acf/total/*.toml").read_text())


@pytest.fixture(scope="module")
def _tuned_for_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = NAMED | {"sum.c": SUM_C, "test_sum.py": EXACT_PY}
    made = make_project(tmp_path_factory.mktemp("tuned") / "project", files)
    made.pytest("--tune", "--tune-engine=random", "--tune-budget=40", code=0)
    return made.root


@pytest.fixture
def two_objectives(tmp_path: Path, _tuned_for_two: Path) -> Project:
    """A copy of a project that is tuned for two exact objectives."""
    return Project(shutil.copytree(_tuned_for_two, tmp_path / "project"))


@pytest.mark.slow
def test_a_retired_artifact_builds_the_baseline_and_its_code_is_never_proposed_again(two_objectives):
    made = two_objectives
    before = artifact(made)
    assert "is retired" in made.acf("retire", "total", "--reason", "wrong on odd sizes")
    assert "withdrawn: wrong on odd sizes" in made.pytest(code=0)
    assert "only a tuned artifact can be retired" in made.acf("retire", "total", "--reason", "again", code=2)
    assert "were withdrawn (wrong on odd sizes)" in made.pytest("--tune", "--tune-budget=0", code=1)
    output = made.pytest("--tune", "--tune-stale-only", "--tune-engine=random", "--tune-budget=40", code=0)
    assert "withdrawn before: wrong on odd sizes" in output
    after = artifact(made)
    assert after["withdrawn"] == [
        {"reason": "wrong on odd sizes", "code": {"total": before["code"]["total"]["tuned"]["sha256"]}}
    ]
    assert after["code"]["total"].get("tuned") != before["code"]["total"]["tuned"]


@pytest.mark.slow
def test_stale_only_skips_what_holds_and_what_is_new_and_takes_what_is_stale(two_objectives):
    made = two_objectives
    output = made.pytest("--tune", "--tune-stale-only", "-rs", code=0)
    assert "total still holds for" in output
    made.edit("sum.c", "x[i] * x[i]", "x[i] * x[i] * 3")
    assert "1 passed" in made.pytest("--tune", "--tune-stale-only", "--tune-budget=8", code=0)
    assert "1 passed" in made.pytest(code=0)
    made.edit("test_sum.py", "def test_total", "def test_other")
    assert "has no artifact; --tune-new-only tunes those" in made.pytest("--tune", "--tune-stale-only", "-rs", code=0)
    assert "--tune-stale-only requires --tune" in made.pytest("--tune-stale-only", code=4)


def test_another_point_of_the_front_is_promoted_proven_and_then_holds(two_objectives):
    made = two_objectives
    front = artifact(made)["front"]
    assert "point 0" in made.acf("show", "total")
    assert "no point 99" in made.acf("promote", "total", "--point", "99", code=2)
    chosen = next(
        number
        for number, point in enumerate(front)
        if point["controls"] != artifact(made)["controls"] and max(point["metrics"].values()) <= 1
    ) if len(front) > 1 else 0  # fmt: skip
    assert "unproven" in made.acf("promote", "total", "--point", str(chosen))
    output = made.pytest(code=0)
    assert "PROMOTED" in output and f"point {chosen} of the front, chosen and not proven yet" in output
    assert "prove it: pytest --tune --tune-budget=0 test_sum.py::test_total" in output
    refusal = made.acf("flags", "total", "--compiler", "gcc", code=3)
    assert "chosen and not proven yet: run pytest --tune --tune-budget=0" in refusal and "retired" not in refusal
    assert "is 'promoted', and only a tuned artifact" in made.acf("retire", "total", "--reason", "x", code=2)
    assert "1 passed" in made.pytest("--tune", "--tune-budget=0", code=0)
    stored = artifact(made)
    assert (stored["outcome"], stored["controls"]) == ("tuned", front[chosen]["controls"])
    assert "1 proven" in made.pytest(code=0)


def test_what_cannot_be_retired_or_promoted_is_one_sentence(two_objectives):
    made = two_objectives
    assert "there is no artifact 'nobody' in " in made.acf("retire", "nobody", "--reason", "x", code=2)
    assert "needs a reason" in made.acf("retire", "total", "--reason", " ", code=2)
    output = made.acf("retire", "total", "--reason", "x" * 2001, code=2)
    assert "the reason has 2001 characters, and an artifact holds at most 2000: shorten it" in " ".join(output.split())
    assert "total has no target 'sm_90a': it has " in made.acf(
        "promote", "total", "--point", "0", "--target", "sm_90a", code=2
    )
