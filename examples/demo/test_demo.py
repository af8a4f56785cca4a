"""The demo: tune an edge detector's compiler options, prove the gain, hold it."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq import Cc

HEIGHT, WIDTH = 240, 320
PAGE = 4096


def placed(offset):
    """An image that begins ``offset`` bytes into a page: where NumPy puts one varies, and the kernel's time with it."""
    room = np.empty(HEIGHT * WIDTH * 4 + 2 * PAGE, dtype=np.uint8)
    begin = -room.ctypes.data % PAGE + offset
    return room[begin : begin + HEIGHT * WIDTH * 4].view(np.float32).reshape(HEIGHT, WIDTH)


@pytest.fixture
def buffers():
    """An image, room for its edges, and the right answer in float64 (the border is not the kernel's to write)."""
    image, out = placed(0), placed(PAGE // 2)
    image[:] = np.random.default_rng(7).random((HEIGHT, WIDTH), dtype=np.float32)
    wide = image.astype(np.float64)
    across = wide[:-2] + 2 * wide[1:-1] + wide[2:]
    down = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
    expected = np.full_like(wide, np.nan)
    expected[1:-1, 1:-1] = np.hypot(across[:, 2:] - across[:, :-2], down[2:] - down[:-2])
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (image, out)]
    return SimpleNamespace(out=out, expected=expected, arguments=(*pointers, HEIGHT, WIDTH))


@pytest.mark.tune(Cc("demo.c", flags="-O2 -march=x86-64-v3 -lm"))
def test_demo(acf, buffers):
    """Correct before it is timed, and after."""
    kernel = acf.build().load().edges
    buffers.out.fill(np.nan)
    kernel(*buffers.arguments)
    np.testing.assert_allclose(buffers.out, buffers.expected, rtol=1e-4, atol=1e-5)
    acf.measure(lambda: kernel(*buffers.arguments), outputs=[buffers.out])
    np.testing.assert_allclose(buffers.out, buffers.expected, rtol=1e-4, atol=1e-5)
