"""The demo: tune an edge detector's compiler options, prove the gain, hold it."""

import ctypes

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
    """Room for an image and for its edges, which both arms share."""
    return placed(0), placed(PAGE // 2)


def edges(image):
    """The right answer in float64; the border is not the kernel's to write."""
    wide = image.astype(np.float64)
    across = wide[:-2] + 2 * wide[1:-1] + wide[2:]
    down = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
    expected = np.full_like(wide, np.nan)
    expected[1:-1, 1:-1] = np.hypot(across[:, 2:] - across[:, :-2], down[2:] - down[:-2])
    return expected


@pytest.mark.tune(Cc("demo.c", flags="-O2 -march=x86-64-v3 -lm"))
def test_demo(acf, buffers):
    """Correct before it is timed, and after."""
    kernel, (image, out) = acf.build().load().edges, buffers
    image[:] = acf.rng.random(image.shape, dtype=np.float32)
    expected = edges(image)
    out.fill(np.nan)
    arguments = *(array.ctypes.data_as(ctypes.c_void_p) for array in buffers), HEIGHT, WIDTH
    kernel(*arguments)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    acf.measure(lambda: kernel(*arguments), outputs=[out])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
