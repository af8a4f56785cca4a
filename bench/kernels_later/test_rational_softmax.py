"""A kernel written after the engine's last change, so that not even its replayed times could have been looked at."""

import ctypes

import numpy as np
import pytest

from pytest_compileiq import Cc


@pytest.fixture
def values():
    x = np.random.default_rng(0).standard_normal(4096, dtype=np.float32)
    return x, np.empty_like(x)


@pytest.mark.tune(Cc("rational_softmax.c", flags="-O2 -march=x86-64-v3"))
def test_rational_softmax(acf, values):
    x, y = values
    kernel = acf.build().load().rational_softmax
    kernel.restype = ctypes.c_float
    arguments = *(array.ctypes.data_as(ctypes.c_void_p) for array in values), x.size
    gap = x.astype(np.float64) - x.max()
    expected = 1 / (1 - gap + 0.5 * gap * gap)

    y.fill(np.nan)
    total = kernel(*arguments)
    np.testing.assert_allclose(total, expected.sum(), rtol=1e-4)
    np.testing.assert_allclose(y, expected / expected.sum(), rtol=1e-4)
    acf.measure(lambda: kernel(*arguments))
    np.testing.assert_allclose(y, expected / expected.sum(), rtol=1e-4)
