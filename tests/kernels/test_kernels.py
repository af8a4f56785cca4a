"""This project's own kernels, tuned by its own plugin and held to their claims by every run.

Each body is correct before it is fast, and after: the output is poisoned, computed, compared with a float64 reference
and only then measured, where it is looked at between the samples and compared once more. Buffers come from fixtures, so both arms use the same memory: that keeps the gate's statistical power.
The tolerances allow another order of summation and approximate reciprocals (a few float32 roundings), nothing more;
what may change a bit is asked for in the marker, by its class.
"""

import base64
import ctypes
import json
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq import Cc, minimize

FLAGS = "-O2 -march=x86-64-v3"
SOFTENING = 0.01  # as in pair_potential.h
LOW, HIGH, BINS = -2.0, 2.0, 64


def pointer(array):
    """The address of ``array`` for ctypes, keeping it alive."""
    return array.ctypes.data_as(ctypes.c_void_p)


def declare(function, *argtypes, restype=None):
    """Give a loaded C function its signature."""
    function.argtypes, function.restype = argtypes, restype
    return function


@pytest.fixture
def particles():
    rng = np.random.default_rng(1)
    position = rng.random((3, 384), dtype=np.float32)
    charge = rng.random(384, dtype=np.float32)
    return SimpleNamespace(position=position, charge=charge, potential=np.empty(384, np.float32))


@pytest.mark.tune(
    Cc("pair_potential.c", flags=f"{FLAGS} -lm"), space=["default", "contraction", "relaxed-maths"], budget=120
)
def test_pair_potential(acf, particles):
    kernel = declare(acf.build().load().pair_potential, *[ctypes.c_void_p] * 5, ctypes.c_int)
    arrays = [pointer(array) for array in (*particles.position, particles.charge, particles.potential)]

    def run():
        kernel(*arrays, 384)

    wide = particles.position.astype(np.float64)
    squared = ((wide[:, :, None] - wide[:, None, :]) ** 2).sum(axis=0) + SOFTENING
    expected = (particles.charge / np.sqrt(squared)).sum(axis=1)
    particles.potential.fill(np.nan)
    run()
    np.testing.assert_allclose(particles.potential, expected, rtol=1e-5)
    acf.measure(run, outputs=[particles.potential])
    np.testing.assert_allclose(particles.potential, expected, rtol=1e-5)


@pytest.fixture
def grid():
    now = np.random.default_rng(2).random((512, 512), dtype=np.float32)
    return SimpleNamespace(now=now, next=np.empty_like(now))


@pytest.mark.tune(Cc("stencil.c", flags=FLAGS), space=["default", "relaxed-maths"], budget=120)
def test_stencil(acf, grid):
    kernel = declare(acf.build().load().stencil, *[ctypes.c_void_p] * 2, ctypes.c_int, ctypes.c_float)
    now, following = pointer(grid.now), pointer(grid.next)

    def run():
        kernel(now, following, 512, 0.2)

    grid.next.fill(np.nan)
    run()
    wide = grid.now.astype(np.float64)
    inner = wide[1:-1, 1:-1]
    neighbours = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    expected = np.full_like(wide, np.nan)  # the edges are not the kernel's to write
    expected[1:-1, 1:-1] = inner + 0.2 * (neighbours - 4 * inner)
    np.testing.assert_allclose(grid.next, expected, rtol=1e-5, atol=1e-6)
    acf.measure(run, outputs=[grid.next])
    np.testing.assert_allclose(grid.next[1:-1, 1:-1], expected[1:-1, 1:-1], rtol=1e-5, atol=1e-6)


@pytest.fixture
def readings():
    """Values clear of the bins' edges, where rounding would decide; some lie outside [LOW, HIGH)."""
    rng = np.random.default_rng(3)
    bins = rng.integers(-2, BINS + 2, 524_288)
    values = LOW + (bins + rng.uniform(0.05, 0.95, bins.size)) * (HIGH - LOW) / BINS
    return SimpleNamespace(
        values=values.astype(np.float32), bins=bins.clip(0, BINS - 1), counts=np.empty(BINS, dtype=np.int32)
    )


