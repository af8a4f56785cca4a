"""What ``functions=`` and ``neighbours=`` of a toolchain say."""

from __future__ import annotations

import pytest

from pytest_compileiq import Nvcc, Ptxas
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.machine_code.names import readable
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.functions import FunctionSelection
from tests import needs
from tests.files import write_files

ENTRIES = ["_ZN2ns5scaleEPfi", "compress", "compress_fast", "host"]


def functions(*patterns: str) -> FunctionSelection:
    return FunctionSelection.of("Cc", list(patterns), "void", apart=frozenset({"host"}))


def test_patterns_name_functions_and_nothing_else():
    assert functions("compress*", "ns::scale").among(ENTRIES) == {"_ZN2ns5scaleEPfi", "compress", "compress_fast"}
    assert functions("*").among(ENTRIES) == set(ENTRIES) - {"host"}
    assert functions().among(ENTRIES) == set()


@pytest.mark.parametrize(
    ("pattern", "near"), [("compres", "'compress'"), ("ns::scael", "'ns::scale'"), ("host", None), ("nothing", None)]
)
def test_a_name_that_no_function_has_is_answered_with_the_nearest(pattern, near):
    answer = functions("compress", pattern).why_not(ENTRIES)
    assert answer.startswith(f"functions={pattern!r}: this build has no such entry function")
    assert (f"(did you mean {near}?)" in answer) == (near is not None)
    assert functions("compress").why_not(ENTRIES) is None
    assert "(did you mean 'ns::scale'?)" in functions("ns::scael").why_not(["_ZN2ns5scaleEPfi@sm_80", "other@sm_80"])


def test_their_order_means_nothing_and_unused_they_mean_nothing():
    assert functions("b", "a", "b") == functions("a", "b")
    assert FunctionSelection.of("Cc", "a", "void").texts != FunctionSelection.of("Cc", "a", "allow").texts
    assert FunctionSelection.of("Cc", (), "void").texts == () and FunctionSelection.of("Cc", (), "allow").are_given


@pytest.mark.parametrize("given", [7, None, {"a": 1}, ["a", 7], [""], " ", b"a", True])
def test_functions_of_another_type_are_refused(given):
    with pytest.raises(MarkerError, match=r"Nvcc\(functions=.*expected a function's name or pattern"):
        FunctionSelection.of("Nvcc", given, "void")


@pytest.mark.parametrize("given", ["alow", "", None, True, ["allow"]])
def test_neighbours_are_void_or_allowed(given):
    with pytest.raises(MarkerError, match=r"neighbours=.*expected 'void' or 'allow'"):
        FunctionSelection.of("Ptxas", "a", given)


TWO_PTX = "".join(
    f".visible .entry {name}(.param .u64 p)\n{{\n .reg .b64 %rd<3>;\n .reg .b32 %r<3>;\n ld.param.u64 %rd1, [p];\n"
    f" cvta.to.global.u64 %rd2, %rd1;\n mov.u32 %r1, {number};\n st.global.u32 [%rd2], %r1;\n ret;\n}}\n"
    for number, name in enumerate(["_Z5scalePj", "shift"])
)
LIBRARY_CU = """
template <int N> __global__ void scale(float *x) { x[threadIdx.x] *= N; }
extern "C" void run(float *x) { scale<2><<<1, 32>>>(x); scale<3><<<1, 32>>>(x); }
"""


@needs.ptxas
def test_kernels_in_ptx_are_named_as_their_source_spells_them(tmp_path):
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    root = write_files(tmp_path, {"two.ptx": head + TWO_PTX})
    builder = Ptxas("two.ptx", arch="sm_90a", functions="scale").resolve(Place(root, root))
    assert builder.functions.among(builder.build(None, tmp_path / "out", timeout_s=60).code) == {"_Z5scalePj"}
    with pytest.raises(MarkerError, match=r"Ptxas\(neighbours='alow'.*did you mean 'allow'"):
        Ptxas("two.ptx", arch="sm_90a", neighbours="alow").resolve(Place(root, root))


@needs.nvcc
def test_the_host_code_of_a_cuda_library_is_no_function(tmp_path):
    root = write_files(tmp_path, {"k.cu": LIBRARY_CU})
    place, library = Place(root, root), {"arch": "sm_90a", "output": "library"}
    builder = Nvcc("k.cu", functions="*", neighbours="allow", **library).resolve(place)
    code = builder.build(None, tmp_path / "out", timeout_s=100).code
    assert sorted(map(readable, builder.functions.among(code))) == ["scale<2>", "scale<3>"]
    assert code.keys() - builder.functions.among(code) == {"host"}
    assert "did you mean 'scale<3>'" in Nvcc("k.cu", functions="scale<30>", **library).resolve(place).functions.why_not(
        code
    )
    with pytest.raises(MarkerError, match="host code launches kernels unseen"):
        Nvcc("k.cu", neighbours="allow", **library).resolve(place)
