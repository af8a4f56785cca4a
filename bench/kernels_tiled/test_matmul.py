"""A tiled matrix product. SPACE names what a search may vary: the compiler's options, the tiles, or both."""

import ctypes
import os

import numpy as np
import pytest

from pytest_compileiq import Cc, choice

N = 256
TILES = {f"-DTILE_{axis}=": choice([4, 8, 16, 32, 64, 128, 256]) for axis in "IKJ"}
SPACES = {"options": "default", "tiles": TILES, "both": ["default", TILES]}


@pytest.fixture(scope="module")
def matrices():
    """Two factors, and room for the product."""
    rng = np.random.default_rng(7)
    return rng.random((N, N), dtype=np.float32), rng.random((N, N), dtype=np.float32), np.empty((N, N), np.float32)


@pytest.mark.tune(
    Cc("matmul.c", flags="-O2 -march=x86-64-v3", defines={"TILE_I": 8, "TILE_K": 8, "TILE_J": 8}),
    space=SPACES[os.environ.get("SPACE", "both")],
)
def test_matmul(acf, matrices):
    matmul = acf.build().load().matmul
    a, b, c = matrices
    pointers = [ctypes.c_void_p(matrix.ctypes.data) for matrix in matrices]
    acf.measure(lambda: matmul(N, *pointers))
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
