"""What the benchmarks of GPU kernels share; it lies beside each of them when they are measured."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def normal():
    """Random numbers of a shape, the same in every process."""

    def draw(*shape, dtype=np.float32):
        return np.random.default_rng(7).standard_normal(shape, dtype=np.float32).astype(dtype, copy=False)

    return draw


@pytest.fixture
def assert_close():
    """A kernel's output against numpy's answer."""
    return np.testing.assert_allclose
