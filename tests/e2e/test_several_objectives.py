"""Several objectives: a front is kept, the chosen point worsens none, and every claim is its own."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from pytest_compileiq.cli.main import main
from tests.examples import EXACT_PY, NAMED, SUM_C
from tests.projects import Project, make_project

MIXED_PY = """\
import ctypes
import numpy as np, pytest
from pytest_compileiq import Cc, choice, literal, minimize

@pytest.fixture(scope="module")
def x():
    return np.ones(65536, np.float32)

@pytest.mark.tune(
    Cc("sum.c", flags="-O0"),
    space={"-O": choice([2])},
    objectives=[minimize("runtime"), minimize("code_bytes"), minimize("energy")],
)
def test_total(acf, x):
    total = acf.build().load().total
    total.restype = ctypes.c_float
    arguments = ctypes.c_void_p(x.ctypes.data), 65536
    assert total(*arguments) == 65536
    acf.measure(lambda: total(*arguments))
"""


TRADE_OFF_PY = """\
import pytest
from pytest_compileiq import Cc, choice, maximize, minimize

@pytest.mark.tune(
    Cc("sum.c", flags="-Os"),
    space={"-O": choice([3])},
    objectives=[maximize("instructions"), minimize("code_bytes")],
)
def test_total(acf):
    acf.build()
"""


# The rate is a figure of the build's own, so that it is lower for less code, and the same on every machine.
RATE_PY = """\
import itertools
import pytest
from pytest_compileiq import Cc, choice, maximize, minimize

calls = itertools.count()

@pytest.mark.tune(
    Cc("sum.c", flags="-O3"),
    space={"-O": choice([2, "s"])},
    objectives=[minimize("code_bytes"), maximize("rate")],
    max_regression=0.1,
)
def test_total(acf):
    code_bytes = acf.build().metrics["code_bytes"]
    acf.record(rate=1000 + code_bytes / 10 + next(calls) * 7 % 5 / 10)
