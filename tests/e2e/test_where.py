"""``tune(where=…)``: no candidate outside is built, kept or shipped, and a predicate that cannot be judged says why."""

from __future__ import annotations

import re

from tests.projects import naming

KERNEL_C = """\
int kernel(const int *x, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}
"""
TEST_PY = """\
import pytest

from pytest_compileiq import Cc, choice, literal, minimize


@pytest.mark.tune(
    Cc("kernel.c", flags="-O3"),
    space={"-O": choice([2, 3, "s"], 0.5), "-funroll-loops": literal("", 0.5), "-fno-tree-vectorize": literal("", 0.5)},
    objectives=[minimize("code_bytes")],
    where=[lambda k: k.get("-O", 3) != "s", lambda k: not ("-funroll-loops" in k and k.get("-O", 3) == 3)],
)
def test_kernel(acf):
    acf.build()
"""


def test_a_search_stays_within_the_predicates_and_what_they_refuse_later_is_refused_by_name(project):
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": TEST_PY, **naming("-fno-tree-vectorize")})
    said = made.pytest("--tune", "--tune-engine=grid", code=0)
    assert "8 evaluations in " in said
    assert "the space has 8 points of 16 (where=)" in said
    committed = made.one("acf/kernel/*.acf").read_text()  # -Os, the smallest by far, is outside
    assert "-Os" not in committed and "-fno-tree-vectorize" in committed
    made.pytest(code=0)

    made.edit("test_kernel.py", "not (", "'-fno-tree-vectorize' not in k and not (")
    said = " ".join(made.pytest(code=1).split())
    refusal = """\
the committed controls are outside the space that the test declares: where= refuses it: \
'-fno-tree-vectorize' not in k and (not ('-funroll-loops' in k and k.get('-O', 3) == 3))"""
    assert refusal in said


def test_a_name_that_is_no_knob_fails_the_test_with_the_nearest_that_is(project):
    test = TEST_PY.replace('"-funroll-loops" in', '"-funrol-loops" in')
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": test, **naming("-fno-tree-vectorize")})
    for options in ([], ["--tune"]):
        said = " ".join(made.pytest(*options, code=1).split())
        assert re.search(
            r"the space has no knob '-funrol-loops' \(did you mean '-funroll-loops'\?\): expected -O, ", said
        )


def test_a_macro_that_is_off_has_the_baseline_s_value_in_a_predicate(project):
    kernel = KERNEL_C.replace("i++", "i += STEP")
    test = """\
import pytest

from pytest_compileiq import Cc, choice, minimize


@pytest.mark.tune(
    Cc("kernel.c", flags="-O3", defines={"STEP": 4}), space={"-DSTEP=": choice([1, 2, 8], 0.5)},
    where=lambda k: k["-DSTEP="] <= 4, objectives=[minimize("code_bytes")],
)
def test_kernel(acf):
    acf.build()
"""
    made = project({"kernel.c": kernel, "test_kernel.py": test})
    said = made.pytest("--tune", "--tune-engine=grid", code=0)
    assert "3 evaluations in " in said and "the space has 3 points of 4 (where=)" in said
