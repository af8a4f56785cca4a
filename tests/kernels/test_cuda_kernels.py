"""CUDA C++ and Triton kernels of this project, tuned by NVIDIA's CompileIQ for exact metrics and replayed without a GPU.

On a machine with the GPU the bodies run: correct output is required there. Elsewhere they end at ``load()``, and the
run says so.
"""

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Nvcc, PtxasSearchSpace, Triton, choice, minimize
from tests import needs

ARCH = "sm_90a"
HALF = "*fp16:16"


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def softmax_of(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@needs.nvcc
@pytest.mark.tune(Nvcc("cuda/reduction.cu", arch=ARCH), objectives=[minimize("instructions")], name="cuda-reduction")
def test_reduction(acf):
    kernel = acf.build().load().reduce_sum
    host = normal(1 << 20)
    x, partial = DeviceArray(host), DeviceArray(np.full(128, np.nan, np.float32))
    kernel(128, 256, x, partial, np.int32(host.size))
    np.testing.assert_allclose(partial.host().sum(dtype=np.float64), host.sum(dtype=np.float64), rtol=1e-4, atol=1e-2)


@needs.nvcc
@pytest.mark.tune(Nvcc("cuda/matmul.cu", arch=ARCH), objectives=[minimize("instructions")], name="cuda-matmul")
def test_matmul(acf):
    kernel = acf.build().load().matmul
    size = 512
    host_a, host_b = normal(size, size), normal(size, size)
    a, b, c = DeviceArray(host_a), DeviceArray(host_b), DeviceArray(np.full((size, size), np.nan, np.float32))
    kernel((size // 64, size // 64), 256, a, b, c, np.int32(size))
    np.testing.assert_allclose(c.host(), host_a.astype(np.float64) @ host_b, rtol=1e-3, atol=1e-3)


@needs.nvcc
@pytest.mark.tune(Nvcc("cuda/layer_norm.cu", arch=ARCH), objectives=[minimize("registers")], name="cuda-layer-norm")
def test_layer_norm(acf):
    kernel = acf.build().load().layer_norm
    host, weight, bias = normal(64, 1024), normal(1024), normal(1024)
    x, w, b = DeviceArray(host), DeviceArray(weight), DeviceArray(bias)
    y = DeviceArray(np.full_like(host, np.nan))
    kernel(64, 256, x, w, b, y, np.float32(1e-5))
    centred = host - host.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt(host.var(axis=1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(y.host(), expected, rtol=1e-3, atol=1e-4)


def check_attention(acf):
    kernel = acf.build().load().attention
    rows, keys = 1024, 256
    host_q, host_k, host_v = normal(rows, 32), normal(keys, 32), normal(keys, 32)
    q, k, v = DeviceArray(host_q), DeviceArray(host_k), DeviceArray(host_v)
    out = DeviceArray(np.full_like(host_q, np.nan))
    kernel(rows // 256, 256, q, k, v, out, np.int32(keys))
    np.testing.assert_allclose(out.host(), softmax_of(host_q @ host_k.T) @ host_v, rtol=1e-3, atol=1e-4)


@needs.nvcc
@pytest.mark.tune(Nvcc("cuda/attention.cu", arch=ARCH), objectives=[minimize("spill_bytes")], name="cuda-attention")
def test_attention(acf):
    check_attention(acf)


@needs.nvcc
@pytest.mark.tune(
    Nvcc("cuda/attention.cu", arch="sm_100a", controls="nvcc"),
    objectives=[minimize("instructions")],
    name="cuda-attention-blackwell",
)
def test_attention_on_blackwell(acf):
    check_attention(acf)


@needs.triton
@needs.ptxas
@pytest.mark.tune(
    Triton(
        "triton_kernels/kernels.py::softmax",
        signature={"out": "*fp32:16", "x": "*fp32:16", "row_stride": "i32:16", "columns": "i32"},
        constexprs={"BLOCK": 2048},
        arch=ARCH,
    ),
    space=["default", {"num_warps": choice([2, 4, 8])}],
    objectives=[minimize("instructions")],
    name="triton-softmax",
)
def test_triton_softmax(acf):
    kernel = acf.build().load()
    host = normal(128, 1920)
    x, out = DeviceArray(host), DeviceArray(np.full_like(host, np.nan))
    kernel(128, out, x, np.int32(1920), np.int32(1920))
    np.testing.assert_allclose(out.host(), softmax_of(host), rtol=1e-4, atol=1e-6)


@needs.triton
@needs.ptxas
@pytest.mark.tune(
    Triton(
        "triton_kernels/kernels.py::matmul",
        signature={"c": HALF, "a": HALF, "b": HALF, "M": "i32:16", "N": "i32:16", "K": "i32:16"},
        constexprs={"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64},
        arch=ARCH,
    ),
    objectives=[minimize("registers")],
    name="triton-matmul",
)
def test_triton_matmul(acf):
    kernel = acf.build().load()
    size = 512
    host_a, host_b = normal(size, size, dtype=np.float16), normal(size, size, dtype=np.float16)
    a, b, c = DeviceArray(host_a), DeviceArray(host_b), DeviceArray(np.full((size, size), np.nan, np.float16))
    kernel((size // 128, size // 128), c, a, b, *[np.int32(size)] * 3)
    np.testing.assert_allclose(c.host(), host_a.astype(np.float32) @ host_b, rtol=2e-2, atol=2e-1)


@needs.triton
@needs.ptxas
@pytest.mark.tune(
    Triton(
        "triton_kernels/kernels.py::flash_attention",
        signature={"out": HALF, "q": HALF, "k": HALF, "v": HALF, "keys": "i32:16", "scale": "fp32"},
        constexprs={"HEAD": 64, "BLOCK_Q": 128, "BLOCK_K": 64},
        arch=ARCH,
    ),
    space=PtxasSearchSpace(variant="att"),
    objectives=[minimize("instructions")],
    name="triton-flash-attention",
)
def test_triton_flash_attention(acf):
    kernel = acf.build().load()
    rows, keys, scale = 256, 512, np.float32(0.125)
    host_q, host_k, host_v = (normal(count, 64, dtype=np.float16) for count in (rows, keys, keys))
    q, k, v = DeviceArray(host_q), DeviceArray(host_k), DeviceArray(host_v)
    out = DeviceArray(np.full_like(host_q, np.nan))
    kernel(rows // 128, out, q, k, v, np.int32(keys), scale)
    scores = host_q.astype(np.float32) @ host_k.astype(np.float32).T * scale
    np.testing.assert_allclose(out.host(), softmax_of(scores) @ host_v.astype(np.float32), rtol=2e-2, atol=2e-2)
