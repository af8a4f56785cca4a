"""nvcc's names for what is private to a file: equal wherever the file lies, on the real compiler."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.machine_code.parts import without_module_id
from pytest_compileiq.model import BuildResult
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.nvidia.markers import Nvcc
from pytest_compileiq.toolchains.nvidia.nvcc import resolve
from pytest_compileiq.toolchains.nvidia.tools import find_tool
from tests import needs
from tests.files import write_files

ENOUGH_S = 200.0
STATIC = """\
static __device__ int counter;
static __constant__ float scale[16];
static __device__ __noinline__ float helper(float x) { return x * scale[threadIdx.x & 15]; }
static __global__ void hidden(float *o) { o[threadIdx.x] = helper(o[threadIdx.x]); }
__global__ void shown(float *o) { atomicAdd(&counter, 1); o[threadIdx.x] = helper(o[threadIdx.x]) + 1; }
extern "C" void launch(float *o) { hidden<<<1, 64>>>(o); shown<<<1, 64>>>(o); }
int main() { launch(0); }
"""
ANONYMOUS = """\
namespace {
struct Twice { __device__ float operator()(float x) const { return x * 2; } };
__device__ float table[64];
__global__ void inner(float *o) { o[threadIdx.x] *= table[threadIdx.x]; }
template <class T> __global__ void generic(T *o) { o[threadIdx.x] = Twice()(o[threadIdx.x]); }
}
template <class F> __global__ void apply(float *o, F f) { o[threadIdx.x] = f(o[threadIdx.x]); }
void go(float *o) { inner<<<1, 64>>>(o); generic<float><<<1, 64>>>(o); apply<<<1, 64>>>(o, Twice()); }
int main() { go(0); }
"""
GROUPS = """\
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace groups = cooperative_groups;
extern "C" __global__ void sum(const float *in, float *out) {
    auto tile = groups::tiled_partition<32>(groups::this_thread_block());
    float all = groups::reduce(tile, in[threadIdx.x], groups::plus<float>());
    if (tile.thread_rank() == 0) *out = all;
}
"""
STANDARD = """\
#include <cuda/std/complex>
__global__ void square(float *x) { cuda::std::complex<float> c(x[0], x[1]); c *= c; x[0] = c.real(); x[1] = c.imag(); }
"""
# No name of its own for the linker: without a seed nvcc takes the number of its process for one.
TEMPLATES = """\
namespace { __device__ float table[64]; }
template <class T> __global__ void add(T *o) { o[threadIdx.x] += table[threadIdx.x]; }
template __global__ void add<float>(float *);
template __global__ void add<double>(double *);
"""


def build(root: Path, text: str, output: str = "cubin", flags: str = "-O3", name: str = "k.cu") -> BuildResult:
    (root / "kernels").mkdir(parents=True)
    (root / "kernels" / name).write_text(text)
    nvcc = resolve(Nvcc(name, arch="sm_90a", flags=flags, output=output), Place(root / "kernels", root))
    return nvcc.build(None, root / "out", timeout_s=ENOUGH_S)


@pytest.mark.slow
@needs.nvcc
@pytest.mark.parametrize("text", [STATIC, ANONYMOUS, GROUPS, STANDARD, TEMPLATES], ids=list("sagct"))
def test_what_is_private_to_a_file_gives_equal_code_in_two_checkouts(tmp_path, text):
    one, other = (build(tmp_path / place, text) for place in ("one", "another/deeper"))
    assert one.digest == other.digest
    assert one.code == other.code
    assert all(code.metrics["registers"] > 0 for code in one.code.values()), "ptxas's own words are not joined"
    raw = [Path(built.path).read_bytes() for built in (one, other)]
    assert raw[0] != raw[1], "nvcc put nothing of the place into the file, so this test shows nothing"


@pytest.mark.slow
@needs.nvcc
@pytest.mark.parametrize(
    ("text", "output", "flags"),
    [(STATIC, "executable", "-O3"), (ANONYMOUS, "library", "-O3"), (STATIC, "library", "-O3 -rdc=true")],
    ids=["static", "anonymous", "relocatable"],
)
def test_the_host_code_that_names_private_kernels_is_equal_in_two_checkouts(tmp_path, text, output, flags):
    one, other = (build(tmp_path / place, text, output, flags) for place in ("one", "another/deeper"))
    assert one.code == other.code
    assert "host" in one.code


@needs.nvcc
def test_a_name_in_the_code_and_in_the_log_is_one_entry(tmp_path):
    built = build(tmp_path / "one", ANONYMOUS)
    symbols = read_cubin(built.path).symbols
    assert symbols.keys() == built.code.keys()
    assert len({name for name in symbols if "_GLOBAL__N__00000000_4_k_cu_" in name}) == 3
    for key, symbol in symbols.items():
        assert f"Compiling entry function '{symbol}'" in built.log
        assert key == without_module_id(symbol)
        demangled = subprocess.run(["c++filt", key], capture_output=True, text=True, check=True).stdout.strip()
        assert demangled != key, "it can no longer be demangled"


@needs.nvcc
@needs.nvcc
def test_nvcc_is_given_a_seed_since_it_takes_one(tmp_path):
    write_files(tmp_path, {"k.cu": "template <int N> __global__ void f(int *x) { *x = N; }\n"})
    for version, is_given in (("12.6.85", False), ("13.0.1", True)):
        of = resolve(Nvcc("k.cu", arch="sm_90a"), Place(tmp_path, tmp_path))
        old = replace(of, tool=structs.replace(of.tool, version=version))
        assert bool(old._seed()) is is_given


def test_a_file_of_templates_alone_has_equal_code_with_our_seed_with_theirs_and_with_none(tmp_path):
    ours = build(tmp_path / "ours", TEMPLATES)
    theirs = build(tmp_path / "theirs", TEMPLATES, flags="-O3 -frandom-seed=17")
    assert ours.code == theirs.code
    nvcc = resolve(Nvcc("k.cu", arch="sm_90a"), Place(tmp_path / "ours/kernels", tmp_path / "ours"))
    argv = [nvcc.tool.program, *nvcc.words, "-cubin", "kernels/k.cu", "-o", "bare.cubin"]
    subprocess.run(argv, cwd=tmp_path / "ours", check=True)
    bare = read_cubin(tmp_path / "ours" / "bare.cubin").entries
    assert {name: code.sha256 for name, code in bare.items()} == {name: code.sha256 for name, code in ours.code.items()}


@needs.nvcc
def test_the_name_of_a_file_may_be_any(tmp_path):
    one, other = (build(tmp_path / place, STATIC, name="3d-kérnel v2.cu") for place in ("one", "another/deeper"))
    assert one.code == other.code


NAMESAKES = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry _ZN33_GLOBAL__N__{one}_4_k_cu_launch1kEv() {{ ret; }}
.visible .entry _ZN33_GLOBAL__N__{other}_4_k_cu_launch1kEv(.param .u64 p) {{ ret; }}
"""


