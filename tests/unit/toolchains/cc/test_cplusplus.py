"""C++ through ``Cc``: by g++, and by gcc, which links without the C++ library."""

from __future__ import annotations

import ctypes
import shutil

import pytest

from pytest_compileiq import Cc, Fortran
from pytest_compileiq.errors import BuildError, MarkerError
from pytest_compileiq.testing import ToolchainConformance
from pytest_compileiq.toolchains.base import Place
from tests import needs
from tests.files import write_files

pytestmark = needs.gxx

SORTED = """
#include <algorithm>
#include <vector>
namespace ns {
int median(const int *x, int n) { std::vector<int> v(x, x + n); std::sort(v.begin(), v.end()); return v[n / 2]; }
int scale(int x) { return 2 * x; }
float scale(float x) { return 3 * x; }
struct Counter { int n; Counter(int n); };
Counter::Counter(int n) : n(n) {}
}
"""
MEDIAN = "_ZN2ns6medianEPKii"


FILES = {"kernels/k.cpp": SORTED}


class TestGxx(ToolchainConformance):
    files = FILES
    test_dir = "kernels"
    knobs = ({"-O": 3}, {"-O": "s"})

    def make(self) -> Cc:
        return Cc("k.cpp", flags="-O2 -march=x86-64", compiler="g++")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory):
    """A library by g++."""
    root = write_files(tmp_path_factory.mktemp("gxx"), {"k.cpp": SORTED})
    builder = Cc("k.cpp", compiler="g++").resolve(Place(root, root))
    return builder, builder.build(None, root / "out", timeout_s=60)


@pytest.fixture
def library(built):
    """The library, loaded, and the set of what is taken from it."""
    builder, result = built
    used: set[str] = set()
    return builder.load(result, used), used


def test_a_cplusplus_function_is_taken_as_its_source_spells_it(library):
    loaded, used = library
    values = (ctypes.c_int * 3)(7, 1, 3)
    assert loaded["ns::median"](values, 3) == loaded[MEDIAN](values, 3) == 3
    assert loaded["ns::scale(int)"](21) == 42
    assert used == {MEDIAN, "_ZN2ns5scaleEi"}
    counter = (ctypes.c_int * 1)()
    loaded["ns::Counter::Counter"](counter, 5)  # one name, two symbols
    assert counter[0] == 5


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("ns::medain", r"kernel\.so has no function 'ns::medain' \(did you mean 'ns::median'\?\)"),
        ("ns::scale", r"has several functions 'ns::scale': take one of ns::scale\(float\), ns::scale\(int\)"),
        ("std::sort", r"has no function 'std::sort'"),
    ],
)
def test_a_name_that_is_none_or_several_is_answered(library, name, answer):
    loaded, used = library
    with pytest.raises(AttributeError, match=answer):
        loaded[name]
    assert not used


@pytest.mark.parametrize("output", ["library", "executable"])
def test_cplusplus_that_gcc_cannot_link_names_the_compiler_that_can(tmp_path, output):
    # The process may have loaded libstdc++ for everyone, as an import of Ray does; what that defines is not undefined.
    lacking = "namespace std { int in_a_library_of_the_future(); }\nint main() { return std::in_a_library_of_the_future(); }\n"
    root = write_files(tmp_path, {"k.cpp": SORTED + lacking})
    builder = Cc("k.cpp", output=output).resolve(Place(root, root))
    with pytest.raises(BuildError, match=r"undefined .*; k\.cpp is C\+\+, .* compiler='g\+\+'"):
        builder.load(builder.build(None, tmp_path / "out", timeout_s=60), set())


def test_a_program_has_no_functions_of_its_own(tmp_path):
    root = write_files(tmp_path, {"k.cpp": SORTED})
    with pytest.raises(MarkerError, match="one whole"):
        Cc("k.cpp", output="executable", functions="main").resolve(Place(root, root))


@pytest.mark.skipif(shutil.which("gfortran") is None, reason="no gfortran: apt-get install gfortran")
def test_a_procedure_of_a_fortran_module_is_named_with_its_module(tmp_path):
    module = "module m\ncontains\nsubroutine twice(x)\n  real :: x\n  x = 2 * x\nend subroutine\nend module\n"
    root = write_files(tmp_path, {"m.f90": module})
    builder = Fortran("m.f90", functions="m::twice", neighbours="allow").resolve(Place(root, root))
    built = builder.build(None, tmp_path / "out", timeout_s=60)
    assert builder.functions.among(built.code) == {"__m_MOD_twice"}
    x = ctypes.c_float(4)
    builder.load(built, set())["m::twice"](ctypes.byref(x))
    assert x.value == 8
