"""What NVIDIA's compilers and Triton may already change, asked of the real compilers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_compileiq.model import Licence
from pytest_compileiq.toolchains.base import Place, Toolchain
from pytest_compileiq.toolchains.nvidia.builder import by_flags
from pytest_compileiq.toolchains.nvidia.markers import Nvcc, Ptxas
from pytest_compileiq.toolchains.nvidia.options import BaselineOptions
from pytest_compileiq.toolchains.triton.marker import Triton
from tests import needs

PTX = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry axpy(.param .u64 p) {{
    .reg .b64 %rd; .reg .f32 %f<4>; .reg .b32 %r<4>;
    ld.param.u64 %rd, [p]; ld.global.f32 %f1, [%rd];
    mul{0}.f32 %f2, %f1, %f1;
    add{0}.f32 %f3, %f2, %f1;
    {1}
    st.global.f32 [%rd], %f3;
    ret;
}}
"""
CUDA = """
__global__ void axpy(float a, float *y, const float *x) { y[threadIdx.x] += a * x[threadIdx.x]; }
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def axpy(y, x, a, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, a * tl.load(x + at) + tl.load(y + at))
"""


def found(tmp_path: Path, name: str, text: str, toolchain: Toolchain) -> tuple[Licence, ...]:
    (tmp_path / name).write_text(text)
    return toolchain.resolve(Place(tmp_path, tmp_path)).licences()


@needs.ptxas
@pytest.mark.parametrize(
    ("rounding", "more", "flags", "expected"),
    [
        ("", "", "", ["contraction"]),
        ("", "", "--fmad=false", []),
        (".rn", "", "", []),  # the PTX itself keeps them apart
        (".rn", "ex2.approx.ftz.f32 %f3, %f1;", "", ["approximate functions"]),
        (".rn", "red.global.add.f32 [%rd], %f1;", "", ["float atomics"]),
        (".rn", "mad.lo.s32 %r1, %r2, %r3, %r1;", "", []),
    ],
)
def test_ptxas_may_fuse_what_names_no_rounding(tmp_path, rounding, more, flags, expected):
    licences = found(tmp_path, "k.ptx", PTX.format(rounding, more), Ptxas("k.ptx", arch="sm_90a", flags=flags))
    assert [licence.name for licence in licences] == expected
    assert all(licence.where.startswith("axpy (") for licence in licences)


@needs.nvcc
def test_nvcc_contracts_unless_it_is_told_not_to(tmp_path):
    (contraction,) = found(tmp_path, "k.cu", CUDA, Nvcc("k.cu", arch="sm_80"))
    assert contraction.where == "axpy (nvcc's default --fmad=true)"
    assert contraction.remedy == "--fmad=false in the toolchain's flags"
    assert found(tmp_path, "k.cu", CUDA, Nvcc("k.cu", arch="sm_80", flags="--fmad=false")) == ()


@needs.triton
@needs.ptxas
def test_triton_contracts_unless_it_is_told_not_to(tmp_path):
    def axpy(**options: bool) -> Triton:
        signature = {"y": "*fp32", "x": "*fp32", "a": "fp32"}
        return Triton("k.py::axpy", signature, "sm_80", constexprs={"BLOCK": 128}, options=options)

    (contraction,) = found(tmp_path, "k.py", TRITON, axpy())
    assert contraction.remedy == "options={'enable_fp_fusion': False} in Triton(…)"
    assert found(tmp_path, "k.py", TRITON, axpy(enable_fp_fusion=False)) == ()


@needs.nvcc
def test_each_architecture_is_asked_since_a_source_may_tell_them_apart(tmp_path):
    text = "__global__ void f(float *x) {\n#if __CUDA_ARCH__ >= 900\natomicAdd(x, 3.0f);\n#endif\n}\n"
    (atomics,) = found(tmp_path, "k.cu", text, Nvcc("k.cu", arch=["sm_80", "sm_90"]))
    assert atomics.name == "float atomics"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("-O3 --use_fast_math", "--use_fast_math"),
        ("-ftz true", "--ftz=true"),
        ("--prec-div=false -prec-sqrt false", "--prec-div=false --prec-sqrt=false"),
    ],
)
def test_flags_that_trade_accuracy_are_read_as_nvcc_reads_them_where_floating_point_is_computed(flags, said):
    baseline = BaselineOptions("nvcc", flags.split())
    assert list(by_flags(baseline, "mad.lo.s32 %r1, %r2, %r3, %r4;\n")) == []
    (licence,) = by_flags(baseline, "div.approx.ftz.f32 %f1, %f2, %f3;\n")
    assert (licence.name, licence.where) == ("fast maths", said)
