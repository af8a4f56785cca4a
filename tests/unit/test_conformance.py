"""Our own engines and toolchains keep the promises that third parties' are held to."""

from __future__ import annotations

import importlib.util
from typing import ClassVar

import pytest

from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import make
from pytest_compileiq.testing import SMALL_SPACE, EngineConformance, ToolchainConformance
from pytest_compileiq.toolchains.cc import Cc
from pytest_compileiq.toolchains.command import Command
from pytest_compileiq.toolchains.nvcc import Nvcc
from pytest_compileiq.toolchains.ptxas import Ptxas
from pytest_compileiq.toolchains.triton import Triton
from tests import needs


def has(*modules: str) -> pytest.MarkDecorator:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)}: pip install {' '.join(missing)}")


class OfRegistry(EngineConformance):
    name: str

    def make(self, brief: Brief):
        return make(self.name, brief)


class TestGa(OfRegistry):
    name = "ga"
    objectives = 2
    evaluations = 28


class TestRandom(OfRegistry):
    name = "random"
    objectives = 3


class TestGrid(OfRegistry):
    name = "grid"
    space = SMALL_SPACE
    objectives = 3


@has("optuna")
class TestOptunaTpe(OfRegistry):
    name = "optuna:tpe"
    objectives = 2
    evaluations = 24


@has("optuna")
class TestOptunaNsga2(OfRegistry):
    name = "optuna:nsga2"
    objectives = 3
    evaluations = 60


@has("optuna", "cmaes")
class TestOptunaCmaes(OfRegistry):
    name = "optuna:cmaes"
    evaluations = 24


@has("optuna", "torch")
class TestOptunaGp(OfRegistry):
    name = "optuna:gp"
    objectives = 2
    evaluations = 14


SUM_C = """\
#include "scale.h"
long sum(const int *x, long n) { long s = 0; for (long i = 0; i < n; i++) s += SCALE * x[i]; return s; }
"""


class TestCc(ToolchainConformance):
    files: ClassVar = {"kernels/sum.c": SUM_C, "kernels/scale.h": "#define SCALE 3\n"}
    test_dir = "kernels"
    knobs = ({"-O": 3, "-funroll-loops": ""}, {"-O": "s"})

    def make(self):
        return Cc("sum.c", flags="-O1 -march=x86-64-v3")


class TestCommand(ToolchainConformance):
    files: ClassVar = TestCc.files
    test_dir = "kernels"
    knobs = ({"level": 3, "-funroll-loops": ""}, {"level": "s"})

    def make(self):
        steps = ["gcc -O{level} -fPIC {options} -c {source} -o {out_dir}/k.o", "gcc -shared {out_dir}/k.o -o {out}"]
        return Command(steps, sources="sum.c", depends="scale.h", defaults={"level": 1})


@needs.ptxas
class TestPtxas(ToolchainConformance):
    files: ClassVar = {
        "k.ptx": """\
.version 8.3
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 p) {
    .reg .b64 %rd<3>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
    ld.global.f32 %f1, [%rd2]; ld.global.f32 %f2, [%rd2+4];
    fma.rn.f32 %f3, %f1, %f2, %f1; st.global.f32 [%rd2], %f3;
    ret;
}
"""
    }
    knobs = ({"-O": 1, "--maxrregcount=": 32}, {"--def-load-cache=": "cv"})

    def make(self):
        return Ptxas("k.ptx", arch="sm_90a")


@needs.nvcc
class TestNvcc(ToolchainConformance):
    files: ClassVar = {
        "k.cu": '#include "scale.h"\nextern "C" __global__ void scale(float *x) { x[threadIdx.x] /= SCALE; }\n',
        "scale.h": "#define SCALE 3.0f\n",
    }
    knobs = ({"--use_fast_math": "", "-Xptxas=-O": 1},)

    def make(self):
        return Nvcc("k.cu", arch="sm_90a")


@needs.triton
@needs.ptxas
class TestTriton(ToolchainConformance):
    files: ClassVar = {
        "kernels.py": """\
import triton
import triton.language as tl

@triton.jit
def scale(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)
"""
    }
    knobs = ({"BLOCK": 1024, "num_warps": 8, "-O": 2},)

    def make(self):
        return Triton(
            "kernels.py::scale", signature={"out": "*fp32:16", "x": "*fp32:16", "n": "i32"}, arch="sm_90a",
            constexprs={"BLOCK": 512},
        )  # fmt: skip
