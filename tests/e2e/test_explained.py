"""What ``--tune`` says of a search by the model: in the terminal, in the JSON report and on the page."""

from __future__ import annotations

import json
import math
import subprocess

import pytest

from tests.examples import SUM_C

# A level above -Os unrolls and vectorises, at many times the bytes; most of the others change little or nothing.
SIZE_PY = """
import pytest
from pytest_compileiq import Cc, choice, literal, minimize

FLAGS = ("-fno-ipa-sra", "-fno-gcse", "-fno-ivopts", "-fno-tree-pre", "-fipa-pta", "-frename-registers")
SPACE = {flag: literal("", knockout_prob=0.5) for flag in FLAGS}
SPACE |= {"-O": choice(["s", 2, 3]), "-funroll-loops": literal("", knockout_prob=0.5)}

@pytest.mark.tune(Cc("sum.c", flags="-O1"), space=SPACE, objectives=[minimize("code_bytes")])
def test_total(acf):
    acf.build()
"""


def code_bytes(root, knobs) -> int:
    """The size of the code with these knobs; None is off."""
    options = [f"{knob}{value}" for knob, value in knobs.items() if value is not None]
    subprocess.run(["gcc", "-O1", "-fPIC", *options, "-c", "sum.c", "-o", "own.o"], cwd=root, check=True)
    sections = subprocess.run(["size", "-A", "own.o"], cwd=root, check=True, capture_output=True, text=True).stdout
    return next(int(line.split()[1]) for line in sections.splitlines() if line.startswith(".text "))


@pytest.mark.parametrize("engine", ["ga", "random"])
def test_the_search_of_any_engine_ends_with_what_mattered_by_the_model(project, engine):
    made = project({"sum.c": SUM_C, "test_sum.py": SIZE_PY})
    options = ("--tune", "--tune-budget=60", f"--tune-engine={engine}")
    output = made.pytest(*options, "--acf-report=report.json", "--acf-html=page.html", code=0)
    (told, unsure) = [line for line in output.splitlines() if line.strip().startswith("by the model, not measured: ")]
    assert "code_bytes" in told and "x lower with -Os instead of " in told
    assert "of 8 knobs are not told apart from no effect" in unsure
    assert "the model's 90 % band, made before each was measured, held " in output
    (item,) = json.loads((made.root / "report.json").read_text())["items"]
    curve, effects = item["explained"]["curve"], item["explained"]["effects"]
    assert {len(series) for series in curve.values()} == {60}
    assert min(score for score in curve["scores"] if score is not None) == curve["best"][-1] < 0
    best = {effect["knob"]: effect["value"] for effect in effects}
    assert len(best) == 8
    for effect in effects:  # what was not measured is what the compiler makes
        otherwise = best | {effect["knob"]: effect["instead"]}
        loss = math.log(code_bytes(made.root, otherwise) / code_bytes(made.root, best))
        assert effect["low"] <= loss <= effect["high"], effect
    page = (made.root / "page.html").read_text()
    assert "Scores of the search, and what was expected of them" in page and 'class="foreseen"' in page
    assert "Knobs of the search, by the model, not measured" in page
    assert "by the model" not in (made.one("acf/total/*.toml")).read_text()  # nothing of it is committed


def test_a_search_of_few_candidates_explains_nothing_and_has_its_curve(project):
    made = project({"sum.c": SUM_C, "test_sum.py": SIZE_PY})
    output = made.pytest("--tune", "--tune-budget=6", "--acf-report=report.json", "--acf-html=page.html", code=0)
    assert "by the model" not in output and "no knob is explained" not in output
    (item,) = json.loads((made.root / "report.json").read_text())["items"]
    assert item["explained"]["effects"] == [] and item["explained"]["why_none"].startswith("too few candidates")
    assert set(item["explained"]["curve"]["expected"]) == {None}
    page = (made.root / "page.html").read_text()
    assert "no knob is explained: too few candidates" in page and "Scores of the search" in page


def test_a_replay_explains_no_search(project):
    made = project({"sum.c": SUM_C, "test_sum.py": SIZE_PY})
    made.pytest("--tune", "--tune-budget=6", code=0)
    made.pytest("--acf-report=report.json", code=0)
    (item,) = json.loads((made.root / "report.json").read_text())["items"]
    assert item["explained"] is None
