"""What is timed is what is checked: real kernels whose arms share memory, or whose later calls are not like the first."""

from __future__ import annotations

HEAD = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, literal


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
