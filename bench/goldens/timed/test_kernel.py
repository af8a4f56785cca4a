from ctypes import c_void_p as void_p

import numpy as np
import pytest

from pytest_compileiq import Cc, choice, literal


@pytest.mark.tune(
    Cc("kernel.c", flags="-O1 -march=x86-64-v3"),
    space={"-O": choice([2, 3]), "-fno-math-errno": literal("", knockout_prob=0.5)},
    workloads={"whole": {"n": 16384}, "odd": {"n": 1009, "weight": 0}},
)
def test_kernel(acf):
    n = acf.workload.n
    x = acf.rng.standard_normal(n).astype(np.float32)
    y = np.empty_like(x)
    kernel = acf.build().load().kernel
    acf.measure(lambda: kernel(x.ctypes.data_as(void_p), y.ctypes.data_as(void_p), n), outputs=[y])
    np.testing.assert_allclose(y, 2.0 * np.sqrt(x.astype(np.float64) ** 2 + 1.0), rtol=1e-5)
