"""A reduction: a loop of loads, then warps and threads that wait for each other."""

import os

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Nvcc

ARCHITECTURE = os.environ.get("GPU_ARCHITECTURE", "sm_90a")
N, BLOCKS = 1 << 22, 512


@pytest.mark.tune(Nvcc("reduction.cu", arch=ARCHITECTURE), space="options")
def test_reduction(acf, normal, assert_close):
    reduce_sum = acf.build().load().reduce_sum
    host = normal(N)
    expected = host.reshape(-1, BLOCKS, 256).sum(axis=(0, 2), dtype=np.float64)
    nothing = np.full(BLOCKS, np.nan, np.float32)
    x, partial = DeviceArray(host), DeviceArray(nothing)

    def reduce():
        reduce_sum(BLOCKS, 256, x, partial, np.int32(N))

    reduce()
    assert_close(partial.host(), expected, rtol=1e-3, atol=1e-2)
    partial.copy_from(nothing)
    acf.measure(reduce)
    assert_close(partial.host(), expected, rtol=1e-3, atol=1e-2)