@needs.ptxas
def test_entries_with_one_name_but_for_the_place_are_both_kept_and_told_apart_by_their_code(tmp_path):
    ptxas = find_tool("ptxas", None, Place(tmp_path, tmp_path)).program
    found = []
    for number, (one, other) in enumerate((("0000beef", "0000cafe"), ("0000cafe", "0000beef"))):
        (tmp_path / "k.ptx").write_text(NAMESAKES.format(one=one, other=other))
        subprocess.run([ptxas, "-arch=sm_90a", "k.ptx", "-o", f"{number}.cubin"], cwd=tmp_path, check=True)
        found.append(read_cubin(tmp_path / f"{number}.cubin"))
    key = "_ZN33_GLOBAL__N__00000000_4_k_cu_launch1kEv"
    assert found[0].entries.keys() == {key, f"{key}#2"}
    assert found[0].entries == found[1].entries
    assert found[0].symbols[key] != found[1].symbols[key], "the code decides which of them is the second"


@pytest.mark.parametrize(
    ("name", "stable"),
    [
        (  # the 4 before 35 ends the name __4
            "_ZN33_INTERNAL_2fb6db8a_5_cg_cu_sum_cg4cuda3std3__435_GLOBAL__N__2fb6db8a_5_cg_cu_sum_cg6ignoreE",
            "_ZN33_INTERNAL_00000000_5_cg_cu_sum_cg4cuda3std3__435_GLOBAL__N__00000000_5_cg_cu_sum_cg6ignoreE",
        ),
        (  # process 11575 compiled it; the next length follows at once
            "_ZN43_INTERNAL_4340da88_7_tmpl_cu_ffb3377c_1157545_GLOBAL__N__4340da88_7_tmpl_cu_ffb3377c_115753tabE",
            "_ZN37_INTERNAL_00000000_7_tmpl_cu_0000000039_GLOBAL__N__00000000_7_tmpl_cu_000000003tabE",
        ),
        (
            "$_Z4userPf$_ZN37_INTERNAL_6a137617_7_stat_cu_7352d01d6helperEf",
            "$_Z4userPf$_ZN37_INTERNAL_00000000_7_stat_cu_000000006helperEf",
        ),
        (
            "__nv_static_34__4340da88_7_tmpl_cu_ffb3377c_12963_cnt",
            "__nv_static_28__00000000_7_tmpl_cu_00000000_cnt",
        ),
        ("__fatbinwrap_6a137617_7_stat_cu_7352d01d", "__fatbinwrap_00000000_7_stat_cu_00000000"),
    ],
)
def test_names_seen_in_files_of_nvcc(name, stable):
    assert without_module_id(name) == stable
    assert without_module_id(f"\0{name}\0{name}\0") == f"\0{stable}\0{stable}\0"


@pytest.mark.parametrize("name", ["_GLOBAL__N_1", "_ZN12_GLOBAL__N_15innerEv", "_INTERNAL_x", "deadbeef_2_ab", ""])
def test_other_names_stay(name):
    assert without_module_id(name) == name


PARTS = [
    "_INTERNAL",
    "_GLOBAL__N_",
    "__nv_static_28_",
    "_2fb6db8a",
    "_5_",
    "cg_cu",
    "_7352d01d",
    "_123",
    "33",
    "E",
    "\0",
]


@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
def test_any_text_becomes_one_that_stays(text):
    stable = without_module_id(text)
    assert without_module_id(stable) == stable
