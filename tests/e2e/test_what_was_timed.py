"""What is timed is what is checked, and what is told of it: real kernels whose later calls are not like the first."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.projects import naming

FAST = naming("-ffast-math")
HEAD = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, choice, literal


@pytest.fixture(scope="module")
def shared():
    return np.zeros(4096, np.int32)


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
        {**FAST, "mark.c": MARK_C % "2", "test_mark.py": MARK_PY.replace("EXPECTED", "(1 if acf.is_baseline else 2)")}
    )
    output = made.pytest("--tune", "--tune-budget=2", code=0)
    assert "invalid" not in output


def test_a_candidate_that_is_right_in_its_first_call_alone_is_wrong(project):
    made = project({**FAST, "mark.c": MARK_C % "calls < 2 ? 1 : 2", "test_mark.py": MARK_PY.replace("EXPECTED", "1")})
    output = made.pytest("--tune", "--tune-budget=2")
    assert "(wrong)" in output and "assert np.int32(2) == 1" in output
    assert not list(made.root.glob("acf/*/*.acf"))


def test_a_candidate_that_writes_nothing_is_not_taken_for_the_baseline_whose_output_it_leaves(project):
    code = MARK_C.replace("*out = %s;", "").replace("*out = 1;", "for (volatile int i = 0; i < 20000; i++) ; *out = 1;")
    test = MARK_PY.replace("    mark(out)\n    assert shared[0] == EXPECTED\n", "").replace("EXPECTED", "1")
    made = project({**FAST, "mark.c": code, "test_mark.py": test})
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
    assert squares(place, 4096) == 0
    acf.measure(lambda: squares(place, 4096))
"""
UNCHECKED = "no assertion stands after acf.measure"
OTHER_WORK = "the measured calls do other work than the first call"
THE_WAY = "most of the measured time is call overhead"


def advice_in(made, *arguments: str) -> dict[str, list[str]]:
    """The advice on what was timed among the notes of each item of the JSON report; the summary holds the same."""
    output = made.pytest(*arguments, "--acf-report=report.json", code=0)
    items = json.loads((made.root / "report.json").read_text())["items"]
    kinds = (UNCHECKED, OTHER_WORK, THE_WAY)
    found = {item["name"]: [kind for note in item["notes"] for kind in kinds if kind in note] for item in items}
    notes = "\n".join(line for line in output.splitlines() if line.startswith("    "))  # no line of progress
    assert [notes.count(kind) for kind in kinds] == [sum(kind in said for said in found.values()) for kind in kinds]
    return found


def test_a_body_that_asserts_nothing_after_measure_is_told_so_when_tuned_and_when_replayed(project):
    made = project({"squares.c": SQUARES_C, "test_squares.py": SQUARES_PY})
    assert advice_in(made, "--tune", "--tune-budget=1") == {"squares": [UNCHECKED]}
    assert advice_in(made) == advice_in(made, "--acf-check=replay") == {"squares": [UNCHECKED]}


def test_one_that_asserts_there_or_compares_is_not(project):
    made = project({"squares.c": SQUARES_C, "test_squares.py": SQUARES_PY})
    made.edit(
        "test_squares.py", "    assert squares(place, 4096) == 0\n", "    acf.compare('sum', [squares(place, 4096)])\n"
    )
    assert advice_in(made, "--tune", "--tune-budget=1") == advice_in(made) == {"squares": []}


# A sort of its own output has nothing left to do after the first call.
SORT_C = """\
void sort(int *x, int n) {
    for (int i = 1; i < n; i++) {
        int value = x[i], k = i;
        for (; k > 0 && x[k - 1] > value; k--)
            x[k] = x[k - 1];
        x[k] = value;
    }
}
"""
SORT_PY = f"""\
{HEAD}
tune = pytest.mark.tune(Cc("sort.c", flags="-O0"), space={{"-O": choice([1])}})


@pytest.fixture
def x():
    return np.random.default_rng(1).integers(0, 2**30, 4096, dtype=np.int32)


@tune
def test_sort(acf, x):  # in the fixture's memory, which only the first run of the body in a process finds unsorted
    sort, place = acf.build().load().sort, x.ctypes.data_as(ctypes.c_void_p)
    sort(place, x.size)
    acf.measure(lambda: sort(place, x.size))
    assert (np.diff(x) >= 0).all()


@tune
def test_sort_anew(acf, x):
    mine = x.copy()
    sort, place = acf.build().load().sort, mine.ctypes.data_as(ctypes.c_void_p)
    acf.measure(lambda: sort(place, mine.size))
    assert (np.diff(mine) >= 0).all()
"""


@pytest.mark.slow
def test_a_call_whose_later_times_are_of_other_work_is_told_when_tuned_and_when_measured_again(project):
    made = project({"sort.c": SORT_C, "test_sort.py": SORT_PY})
    both = {"sort": [OTHER_WORK], "sort_anew": [OTHER_WORK]}
    assert advice_in(made, "--tune", "--tune-budget=1") == both
    assert advice_in(made, "-o", "acf_inconclusive=warn") == both
    assert advice_in(made, "--acf-check=replay") == {"sort": [], "sort_anew": []}  # nothing was measured


ADD_PY = f"""\
{HEAD}
@pytest.mark.tune(Cc("add.c", flags="-O1"), space={{"-O": choice([0])}})
def test_add(acf):
    add = acf.build().load().add
    acf.measure(lambda: add(1))
    assert add(1) == 2
"""


def test_a_call_that_is_mostly_the_way_to_its_kernel_is_told(project):
    made = project({"add.c": "int add(int x) { return x + 1; }\n", "test_add.py": ADD_PY})
    assert advice_in(made, "--tune", "--tune-budget=1") == {"add": [THE_WAY]}
    shutil.rmtree(made.root / "acf")
    output = made.pytest("--tune", "--tune-budget=1")
    assert output.index(THE_WAY) < output.index(" acf ====")  # before the search, too
