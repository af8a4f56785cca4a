"""A 2D convolution: block and tile sizes, restricted by threads, shared memory, and where padding makes no sense."""

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Nvcc, choice, minimize

FILTER = 17
WIDTH, HEIGHT = 512, 384


def shared_bytes(k):
    """Of the inputs that a block keeps."""
    wide = k["-Dblock_size_x="] * k["-Dtile_size_x="] + FILTER - 1 + k["-Duse_padding="]
    high = k["-Dblock_size_y="] * k["-Dtile_size_y="] + FILTER - 1
    return 4 * wide * high


@pytest.mark.tune(
    Nvcc(
        "convolution.cu",
        arch="sm_90a",
        defines={"block_size_x": 32, "block_size_y": 4, "tile_size_x": 2, "tile_size_y": 2, "use_padding": 0},
    ),
    space={
        "-Dblock_size_x=": choice([16 * i for i in range(1, 9)]),
        "-Dblock_size_y=": choice([2**i for i in range(6)]),
        "-Dtile_size_x=": choice([1, 2, 4]),
        "-Dtile_size_y=": choice([1, 2, 4]),
        "-Duse_padding=": choice([0, 1]),
    },
    where=[
        lambda k: k["-Dblock_size_x="] * k["-Dblock_size_y="] <= 1024,
        lambda k: shared_bytes(k) <= 48 * 1024,
        lambda k: k["-Duse_padding="] == 0 or k["-Dblock_size_x="] % 32 != 0,
    ],
    objectives=[minimize("instructions"), minimize("registers")],
)
def test_convolution(acf):
    """Correct on the GPU, where there is one."""
    kernel = acf.build().load().convolution
    p = acf.params
    image = acf.rng.standard_normal((HEIGHT + FILTER - 1, WIDTH + FILTER - 1), dtype=np.float32)
    weights = acf.rng.standard_normal((FILTER, FILTER), dtype=np.float32)
    out = DeviceArray(np.full((HEIGHT, WIDTH), np.nan, np.float32))
    grid = (
        -(-WIDTH // (p["block_size_x"] * p["tile_size_x"])),
        -(-HEIGHT // (p["block_size_y"] * p["tile_size_y"])),
    )
    block = (p["block_size_x"], p["block_size_y"])
    kernel(grid, block, out, DeviceArray(image), DeviceArray(weights), np.int32(WIDTH), np.int32(HEIGHT))
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (FILTER, FILTER))
    np.testing.assert_allclose(out.host(), np.einsum("yxab,ab->yx", windows, weights), rtol=1e-3, atol=1e-3)
