"""Kernels of liger-kernel, a package that nobody here wrote, as they are installed: it imports torch throughout."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.triton.builder import resolve
from pytest_compileiq.toolchains.triton.marker import Triton
from tests import needs

pytestmark = [
    needs.triton,
    needs.ptxas,
    pytest.mark.skipif(not needs.has("liger_kernel"), reason="no liger-kernel: pip install --no-deps liger-kernel"),
]
ENOUGH_S = 120.0
HALF, FLOAT, STRIDE = "*bf16:16", "*fp32:16", "i32:16"


def types(names: str, kind: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


KERNELS: dict[str, dict[str, Any]] = {
    "rms_norm:_rms_norm_forward_kernel": {
        "signature": types("Y_ptr X_ptr W_ptr", HALF) | types("Y_row_stride X_row_stride n_cols", STRIDE)
        | {"RSTD_ptr": FLOAT} | types("W_row_stride RSTD_row_stride", "i32:1") | types("eps offset", "fp32"),
        "constexprs": {"casting_mode": 0, "elementwise_affine": True, "BLOCK_SIZE": 1024},
    },
    "swiglu:_swiglu_forward_kernel": {
        "signature": types("a_ptr b_ptr c_ptr", HALF) | {"stride": STRIDE, "gate_multiplier": "fp32"},
        "constexprs": {"n_cols": 1024, "BLOCK_SIZE": 1024},
    },
    "layer_norm:_layer_norm_forward_kernel": {
        "signature": types("Y_ptr X_ptr W_ptr B_ptr", HALF) | types("Mean_ptr RSTD_ptr", FLOAT) | {"eps": "fp32"}
        | types("Y_row_stride X_row_stride n_cols", STRIDE)
        | types("W_row_stride B_row_stride Mean_row_stride RSTD_row_stride", "i32:1"),
        "constexprs": {"BLOCK_SIZE": 1024},
    },
    "softmax:_softmax_single_block_forward_kernel": {
        "signature": types("Y_ptr X_ptr", HALF) | types("Y_row_stride X_row_stride n_cols", STRIDE),
        "constexprs": {"BLOCK_SIZE": 1024},
    },
    "cross_entropy:liger_cross_entropy_kernel": {
        "signature": {"X_ptr": HALF, "Y_ptr": "*i64:16", "loss_ptr": HALF} | types("X_stride n_cols", STRIDE)
        | types("Y_stride loss_stride token_accuracy_stride predicted_tokens_stride", "i32:1")
        | types("n_non_ignore ignore_index", "i32") | types("sum_non_ignore_weight weight_sum", "fp32"),
        "constexprs": {
            "weight_ptr": None, "z_loss_ptr": None, "token_accuracy_ptr": None, "predicted_tokens_ptr": None,
            "softcap": None, "lse_square_scale": 0.0, "label_smoothing": 0.0, "reduction": "mean",
            "RETURN_Z_LOSS": False, "RETURN_TOKEN_ACCURACY": False, "RETURN_PREDICTED_TOKENS": False,
            "BLOCK_SIZE": 1024, "HAS_WEIGHT": False, "HAS_SOFTCAPPING": False, "HAS_GRADIENTS": True,
        },
    },
    "rope:_triton_rope": {
        "signature": types("q_ptr k_ptr cos sin", HALF)
        | types("q_row_stride k_row_stride cos_row_stride sin_row_stride sl", STRIDE),
        "constexprs": {
            "bs": 1, "cos_bs": 1, "n_qh": 8, "n_kh": 2, "hd": 64, "pad_n_qh": 8, "pad_n_kh": 2, "pad_hd": 64,
            "pad_rd": 64, "rd": 64, "BLOCK_SIZE": 64,
        },
    },
    "jsd:_jsd_kernel": {
        "signature": types("X_ptr Y_ptr dX_ptr", HALF) | types("loss_ptr label_ptr", FLOAT) | {"n_non_ignore": "i32"}
        | types("X_stride Y_stride loss_stride dX_stride n_cols", STRIDE),
        "constexprs": {"beta": 0.5, "ignore_index": -100, "BLOCK_SIZE": 1024, "HAS_LABEL": False},
    },
    "dyt:_dyt_fwd_kernel": {  # autotuned, and one pointer is None
        "signature": types("X Y Gamma", HALF) | {"Alpha": FLOAT},
        "constexprs": {"Beta": None, "HAVE_BETA": False, "N": 1024},
    },
    "group_norm:_group_norm_backward_kernel": {  # one constexpr is a dtype
        "signature": types("X_ptr W_ptr DX_ptr DW_ptr DB_ptr UPSTREAM_ptr", HALF) | types("Mean_ptr RSTD_ptr", FLOAT)
        | types("X_row_stride X_col_stride Mean_ptr_row_stride", STRIDE) | {"Mean_ptr_col_stride": "i32:1"},
        "constexprs": {"hidden_size": 1024, "channels_per_group": 4, "BLOCK_SIZE": 1024, "dtype": "tl.bfloat16"},
    },
    "sparsemax:_sparsemax_forward_kernel": {  # num_warps is a constexpr of it, too
        "signature": types("x_ptr sorted_x_ptr o_ptr", FLOAT)
        | types("x_stride_row sorted_x_stride_row o_stride_row n_cols", STRIDE),
        "constexprs": {"BLOCK_SIZE": 1024}, "num_warps": 8,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_of_an_installed_package_compiles_as_it_is(tmp_path, name):
    place = Place(tmp_path, tmp_path)
    kernel = resolve(Triton(f"liger_kernel.ops.{name}", arch="sm_90a", **KERNELS[name]), place)
    built = kernel.build(None, tmp_path / "out", timeout_s=ENOUGH_S)

    assert built.code.keys() == {name.partition(":")[2]}
    assert built.metrics["registers"] > 0
    assert f"liger_kernel/ops/{name.partition(':')[0]}.py" in kernel.sources()
    assert not any(Path(path).is_absolute() or ".." in path for path in kernel.sources())
    assert not {"liger_kernel", "triton", "torch"} & set(sys.modules)
    assert find_spec("torch") or not [line for line in kernel.remarks(built) if "stand-in" in line]
