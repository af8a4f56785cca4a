"""A short kernel that memory bounds, replayed as a graph: what a launch costs is not timed with it."""

import os

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Nvcc

ARCHITECTURE = os.environ.get("GPU_ARCHITECTURE", "sm_90a")
ROWS, COLUMNS = 1024, 2048


@pytest.mark.tune(Nvcc("stencil.cu", arch=ARCHITECTURE), space="options")
def test_stencil(acf, normal, assert_close):
    jacobi = acf.build().load().jacobi
    host = normal(ROWS, COLUMNS)
    expected = host.copy()
    expected[1:-1, 1:-1] = (host[1:-1, :-2] + host[1:-1, 2:] + host[:-2, 1:-1] + host[2:, 1:-1]) / 4
    edges = np.full_like(host, np.nan)
    edges[[0, -1]], edges[:, [0, -1]] = host[[0, -1]], host[:, [0, -1]]
    before, after = DeviceArray(host), DeviceArray(edges)

    def step():
        jacobi((COLUMNS // 32, ROWS // 8), (32, 8), before, after, np.int32(ROWS), np.int32(COLUMNS))

    step()
    assert_close(after.host(), expected, rtol=1e-4, atol=1e-5)
    after.copy_from(edges)
    acf.measure(step, graph=True)
    assert_close(after.host(), expected, rtol=1e-4, atol=1e-5)
