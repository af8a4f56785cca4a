"""Objectives of some entry functions, ``minimize("instructions", of="hot")``, from the marker to tune and replay."""

from __future__ import annotations

import re
import shutil

import pytest

pytestmark = pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("objdump")), reason="needs gcc and objdump")

KERNEL = """\
extern volatile int sink;
#define SMALL sink = 1;
#define LARGE sink = 1; sink = 2; sink = 3; sink = 4;
#if SWAP
void hot_path(void) { SMALL }
void cold_path(void) { LARGE }
#else
void hot_path(void) { LARGE }
void cold_path(void) { SMALL }
#endif
"""
TEST = """\
import pytest
from pytest_compileiq import Cc, choice, minimize

@pytest.mark.tune(
    Cc("kernel.c", defines={"SWAP": 0}), space={"-DSWAP=": choice([0, 1])},
    objectives=[minimize("instructions", of="hot*"), minimize("code_bytes", of="hot_path")],
)
def test_paths(acf):
    acf.build()
"""
UNUSABLE = """\
import pytest
from pytest_compileiq import Cc, maximize, minimize

@pytest.mark.tune(Cc("kernel.c"), objectives=[minimize("runtime", of="hot")])
def test_timed(acf): pass

@pytest.mark.tune(Cc("kernel.c"), objectives=[maximize("register", of="hot")])
def test_misspelt(acf): pass

@pytest.mark.tune(Cc("kernel.c"), objectives=[minimize("registers", of=" ")])
def test_blank(acf): pass
"""


def test_what_of_cannot_take_says_what_it_takes(project) -> None:
    said = project({"kernel.c": KERNEL, "test_unusable.py": UNUSABLE}).pytest(code=1)
    assert "objective 'runtime', of='hot': of= takes an exact metric, code_bytes, instructions, registers" in said
    assert "objective 'register', of='hot' (did you mean 'registers'?): of= takes an exact metric" in said
    assert "objective 'registers', of=' ': expected an entry function's name or pattern" in said
    assert said.count("Error") == 0


def test_an_objective_of_one_function_is_tuned_and_replayed_and_what_its_neighbour_lost_is_said(project) -> None:
    there = project({"kernel.c": KERNEL, "test_paths.py": TEST})
    tuned = there.pytest("--tune", "--tune-budget=2", code=0)
    replayed = there.pytest(code=0)
    for said in (tuned, replayed):
        gained = re.search(r"instructions of hot\* (\d+) → (\d+)\n +code_bytes of hot_path (\d+) → (\d+)\n", said)
        lost = re.search(
            r"worse: instructions of cold_path: (\d+) → (\d+); code_bytes of cold_path: (\d+) → (\d+)", said
        )
        assert gained is not None
        assert lost is not None
        before, after, wide, narrow = map(int, gained.groups())
        assert before == after + 3  # stores
        assert tuple(map(int, lost.groups())) == (after, before, narrow, wide)
    assert "TUNED" in tuned
    assert "PROVEN" in replayed
    there.edit("test_paths.py", 'of="hot*"', 'of="hto_path"')
    wrong = "objective 'instructions of hto_path': this build has no such entry function (did you mean 'hot_path'?)"
    assert wrong in there.pytest(code=1)
    assert wrong in there.pytest("--tune", "--tune-budget=2", code=1)
