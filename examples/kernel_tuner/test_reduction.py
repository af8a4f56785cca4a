"""A sum in two launches: macros of the source beside num_blocks, which only the launch reads."""

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Nvcc, choice, minimize

N = 1 << 22


@pytest.mark.tune(
    Nvcc("reduction.cu", arch="sm_90a", defines={"block_size_x": 256, "use_shuffle": 0, "vector": 1}),
    space={
        "-Dblock_size_x=": choice([2**i for i in range(5, 11)]),
        "-Duse_shuffle=": choice([0, 1]),
        "-Dvector=": choice([1, 2, 4]),
        "num_blocks": choice([2**i for i in range(5, 11)]),
    },
    objectives=[minimize("instructions")],
)
def test_reduction(acf):
    """Correct on the GPU, where there is one: the second launch adds what the blocks of the first one made."""
    block, blocks = acf.params["block_size_x"], acf.params.get("num_blocks", 128)
    kernel = acf.build().load().sum_floats
    x = acf.rng.random(N, dtype=np.float32)
    sums, total = DeviceArray(np.full(blocks, np.nan, np.float32)), DeviceArray(np.full(1, np.nan, np.float32))
    kernel(blocks, block, sums, DeviceArray(x), np.int32(N))
    kernel(1, block, total, sums, np.int32(blocks))
    np.testing.assert_allclose(total.host(), x.sum(dtype=np.float64), rtol=1e-4)
