"""Which kernels of Triton's own tutorials compile as they are written: ``triton_as_written.py DIRECTORY``.

The directory is a copy of ``python/tutorials`` of triton-lang/triton, which this project does not hold. A line for each
kernel: its registers and what the toolchain remarked, or the refusal. Nothing is launched, and no GPU is needed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_compileiq import Triton
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.toolchains.base import Place

LONG_S = 300.0
HALF, FLOAT, INT = "*fp16:16", "*fp32:16", "i32:16"


def types(names: str, kind: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


def described(names: str, sizes: str) -> dict[str, str]:
    return types(names, f"tensordesc<fp16[{sizes}]>")


STRIDES = types("stride_am stride_bk stride_cm", INT) | types("stride_ak stride_bn stride_cn", "i32:1")
MATRICES = types("a_ptr b_ptr c_ptr", HALF) | types("M N K", INT)
GROUPS = types("group_a_ptrs group_b_ptrs group_c_ptrs", "*i64:16") | types("group_gemm_sizes g_lds", "*i32:16")
TILES = (
    described("a_desc", "BLOCK_SIZE_M, BLOCK_SIZE_K")
    | described("b_desc", "BLOCK_SIZE_N, BLOCK_SIZE_K")
    | types("M N K", INT)
)
WHOLE = described("c_desc", "BLOCK_SIZE_M, BLOCK_SIZE_N")
HALVES = described("c_desc", "BLOCK_SIZE_M, BLOCK_SIZE_N // (1 + EPILOGUE_SUBTILE)")
ATTENTION = {"HEAD_DIM": 64, "FP8_OUTPUT": False, "STAGE": 3, "warp_specialize": False, "IS_HOPPER": True}
BACKWARD = {
    "BLOCK_M1": 32, "BLOCK_N1": 128, "BLOCK_M2": 128, "BLOCK_N2": 32, "BLK_SLICE_FACTOR": 2, "HEAD_DIM": 64,
    "CAUSAL": True,
}  # fmt: skip

# What the tutorial launches each kernel with, as far as its decorators leave it open.
KERNELS: dict[str, dict[str, Any]] = {
    "01-vector-add.py::add_kernel": {
        "signature": types("x_ptr y_ptr output_ptr", FLOAT) | {"n_elements": INT}, "constexprs": {"BLOCK_SIZE": 1024},
    },
    "02-fused-softmax.py::softmax_kernel": {
        "signature": types("output_ptr input_ptr", FLOAT)
        | types("input_row_stride output_row_stride n_rows n_cols", "i32"),
        "constexprs": {"BLOCK_SIZE": 1024}, "num_warps": 8, "num_stages": 4,
    },
    "03-matrix-multiplication.py::matmul_kernel": {
        "signature": MATRICES | STRIDES, "constexprs": {"ACTIVATION": "leaky_relu"},
    },
    "04-low-memory-dropout.py::_dropout": {
        "signature": types("x_ptr x_keep_ptr output_ptr", FLOAT) | {"n_elements": "i32", "p": "fp32"},
        "constexprs": {"BLOCK_SIZE": 1024},
    },
    "04-low-memory-dropout.py::_seeded_dropout": {
        "signature": types("x_ptr output_ptr", FLOAT) | {"n_elements": "i32", "p": "fp32", "seed": "i32"},
        "constexprs": {"BLOCK_SIZE": 1024},
    },
    "05-layer-norm.py::_layer_norm_fwd_fused": {
        "signature": types("X Y W B", HALF) | types("Mean Rstd", FLOAT) | types("stride N", INT) | {"eps": "fp32"},
        "constexprs": {"BLOCK_SIZE": 4096}, "num_warps": 8,
    },
    "05-layer-norm.py::_layer_norm_bwd_dx_fused": {
        "signature": types("DX DY DW DB X W", HALF) | types("Mean Rstd", FLOAT) | {"Lock": "*i32:16"}
        | types("stride N", INT),
        "constexprs": {"GROUP_SIZE_M": 96, "BLOCK_SIZE_N": 4096}, "num_warps": 8,
    },
    "05-layer-norm.py::_layer_norm_bwd_dwdb": {
        "signature": types("DW DB FINAL_DW FINAL_DB", HALF) | types("M N", INT),
        "constexprs": {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 128},
    },
    "06-fused-attention.py::_attn_fwd": {
        "signature": {"sm_scale": "fp32", "M": FLOAT, "Z": "i32", "H": "i32", "N_CTX": INT}
        | described("desc_q desc_o", "BLOCK_M, HEAD_DIM") | described("desc_k desc_v", "BLOCK_N, HEAD_DIM"),
        "constexprs": ATTENTION,
    },
    "06-fused-attention.py::_attn_bwd_preprocess": {
        "signature": types("O DO", HALF) | {"Delta": FLOAT, "Z": "i32", "H": "i32", "N_CTX": INT},
        "constexprs": {"BLOCK_M": 128, "HEAD_DIM": 64},
    },
    "06-fused-attention.py::_attn_bwd": {
        "signature": types("Q K V DO DQ DK DV", HALF) | types("M D", FLOAT) | {"sm_scale": "fp32", "stride_d": "i32:1"}
        | types("stride_z stride_h stride_tok H N_CTX", INT),
        "constexprs": BACKWARD, "num_warps": 4, "num_stages": 5,
    },
    "07-extern-functions.py::asin_kernel": {
        "signature": types("x_ptr y_ptr", FLOAT) | {"n_elements": "i32"}, "constexprs": {"BLOCK_SIZE": 1024},
    },
    "08-grouped-gemm.py::grouped_matmul_kernel": {"signature": GROUPS | {"group_size": "i32"}},
    "08-grouped-gemm.py::grouped_matmul_tma_kernel": {
        "signature": GROUPS | {"group_size": "i32"}, "constexprs": {"NUM_SM": 132, "FP8": False},
    },
    "09-persistent-matmul.py::matmul_kernel": {"signature": MATRICES | STRIDES},
    "09-persistent-matmul.py::matmul_kernel_tma": {
        "signature": TILES | WHOLE, "constexprs": {"FP8_OUTPUT": False, "WARP_SPECIALIZE": False},
    },
    "09-persistent-matmul.py::matmul_kernel_persistent": {
        "signature": MATRICES | STRIDES, "constexprs": {"NUM_SMS": 132},
    },
    "09-persistent-matmul.py::matmul_kernel_tma_persistent": {
        "signature": TILES | HALVES, "constexprs": {"FP8_OUTPUT": False, "NUM_SMS": 132, "WARP_SPECIALIZE": False},
    },
    "09-persistent-matmul.py::matmul_kernel_tma_clc": {
        "signature": TILES | HALVES, "constexprs": {"FP8_OUTPUT": False, "WARP_SPECIALIZE": False},
        "options": {"clc": True},
    },
    "09-persistent-matmul.py::matmul_kernel_descriptor_persistent": {
        "signature": MATRICES, "constexprs": {"NUM_SMS": 132, "WARP_SPECIALIZE": False, "FLATTEN": True},
    },
}  # fmt: skip


def lines(tutorials: Path, arch: str, wanted: str) -> Iterator[str]:
    place = Place(tutorials, tutorials)
    for kernel, arguments in KERNELS.items():
        if not (tutorials / kernel.partition("::")[0]).is_file() or wanted not in kernel:
            continue
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as directory:
                builder = Triton(kernel, arch=arch, **arguments).resolve(place)
                built = builder.build(None, Path(directory), timeout_s=LONG_S)
        except CompileIQError as error:
            yield f"refused   {kernel}: {error}"
            continue
        took_s = time.monotonic() - began
        yield f"compiles  {kernel}  {built.metrics['registers']} registers, {took_s:.1f} s"
        yield from (f"          {remark}" for remark in builder.remarks(built))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("-k", default="", metavar="TEXT", help="kernels with this in their name alone")
    given = parser.parse_args()
    for line in lines(given.directory.resolve(), given.arch, given.k):
        print(line, flush=True)
