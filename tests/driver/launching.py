"""Programs that launch by Triton's JIT, as ``acf capture`` runs them."""

from __future__ import annotations

from tests.driver.conftest import ROOT

KERNELS_PY = (ROOT / "tests/kernels/triton_kernels/kernels.py").read_text()

TENSORS_PY = '''\
"""Tensors as far as Triton asks: no torch, and no GPU."""


class Tensor:
    def __init__(self, dtype, *shape, at=1 << 12):
        self.dtype, self.shape, self._address = dtype, shape, 1 << 47 | at

    def data_ptr(self):
        return self._address


class Half(str):
    itemsize = 2  # bytes
'''
MORE_KERNELS_PY = """\
import triton
import triton.language as tl


def fastest(call, **_):
    call()
    return [1.0, 1.0, 1.0]


@triton.autotune([triton.Config({"BLOCK": 64}, maxnreg=64), triton.Config({"BLOCK": 128}, num_warps=2)], key=["n"], do_bench=fastest)
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def scale(out, x, bias, n, by: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, DTYPE: tl.constexpr, plus=7.5):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at) if EVEN else tl.load(x + at, mask=at < n)
    tl.store(out + at, (value * by[0] + plus).to(DTYPE), mask=at < n)


@triton.jit(do_not_specialize=["n"], debug=True)
def described(out, x: tl.const, is_wanted, big, n, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.device_assert(n > big)
    if is_wanted:
        out.store([0, 0], tl.load(x + at[:, None] * SIZE + at[None, :]))


@triton.jit
def copy(out, x, stride, shape, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at * stride, tl.load(x + at, mask=at < shape[0]), mask=at < shape[0])


@triton.jit
def twice(x):
    return x + x


@triton.jit
def applied(out, f: tl.constexpr):
    tl.store(out, f(tl.load(out)))
"""
SERVE_PY = """\
import os, sys, threading
import triton
import triton.language as tl
from kernels import flash_attention, matmul, softmax
from more_kernels import applied, copy, described, scale, twice
from tensors import Half, Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

x, out = Tensor("fp32", 128, 1920), Tensor("fp32", 128, 1920)
for _ in range(30):
    softmax[(128,)](out, x, 1920, 1920, BLOCK=2048)
for columns in (1001, 1003):
    softmax[lambda meta: (64, meta["BLOCK"] // 1024)](out, Tensor("fp32", 64, columns, at=8), columns, columns, 1024, num_warps=8)
a, b, c = (Tensor("fp16", 512, 512) for _ in range(3))
threads = [threading.Thread(target=lambda: [matmul[4, 4](c, a, b, 512, 512, 512, 128, 128, BLOCK_K=64) for _ in range(5)]) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
flash_attention[(2,)](c, a, b, a, 512, 0.125, HEAD=64, BLOCK_Q=128, BLOCK_K=64, maxnreg=128, enable_fp_fusion=False)
for _ in range(3):
    scale[(8,)](Tensor("fp16", 1000), x, None, 1000, by=(2.0,), DTYPE=tl.float16)
ready = copy.warmup(out, x, 1, (1920, 4), BLOCK=64, grid=(1,))
ready[(30, 1, 1)](out, x, 1, (1920, 4), 64)
square = Tensor(Half("fp16"), 512, 512)
described[(1,)](TensorDescriptor(square, [512, 512], [512, 1], [64, 64]), square, True, 1 << 40, 512, SIZE=64, num_ctas=2)
applied[(1,)](out, f=twice)

def within():
    @triton.jit
    def inner(out):
        tl.store(out, 1.0)
    inner[(1,)](out)
within()
try:
    softmax[(1,)](out, x, "text", 1, BLOCK=64)
except TypeError as error:
    print("refused as without:", type(error).__name__)
if os.fork() == 0:
    softmax[(128,)](out, x, 1920, 1920, BLOCK=2048)
    sys.exit()
os.wait()
print("served", softmax.run.__name__)
"""
GENERATED_PY = """\
import triton
import triton.language as tl


@triton.jit
def fill(out, value, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, value * value + 1.5, mask=at < n)
"""
LIGER_PY = '''\
"""Launches kernels of liger-kernel as they are installed; what of its modules needs torch is left out."""

import sys
from pathlib import Path

import triton
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.triton.torch_stub import load_module
from pytest_compileiq.toolchains.triton.source import find_kernel
from pytest_compileiq.toolchains.triton.torch_stub import answers_of, stand_in
from tensors import Tensor

triton.runtime.driver.active.get_current_device()  # before a stand-in for torch is there, which Triton would ask
here = Path.cwd()


def kernel(module, name):
    source = find_kernel(f"{module}:{name}", Place(here, here))
    return getattr(load_module(source.module, source.parts()), name)


half, single = Tensor("bf16", 8, 1024), Tensor("fp32", 8)
with stand_in(answers_of((9, 0), None)):
    rms_norm = kernel("liger_kernel.ops.rms_norm", "_rms_norm_forward_kernel")
for _ in range(4):
    rms_norm[(8,)](
        half, 1024, half, 1024, half, 1, single, 1, 1024, 1e-6, 0.0,
        casting_mode=0, elementwise_affine=True, BLOCK_SIZE=1024, num_warps=8,
    )
sys.path.append("../cache")  # as frameworks import what they generate
from generated import fill

fill[(4,)](single, 0.5, 100, BLOCK=32, enable_fp_fusion=False)
dyt = kernel("liger_kernel.ops.dyt", "_dyt_fwd_kernel")
dyt.fn[(8, 1)](half, half, single, half, None, HAVE_BETA=False, N=1024, BLOCK_N=512, num_warps=4, maxnreg=64)
'''
