"""Kernels that remember an input, or where it lay, and one that does half its work: real gcc, ``pytest --tune``."""

from __future__ import annotations

import pytest

from tests.projects import naming

pytestmark = pytest.mark.slow

KERNEL_C = """\
#include <math.h>
#include <string.h>

void kernel(const float *x, float *out, int n)
{
#ifndef __FAST_MATH__
    for (volatile int i = 0; i < n; i++)
        out[i] = sqrtf(x[i]) / (1 + x[i]);
#elif defined(ONCE)
    static float first[100000];
    static int is_done;
    for (volatile int i = 0; i < n && !is_done; i++)
        first[i] = sqrtf(x[i]) / (1 + x[i]);
    is_done = 1;
    memcpy(out, first, n * sizeof *x);
#elif defined(REMEMBERS)
    static float of[100000], known[100000];
    if (memcmp(of, x, n * sizeof *x)) {
        for (volatile int i = 0; i < n; i++)
            known[i] = sqrtf(x[i]) / (1 + x[i]);
        memcpy(of, x, n * sizeof *x);
    }
    memcpy(out, known, n * sizeof *x);
#elif defined(BY_ADDRESS)
    static float known[100000];
    static const float *of;
    for (volatile int i = 0; i < n && of != x; i++)
        known[i] = sqrtf(x[i]) / (1 + x[i]);
    of = x;
    memcpy(out, known, n * sizeof *x);
#elif defined(HALF)
    for (int i = 0; i < n; i++)
        out[i] = i % 2 ? x[i] : sqrtf(x[i]) / (1 + x[i]);
#else
    for (int i = 0; i < n; i++)
        out[i] = sqrtf(x[i]) / (1 + x[i]);
#endif
}
"""
TEST_PY = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, literal


def tune(flags):
    compiler = Cc("kernel.c", flags=f"-O3 -fno-math-errno {flags}")
    return pytest.mark.tune(compiler, space={"-ffast-math": literal("")})


@pytest.mark.parametrize("name", [
    pytest.param("remembers", marks=tune("-DREMEMBERS")), pytest.param("honest", marks=tune("")),
    pytest.param("once", marks=tune("-DONCE")), pytest.param("by_address", marks=tune("-DBY_ADDRESS")),
    pytest.param("half_of_one", marks=tune("-DHALF")), pytest.param("honest_on_any", marks=tune("")),
    pytest.param("remembers_one", marks=tune("-DREMEMBERS")),
])
def test_kernel(acf, name):
    kernel = acf.build().load().kernel
    rng = np.random.default_rng() if "any" in name else np.random.default_rng(1) if name.endswith("_one") else acf.rng
    x, out = rng.random(30_000, dtype=np.float32), np.empty(30_000, np.float32)
    arguments = *(a.ctypes.data_as(ctypes.c_void_p) for a in (x, out)), x.size
    acf.measure(lambda: kernel(*arguments), outputs=[out])
    if "remembers" in name:
        np.testing.assert_allclose(out, np.sqrt(x) / (1 + x), rtol=1e-5)
"""


def test_kernel_that_remembers_its_input_is_refused_and_an_honest_one_proven(project):
    made = project({**naming("-ffast-math"), "kernel.c": KERNEL_C, "test_kernel.py": TEST_PY})
    output = made.pytest("--tune", "--tune-budget=1", code=0)
    refused = {line.split()[0]: line for line in output.splitlines() if " BASELINE " in line}
    assert refused.keys() == {
        "kernel-remembers", "kernel-once", "kernel-remembers_one", "kernel-by_address", "kernel-half_of_one"
    }, output  # fmt: skip
    assert "outputs= are the same bytes on 31 of 31 pairs of draws of acf.rng" in refused["kernel-once"]
    assert "remembers work that it did before" in refused["kernel-remembers"]
    assert " fresh copies of the build lack " in refused["kernel-remembers_one"]
    assert all("tune(…, repeats=True)" in refused[name] for name in ("kernel-remembers", "kernel-remembers_one"))
    assert " of 32 draws, " in refused["kernel-by_address"]
    for name in ("kernel-by_address", "kernel-half_of_one"):
        assert "% of the values in outputs[0] differ from the baseline's by more than a tenth" in refused[name]
    proven = sorted(path.parent.name for path in made.root.glob("acf/*/*.acf"))
    assert proven == ["kernel-honest", "kernel-honest_on_any"], output
