"""Several objectives: a front is kept, the chosen point worsens none, and every claim is its own."""

from __future__ import annotations

import tomllib

import pytest

from pytest_compileiq.cli import main
from tests.e2e.conftest import Project
from tests.e2e.test_resume import SUM_C

EXACT_PY = """\
import pytest
from pytest_compileiq import Cc, choice, literal, minimize

@pytest.mark.tune(
    Cc("sum.c", flags="-O1 -funroll-loops"),
    space={"-O": choice([1, 2, 3, "s"]), "-fno-unroll-loops": literal("", knockout_prob=0.5),
           "-falign-loops=": choice([1, 32], knockout_prob=0.5)},
    objectives=[minimize("code_bytes"), minimize("instructions")],
    max_regression=0.0,
)
def test_total(acf):
    acf.build()
"""
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
    space={"-O": choice(["s"])},
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
    made = project({"sum.c": SUM_C, "test_sum.py": EXACT_PY})
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
    made = project({"sum.c": SUM_C, "test_sum.py": EXACT_PY.replace('minimize("instructions")', 'minimize("energy")')})
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
    output = made.pytest(code=0)
    assert "1 proven" in output


def test_a_claim_holds_its_direction_so_that_check_repeats_a_maximised_metric_that_is_not_worse(project, capsys):
    made = project({"sum.c": SUM_C, "test_sum.py": RATE_PY})
    made.pytest("--tune", "--tune-budget=1", code=0)
    size, rate = sorted(artifact(made)["claims"], key=lambda claim: claim["objective"])
    assert (size["kind"], size["direction"]) == ("exact", "minimize")
    assert (rate["kind"], rate["direction"]) == ("non-inferior", "maximize")
    assert 0.9 < rate["speedup"] < 1 and rate["tuned"]["mean"] < rate["baseline"]["mean"]
    assert rate["test"]["max_regression"] == 0.1
    assert main(["--acf-dir", str(made.root / "acf"), "check"]) == 0, capsys.readouterr().out
    metadata = f"acf/total/{artifact(made)['target']}.toml"
    made.edit(metadata, 'direction = "maximize"\n', "")
    assert "1 replayed" in made.pytest("--acf-check=replay", code=0)  # as it was written before
    made.edit(metadata, 'objective = "rate"\n', 'objective = "rate"\ndirection = "minimize"\n')
    output = made.pytest(code=1)
    assert "CORRUPT: a claim is to minimize rate, and this test is to maximize it" in output


@pytest.mark.parametrize("given", ['[minimize("runtime"), minimize("runtime")]', '[minimize(x) for x in "abcde"]'])
def test_objectives_are_few_and_different(project, given):
    made = project(
        {"sum.c": SUM_C, "test_sum.py": EXACT_PY.replace('[minimize("code_bytes"), minimize("instructions")]', given)}
    )
    assert "expected up to 4 different metrics" in made.pytest(code=1)


def test_where_every_gain_is_another_s_loss_nothing_is_committed_and_the_front_shows_why(project):
    made = project({"sum.c": SUM_C, "test_sum.py": TRADE_OFF_PY})
    output = made.pytest("--tune", "--tune-budget=1", code=0)
    assert "what gains on one objective loses on another more than max_regression=0.01 allows" in output
    stored = artifact(made)
    assert stored["outcome"] == "baseline" and stored["reason"].startswith("what gains on one objective")
    (point,) = stored["front"]
    assert all(ratio > 1 for ratio in point["metrics"].values())  # more of both
