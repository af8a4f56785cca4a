"""A matrix product in Triton: how it is launched, how deep its loads are pipelined, and its tiles."""

import os

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Triton, choice

ARCHITECTURE = os.environ.get("GPU_ARCHITECTURE", "sm_90a")
SIZE = 2048
HALF = "*fp16:16"
TILES = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32}


@pytest.fixture(scope="module")
def operands(normal):
    """Both factors and their product, which the processor computes once for all builds."""
    both = normal(2, SIZE, SIZE, dtype=np.float16)
    return *both, both[0].astype(np.float32) @ both[1].astype(np.float32)


@pytest.mark.tune(
    Triton(
        "kernels.py::matmul",
        signature={"c": HALF, "a": HALF, "b": HALF, "M": "i32:16", "N": "i32:16", "K": "i32:16"},
        constexprs=TILES,
        arch=ARCHITECTURE,
    ),
    space={
        "num_warps": choice([2, 4, 8]),
        "num_stages": choice([1, 2, 3, 4]),
        "BLOCK_M": choice([64, 128]),
        "BLOCK_N": choice([64, 128]),
        "BLOCK_K": choice([32, 64]),
    },
)
def test_triton_matmul(acf, operands, assert_close):
    matmul = acf.build().load()
    *factors, expected = operands
    nothing = np.full((SIZE, SIZE), np.nan, np.float16)
    a, b, c = (DeviceArray(host) for host in (*factors, nothing))
    grid = tuple(SIZE // acf.params.get(tile, TILES[tile]) for tile in ("BLOCK_M", "BLOCK_N"))

    def multiply():
        matmul(grid, c, a, b, *[np.int32(SIZE)] * 3)

    multiply()
    assert_close(c.host(), expected, rtol=2e-2, atol=1)
    c.copy_from(nothing)
    acf.measure(multiply)
    assert_close(c.host(), expected, rtol=2e-2, atol=1)