"""


def artifact(made: Project) -> dict:
    return tomllib.loads(made.one("acf/total/*.toml").read_text())


def test_exact_objectives_keep_a_front_and_commit_the_first_s_best_that_worsens_no_other(project):
    made = project(NAMED | {"sum.c": SUM_C, "test_sum.py": EXACT_PY})
    made.pytest("--tune", "--tune-engine=random", "--tune-budget=40", code=0)
    stored = artifact(made)
    claims = {claim["objective"]: (claim["baseline_value"], claim["tuned_value"]) for claim in stored["claims"]}
    assert claims.keys() == {"code_bytes", "instructions"}
    assert all(tuned <= baseline for baseline, tuned in claims.values())
    assert any(tuned < baseline for baseline, tuned in claims.values())
    front = [tuple(point["metrics"].values()) for point in stored["front"]]
    assert front == sorted(front)
    assert not [
        one for one in front for other in front if one != other and all(a <= b for a, b in zip(other, one, strict=True))
    ]
    for point in stored["front"]:
        assert (made.root / "acf/total" / point["controls"]["file"]).read_bytes() or not point["controls"]["knobs"]
    assert "1 proven" in made.pytest(code=0)
    made.edit(f"acf/total/{stored['target']}.toml", f"tuned_value = {claims['instructions'][1]}", "tuned_value = 1")
    assert "the builds give" in made.pytest(code=1)


def test_an_objective_that_cannot_be_measured_here_is_left_out_and_said_so(project):
    made = project(
        NAMED | {"sum.c": SUM_C, "test_sum.py": EXACT_PY.replace('minimize("instructions")', 'minimize("energy")')}
    )
    output = made.pytest("--tune", "--tune-budget=6", code=0)
    assert "energy was left out: no counter of this processor's energy is read" in output
    assert {claim["objective"] for claim in artifact(made)["claims"]} == {"code_bytes"}
    only = made.root / "test_sum.py"
    only.write_text(only.read_text().replace('minimize("code_bytes"), ', ""))
    assert "the test has no other objective" in made.pytest("--tune", code=1)


def test_a_runtime_and_a_size_are_proven_together(project):
    made = project({"sum.c": SUM_C, "test_sum.py": MIXED_PY})
    made.pytest("--tune", "--tune-budget=2", code=0)
    kinds = {claim["objective"]: claim["kind"] for claim in artifact(made)["claims"]}
    assert kinds == {"runtime": "gain", "code_bytes": "exact"}
    assert "1 replayed" in made.pytest("--acf-check=replay", code=0)


@pytest.fixture(scope="module")
def _rated(tmp_path_factory) -> tuple[Path, str]:
    made = make_project(tmp_path_factory.mktemp("rated") / "project", {"sum.c": SUM_C, "test_sum.py": RATE_PY})
    return made.root, made.pytest("--tune", "--tune-engine=grid", code=0)


@pytest.fixture
def rated(tmp_path, _rated) -> Project:
    """A project whose artifact gained on its first objective and lost on its second."""
    shutil.copytree(_rated[0], tmp_path / "project")
    return Project(tmp_path / "project")


def test_a_claim_holds_its_direction_so_that_check_repeats_a_maximised_metric_that_is_not_worse(rated, capsys):
    size, rate = artifact(rated)["claims"]
    assert (size["objective"], size["kind"], size["direction"]) == ("code_bytes", "exact", "minimize")
    assert (rate["objective"], rate["kind"], rate["direction"]) == ("rate", "non-inferior", "maximize")
    assert 0.9 < rate["speedup"] < 1 and rate["tuned"]["mean"] < rate["baseline"]["mean"]
    assert rate["test"]["max_regression"] == 0.1
    assert main(["--acf-dir", str(rated.root / "acf"), "check"]) == 0, capsys.readouterr().out
    metadata = f"acf/total/{artifact(rated)['target']}.toml"
    rated.edit(metadata, 'direction = "maximize"\n', "")
    assert "1 replayed" in rated.pytest("--acf-check=replay", code=0)  # as it was written before
    rated.edit(metadata, 'objective = "rate"\n', 'objective = "rate"\ndirection = "minimize"\n')
    output = rated.pytest(code=1)
    assert "CORRUPT: a claim is to minimize rate, and this test is to maximize it" in output


def test_the_first_objective_s_best_is_committed_though_another_finalist_is_better_on_the_second(rated):
    assert artifact(rated)["controls"]["knobs"] == {"-O": "s"}
    assert len(artifact(rated)["front"]) == 2


@pytest.mark.slow
def test_what_was_gained_leads_everywhere_and_what_is_worse_is_called_worse(rated, _rated, capsys):
    size, rate = artifact(rated)["claims"]
    gained = f"code_bytes {size['baseline_value']} → {size['tuned_value']}"
    worse = f"worse: rate {1 / rate['speedup']:.3f}x lower, "
    outputs = {"TUNED": _rated[1], "REPLAYED": rated.pytest("--acf-check=replay", "--acf-html=page.html", code=0)}
    outputs["PROVEN"] = rated.pytest("--acf-report=report.json", "--junitxml=junit.xml", code=0)
    for verdict, output in outputs.items():
        summary = output.partition("= acf =")[2].splitlines()
        assert summary[1].endswith(f"{verdict:<9}  {gained}"), output
        assert summary[2].startswith("    worse: rate 1.0")
        assert "at least" not in output
    (item,) = json.loads((rated.root / "report.json").read_text())["items"]
    assert [one["standing"] for one in item["results"]] == ["gained", "worse"]
    assert item["results"][1]["evidence"] == "measured now"
    assert 'name="acf.worse" value="worse: rate 1.0' in (rated.root / "junit.xml").read_text()
    page = (rated.root / "page.html").read_text()
    assert page.count(gained) == 2  # the table of verdicts, and the artifact's part
    assert page.count(worse) == 2
    for verb in (["list"], ["show", "total"]):
        assert main(["--acf-dir", str(rated.root / "acf"), *verb]) == 0
        told = capsys.readouterr().out
        assert gained in told and worse in told


def test_show_calls_the_front_an_estimate_and_tells_the_build_from_its_functions(rated, capsys):
    assert main(["--acf-dir", str(rated.root / "acf"), "show", "total"]) == 0
    told = capsys.readouterr().out
    assert "front      estimates of the search, not proven:" in told
    assert re.search(r"point 0  code_bytes \d\.\d{3}x lower, worse: rate 1\.0\d\dx lower, \S+\.acf, committed", told)
    assert "exact on default, of the whole build: code_bytes" in told and "total, this function alone: " in told


@pytest.mark.parametrize("given", ['[minimize("runtime"), minimize("runtime")]', '[minimize(x) for x in "abcde"]'])
def test_objectives_are_few_and_different(project, given):
    made = project(
        NAMED
        | {"sum.c": SUM_C, "test_sum.py": EXACT_PY.replace('[minimize("code_bytes"), minimize("instructions")]', given)}
    )
    assert "expected up to 4 different metrics" in made.pytest(code=1)


def test_where_every_gain_is_another_s_loss_nothing_is_committed_and_the_front_shows_why(project):
    made = project({"sum.c": SUM_C, "test_sum.py": TRADE_OFF_PY})
    output = made.pytest("--tune", "--tune-budget=1", code=0)
    assert "each gain on one objective loses on another more than max_regression=0.01 allows" in output
    stored = artifact(made)
    assert stored["outcome"] == "baseline" and stored["reason"].startswith("each gain on one objective")
    (point,) = stored["front"]
    assert all(ratio > 1 for ratio in point["metrics"].values())  # more of both
