"""A matrix product through shared memory: by the public options, and by an ACF where CompileIQ draws them."""

import os

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Nvcc

ARCHITECTURE = os.environ.get("GPU_ARCHITECTURE", "sm_90a")
SIZE = 1024


def check_and_measure(acf, normal, assert_close):
    matmul = acf.build().load().matmul
    both = normal(2, SIZE, SIZE)
    expected = both[0].astype(np.float64) @ both[1]
    nothing = np.full((SIZE, SIZE), np.nan, np.float32)
    a, b, c = DeviceArray(both[0]), DeviceArray(both[1]), DeviceArray(nothing)

    def multiply():
        matmul((SIZE // 32, SIZE // 32), (32, 8), a, b, c, np.int32(SIZE))

    multiply()
    assert_close(c.host(), expected, rtol=1e-3, atol=1e-2)
    c.copy_from(nothing)
    acf.measure(multiply)
    assert_close(c.host(), expected, rtol=1e-3, atol=1e-2)


@pytest.mark.tune(Nvcc("matmul.cu", arch=ARCHITECTURE), space="options")
def test_matmul(acf, normal, assert_close):
    check_and_measure(acf, normal, assert_close)


@pytest.mark.tune(Nvcc("matmul.cu", arch=ARCHITECTURE), name="matmul-acf")
def test_matmul_acf(acf, normal, assert_close):
    check_and_measure(acf, normal, assert_close)
