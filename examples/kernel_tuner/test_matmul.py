"""A product of square matrices in shared memory: the block's shape is restricted by how it reads its tiles."""

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Nvcc, choice, minimize

N = 512


@pytest.mark.tune(
    Nvcc(
        "matmul.cu",
        arch="sm_90a",
        defines={"block_size_x": 16, "block_size_y": 16, "tile_size_x": 1, "tile_size_y": 1},
    ),
    space={
        "-Dblock_size_x=": choice([16, 32, 64]),
        "-Dblock_size_y=": choice([2**i for i in range(6)]),
        "-Dtile_size_x=": choice([2**i for i in range(4)]),
        "-Dtile_size_y=": choice([2**i for i in range(4)]),
    },
    where=[
        lambda k: k["-Dblock_size_x="] == k["-Dblock_size_y="] * k["-Dtile_size_y="],
        lambda k: k["-Dblock_size_x="] * k["-Dblock_size_y="] <= 1024,
        lambda k: 4 * k["-Dblock_size_x="] ** 2 * (1 + k["-Dtile_size_x="]) <= 48 * 1024,
    ],
    objectives=[minimize("instructions")],
)
def test_matmul(acf):
    """Correct on the GPU, where there is one."""
    kernel = acf.build().load().matmul
    p = acf.params
    a, b = acf.rng.standard_normal((2, N, N), dtype=np.float32)
    c = DeviceArray(np.full((N, N), np.nan, np.float32))
    grid = (N // (p["block_size_x"] * p["tile_size_x"]), N // (p["block_size_y"] * p["tile_size_y"]))
    kernel(grid, (p["block_size_x"], p["block_size_y"]), c, DeviceArray(a), DeviceArray(b), np.int32(N))
    np.testing.assert_allclose(c.host(), a.astype(np.float64) @ b, rtol=1e-3, atol=1e-3)
