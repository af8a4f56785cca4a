"""Kernels that nothing in their source instantiates: the real nvcc, and names found without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.model import BuildResult, Candidate
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.nvidia.markers import Nvcc
from pytest_compileiq.toolchains.nvidia.nvcc import NvccBuilder, resolve
from tests import needs
from tests.files import write_files

pytestmark = needs.nvcc
ENOUGH_S = 200.0
HEADER = """\
#pragma once
#include "detail/pair.h"
enum class Order { up, down };
namespace ns {
__constant__ float weight[4];
__device__ __noinline__ float helper(float x) { return x * weight[1]; }
template <class T, int N> __global__ void reduce(const T *in, T *out, pair<T, N> *a, pair<T, N> *) {
    __shared__ T part[N];
    part[threadIdx.x] = helper(in[threadIdx.x]) + a->one;
    __syncthreads();
    T sum = 0;
    for (int i = 0; i < N; i++) sum += part[i];
    out[threadIdx.x] = __FILE__[threadIdx.x] + sum;
}
}
template <Order O, bool B> __global__ void sort(float *x) { x[threadIdx.x] = float(O) + B; }
namespace ns {
__global__ void over(float *x) { *x = 1; }
__global__ void over(double *x) { *x = 1; }
}
template <class F> __global__ void apply(float *x, F f) { *x = f(*x); }
namespace { struct Twice { __device__ float operator()(float x) { return 2 * x; } }; }
static __global__ void hidden(float *x) { *x = 2; }
extern "C" __global__ void plain(float *x) { *x = 3; }
using real = double;
constexpr auto by_alias = &ns::reduce<real, 8>;
"""
FILES = {"kernels/k.cuh": HEADER, "kernels/detail/pair.h": "template <class T, int N> struct pair { T one; };\n"}
SYMBOLS = {
    "ns::reduce<float,TILE * 2>": "_ZN2ns6reduceIfLi32EEEvPKT_PS1_P4pairIS1_XT0_EES7_",
    "& ns::reduce<real, 64>": "_ZN2ns6reduceIdLi64EEEvPKT_PS1_P4pairIS1_XT0_EES7_",
    "by_alias": "_ZN2ns6reduceIdLi8EEEvPKT_PS1_P4pairIS1_XT0_EES7_",
    "sort<Order::down, true>": "_Z4sortIL5Order1ELb1EEvPf",
    "(void (*)(double *)) ns::over": "_ZN2ns4overEPd",
    "apply<Twice>": "_Z5applyIN36_GLOBAL__N__00000000_4_k_cu_000000005TwiceEEvPfT_",
    "hidden": "_Z6hiddenPf",
}
PRODUCTION = """\
#include "k.cuh"
__global__ void more(int *x) { *x = 3; }
int main() {
    more<<<1, 1>>>(0);
    sort<Order::down, true><<<1, 1>>>(0);
    ns::reduce<float, 32><<<1, 32>>>(0, 0, 0, 0);
    ns::reduce<double, 16><<<1, 16>>>(0, 0, 0, 0);
}
"""


def builder(root: Path, *expressions: str, source: str = "k.cuh", **arguments) -> NvccBuilder:
    nvcc = Nvcc(source, arch="sm_90a", instantiate=expressions, defines={"TILE": 16}, **arguments)
    return resolve(nvcc, Place(root / "kernels", root))


def build(nvcc: NvccBuilder, out: Path, knobs: dict[str, int] | None = None) -> BuildResult:
    return nvcc.build(nvcc.render(Candidate(knobs)) if knobs else None, out, timeout_s=ENOUGH_S)


def test_every_spelling_finds_its_kernel_and_another_checkout_gives_equal_code(tmp_path):
    one, other = (
        build(builder(write_files(tmp_path / place, FILES), *SYMBOLS), tmp_path / place / "out")
        for place in ("one", "another/deeper")
    )
    assert one.code == other.code
    assert {name: code.symbol for name, code in one.code.items() if name in SYMBOLS} == SYMBOLS
    assert one.code.keys() - SYMBOLS.keys() == {"_ZN2ns4overEPf", "plain"}
    assert all(code.metrics["registers"] > 0 for code in one.code.values()), "ptxas's own words are not joined"


def test_the_code_is_that_of_a_program_with_other_kernels_and_a_macro_changes_its_own_kernel_alone(tmp_path):
    root = write_files(tmp_path / "checkout", {**FILES, "kernels/k.cu": PRODUCTION})
    nvcc = builder(root, "ns::reduce<float, TILE * 2>", "sort<Order::down, true>", flags="-O3 -D__FILE__='\"\"'")
    baseline, tuned = (build(nvcc, tmp_path / str(tile), {"-DTILE=": tile}) for tile in (16, 8))
    program = build(builder(root, source="k.cu", flags="-O3 -D__FILE__='\"\"'"), tmp_path / "program")

    reduce = "ns::reduce<float, TILE * 2>"
    assert baseline.code.keys() == tuned.code.keys()
    assert {name for name in tuned.code if tuned.code[name] != baseline.code[name]} == {reduce}
    assert tuned.code[reduce].symbol == baseline.code[reduce].symbol.replace("Li32E", "Li16E")
    entries = read_cubin(program.path).entries
    for name in (reduce, "sort<Order::down, true>", "_ZN2ns4overEPf", "plain"):
        assert baseline.code[name].sha256 == entries[baseline.code[name].symbol or name].sha256, name


def test_the_closure_is_the_header_s_and_a_macro_may_stand_in_an_expression_alone(tmp_path):
    nvcc = builder(write_files(tmp_path, FILES), "ns::reduce<float, TILE>")
    assert nvcc.sources().keys() == {"kernels/k.cuh", "kernels/detail/pair.h"}
    assert nvcc.compiler.command[-2:] == ("--instantiate=ns::reduce<float, TILE>", "kernels/k.cuh")
    assert nvcc.why_without_effect({"-DTILE=": 8}) is None


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("reduse<float>", r'refuses kernels/k\.cuh: instantiate=\'reduse<float>\': identifier "reduse" is undefined'),
        ("ns::reduce<float>", r"instantiate='ns::reduce<float>': cannot determine which .*: give all its template arg"),
        ("ns::helper", r"names no kernel .* of kernels/k\.cuh: nvcc reads it as float \(\*\)\(float\), &ns::helper$"),
    ],
)
def test_what_names_no_kernel_is_one_sentence_with_nvcc_s_words_and_the_expression(tmp_path, expression, sentence):
    nvcc = builder(write_files(tmp_path, FILES), "plain", expression)
    with pytest.raises(BuildError, match=sentence):
        build(nvcc, tmp_path / "out")


def test_a_kernel_is_found_whose_name_is_too_long_for_the_demangler_of_the_c_runtime(tmp_path):
    parts = [f"stage_of_a_pipeline_with_a_long_name_{number}" for number in range(40)]
    header = "".join(f"struct {part} {{}};\n" for part in parts) + (
        "template <class... Parts> struct Gemm { int *out; };\n"
        "template <class Operator> __global__ void launch(Operator with) { *with.out = sizeof(Operator); }\n"
        f"using Whole = Gemm<{', '.join(parts)}>;\nusing Half = Gemm<{', '.join(parts[::2])}>;\n"
    )
    nvcc = builder(write_files(tmp_path, {"kernels/k.cuh": header}), "launch<Whole>", "launch<Half>")
    built = build(nvcc, tmp_path / "out")
    lengths = {name: len(code.symbol or "") for name, code in built.code.items()}
    assert lengths.keys() == {"launch<Whole>", "launch<Half>"}
    assert lengths["launch<Whole>"] > lengths["launch<Half>"] > 512
