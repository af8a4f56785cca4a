"""Vector addition: one tunable parameter, no restriction."""

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Nvcc, choice, minimize

N = 10_000_000


@pytest.mark.tune(
    Nvcc("vector_add.cu", arch="sm_90a", defines={"block_size_x": 192}),
    space={"-Dblock_size_x=": choice([128 + 64 * i for i in range(15)])},
    objectives=[minimize("instructions")],
)
def test_vector_add(acf):
    """Correct on the GPU, where there is one."""
    kernel = acf.build().load().vector_add
    block = acf.params["block_size_x"]
    a, b = acf.rng.standard_normal((2, N), dtype=np.float32)
    c = DeviceArray(np.full_like(a, np.nan))
    kernel(-(-N // block), block, c, DeviceArray(a), DeviceArray(b), np.int32(N))
    np.testing.assert_array_equal(c.host(), a + b)
