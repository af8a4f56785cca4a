"""What is timed is what is checked, and what is told of it: real kernels whose later calls are not like the first."""

from __future__ import annotations

import json

HEAD = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, choice, literal


@pytest.fixture(scope="module")
def shared():
    return np.zeros(1, np.int32)


"""
# The arms write different values to memory that they share.
MARK_C = """\
static int calls;
void mark(int *out) {
#ifdef __FAST_MATH__
    calls++;
    *out = %s;
#else
    *out = 1;
#endif
}
"""
MARK_PY = f"""\
{HEAD}
@pytest.mark.tune(Cc("mark.c"), space={{"-ffast-math": literal("")}})
def test_mark(acf, shared):
    mark = acf.build().load().mark
    out = shared.ctypes.data_as(ctypes.c_void_p)
    shared.fill(0)
    mark(out)
    assert shared[0] == EXPECTED
    acf.measure(lambda: mark(out))
    assert shared[0] == EXPECTED
"""


def test_after_measure_each_arm_sees_its_own_output_in_shared_memory(project):
    made = project(
        {"mark.c": MARK_C % "2", "test_mark.py": MARK_PY.replace("EXPECTED", "(1 if acf.is_baseline else 2)")}
    )
    output = made.pytest("--tune", "--tune-budget=2", code=0)
    assert "invalid" not in output


def test_a_candidate_that_is_right_in_its_first_call_alone_is_wrong(project):
    made = project({"mark.c": MARK_C % "calls < 2 ? 1 : 2", "test_mark.py": MARK_PY.replace("EXPECTED", "1")})
    output = made.pytest("--tune", "--tune-budget=2")
    assert "(wrong)" in output and "assert np.int32(2) == 1" in output
    assert not list(made.root.glob("acf/*/*.acf"))


def test_a_candidate_that_writes_nothing_is_not_taken_for_the_baseline_whose_output_it_leaves(project):
    code = MARK_C.replace("*out = %s;", "").replace("*out = 1;", "for (volatile int i = 0; i < 20000; i++) ; *out = 1;")
    test = MARK_PY.replace("    mark(out)\n    assert shared[0] == EXPECTED\n", "").replace("EXPECTED", "1")
    made = project({"mark.c": code, "test_mark.py": test})
    output = made.pytest("--tune", "--tune-budget=2")
    assert "1 invalid (wrong): AssertionError: assert np.int32(0) == 1" in output
    assert not list(made.root.glob("acf/*/*.acf"))


# ── advice ───────────────────────────────────────────────────────────────────────────────────────────────────────

SQUARES_C = """\
unsigned squares(const unsigned *x, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}
"""
SQUARES_PY = f"""\
{HEAD}
@pytest.mark.tune(Cc("squares.c", flags="-O1"), space={{"-O": choice([0])}})
def test_squares(acf, shared):
    squares, place = acf.build().load().squares, shared.ctypes.data_as(ctypes.c_void_p)
    assert squares(place, 1) == 0
    acf.measure(lambda: squares(place, 1))
"""
UNCHECKED = "no assertion stands after acf.measure"


def notes_of(made, *arguments: str) -> list[str]:
    made.pytest(*arguments, "--acf-report=report.json", code=0)
    (item,) = json.loads((made.root / "report.json").read_text())["items"]
    return [note for note in item["notes"] if UNCHECKED in note]


def test_a_body_that_asserts_nothing_after_measure_is_told_so_when_tuned_and_when_replayed(project):
    made = project({"squares.c": SQUARES_C, "test_squares.py": SQUARES_PY})
    (said,) = notes_of(made, "--tune", "--tune-budget=1")
    assert "assert on the output there too" in said and "acf.compare" in said
    assert notes_of(made) == [said]
    assert made.pytest("--acf-check=replay").count(UNCHECKED) == 1


def test_one_that_asserts_there_or_compares_is_not(project):
    made = project({"squares.c": SQUARES_C, "test_squares.py": SQUARES_PY})
    made.edit("test_squares.py", "    assert squares(place, 1) == 0\n", "    acf.compare('sum', [squares(place, 1)])\n")
    assert notes_of(made, "--tune", "--tune-budget=1") == notes_of(made) == []
