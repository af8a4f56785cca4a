import ctypes

import pytest

from pytest_compileiq import Cc, choice, literal, minimize


@pytest.mark.tune(
    Cc("sum.c", flags="-O1 -funroll-loops"),
    space={"-O": choice([1, 2, 3, "s"]), "-fno-unroll-loops": literal("", knockout_prob=0.5)},
    objectives=[minimize("code_bytes"), minimize("instructions")],
    max_regression=0.0,
)
def test_total(acf):
    total = acf.build().load().total
    total.restype = ctypes.c_float
    assert total((ctypes.c_float * 2)(1, 2), 2) == 10