@pytest.mark.tune(
    Cc("histogram.c", flags=FLAGS),
    space=["default", "relaxed-maths"],
    workloads={"small": {"n": 65_536}, "large": {"n": 524_288}, "odd": {"n": 1009, "weight": 0}},
    budget=120,
)
def test_histogram(acf, readings):
    signature = (ctypes.c_void_p, ctypes.c_int, ctypes.c_float, ctypes.c_float, ctypes.c_void_p)
    kernel = declare(acf.build().load().histogram, *signature)
    values, counts, n = pointer(readings.values), pointer(readings.counts), acf.workload.n

    def run():
        kernel(values, n, LOW, HIGH, counts)

    expected = np.bincount(readings.bins[:n], minlength=BINS)
    readings.counts.fill(-1)
    run()
    np.testing.assert_array_equal(readings.counts, expected)
    acf.measure(run, outputs=[readings.counts])
    np.testing.assert_array_equal(readings.counts, expected)


@pytest.fixture
def matrices():
    a, b = np.random.default_rng(4).random((2, 96, 96), dtype=np.float32)
    return SimpleNamespace(a=a, b=b, product=np.empty_like(a))


@pytest.mark.tune(Cc("matmul.c", flags=FLAGS), space=["default", "relaxed-maths"], budget=120)
def test_matmul(acf, matrices):
    kernel = declare(acf.build().load().matmul, *[ctypes.c_void_p] * 3, ctypes.c_int)
    arrays = [pointer(array) for array in (matrices.a, matrices.b, matrices.product)]

    def run():
        kernel(*arrays, 96)

    expected = matrices.a.astype(np.float64) @ matrices.b
    matrices.product.fill(np.nan)
    run()
    np.testing.assert_allclose(matrices.product, expected, rtol=1e-5)
    acf.measure(run, outputs=[matrices.product])
    np.testing.assert_allclose(matrices.product, expected, rtol=1e-5)


TOKEN = np.dtype([("kind", np.int32), ("start", np.int32), ("length", np.int32)])


def tokens_of(tokenize, text):
    """Return the tokens of ``text`` as (kind, text) pairs, or the error code."""
    tokens = np.zeros(len(text) + 1, TOKEN)
    count = tokenize(text, len(text), pointer(tokens), len(tokens))
    if count < 0:
        return count
    return [(chr(kind), text[start : start + length]) for kind, start, length in tokens[:count].tolist()]


@pytest.mark.tune(Cc("wire.c", flags=FLAGS), objectives=[minimize("code_bytes")], budget=120)
def test_wire(acf):
    wire = acf.build().load()
    crc32 = declare(wire.crc32, ctypes.c_char_p, ctypes.c_size_t, restype=ctypes.c_uint32)
    encode = declare(wire.base64_encode, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, restype=ctypes.c_size_t)
    signature = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int)
    tokenize = declare(wire.json_tokenize, *signature, restype=ctypes.c_int)

    data = np.random.default_rng(5).bytes(300)
    for size in (0, 1, 2, 3, 4, 299, 300):
        part, text = data[:size], ctypes.create_string_buffer(404)
        assert crc32(part, size) == zlib.crc32(part)
        length = encode(part, size, text)
        assert text.raw[:length] == base64.b64encode(part)

    document = {"a": [1, -2.5e-3, True, False, None], 'b\n"': {"deep": ["", "tab\t\\"]}}
    text = json.dumps(document, indent=1).encode()
    tokens = tokens_of(tokenize, text)
    assert json.loads(b" ".join(token for _, token in tokens)) == document
    assert "".join(kind for kind, _ in tokens) == "{s:[n,n,t,f,z],s:{s:[s,s]}}"
    for broken in (b"-", b"1.", b"2e", b"nul", b'"', b'"\\', b'"\x01"', b"@"):
        assert tokens_of(tokenize, broken) == -1
    assert tokenize(b"[1]", 3, pointer(np.zeros(2, TOKEN)), 2) == -2
