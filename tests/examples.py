"""Kernels, tuned tests and spaces that several tests use."""

from __future__ import annotations

from pytest_compileiq.space import PtxasSearchSpace, Space, choice, literal
from pytest_compileiq.space import range as steps
from tests.projects import naming

KERNEL_C = """\
#include "kernel.h"
#include <math.h>
/* The root of a sum: math-errno keeps the compiler from vectorising it. */
void kernel(const float *x, float *y, int n) {
    for (int i = 0; i < n; i++)
        y[i] = SCALE * sqrtf(x[i] * x[i] + 1.0f);
}
"""

KERNEL_H = "#define SCALE 2.0f\n"

TEST_PY = """\
import ctypes

import numpy as np
import pytest

from pytest_compileiq import Cc, choice, literal


def expected(x):
    return 2.0 * np.sqrt(x.astype(np.float64) ** 2 + 1.0)


@pytest.fixture(scope="module")
def buffers():
    x = np.linspace(-3, 3, 16384, dtype=np.float32)
    return x, np.empty_like(x)


@pytest.mark.tune(
    Cc("kernel.c", flags="-O1 -march=x86-64-v3"),
    space={"-O": choice([2, 3]), "-fno-math-errno": literal("", knockout_prob=0.5)},
    workloads={"whole": dict(n=16384), "odd": dict(n=1009, weight=0)},
)
def test_kernel(acf, buffers):
    x, y = buffers
    kernel = acf.build().load().kernel
    floats = ctypes.POINTER(ctypes.c_float)
    arguments = x.ctypes.data_as(floats), y.ctypes.data_as(floats), ctypes.c_int(acf.workload.n)
    y[:] = 0
    acf.measure(lambda: kernel(*arguments))
    np.testing.assert_allclose(y[: acf.workload.n], expected(x)[: acf.workload.n], rtol=1e-5)
"""

SUM_C = """\
float total(const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}
"""

SIZE_PY = """\
import time
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("sum.c", flags="-O1 -fstrict-aliasing"), objectives=[minimize("code_bytes")])
def test_total(acf):
    acf.build()
    time.sleep(0.02)
"""

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

NAMED = naming("-fno-unroll-loops")

OPAQUE = Space((), PtxasSearchSpace())
MIXED = Space.merge(
    Space.from_mapping(
        {"-O": choice([1, 2, 3]), "warps": choice(["a", "b", "c"], 0.5), "group": {"x": steps(0, 9, knockout_prob=0.5)},
         "on": literal(True, 0.5)}
    ),
    Space((), PtxasSearchSpace(variant="att")),
)  # fmt: skip
