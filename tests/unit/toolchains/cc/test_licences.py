"""What gcc and clang may already change, asked of the real compilers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.dumps import library_symbols, read_ir, read_operations, read_statements
from pytest_compileiq.toolchains.cc.marker import Cc, Fortran
from pytest_compileiq.toolchains.command.marker import Command
from tests import needs

FMA = "-O2 -march=x86-64-v3"
AXPY = "void f(double a, double *y, const double *x, int n) { for (int i = 0; i < n; i++) y[i] = a * x[i] + y[i]; }"
SUM = "double f(const double *x, int n) {{ double s = 0;\n{}\nfor (int i = 0; i < n; i++) s += x[i]; return s; }}"
OMP_SUM = SUM.format("#pragma omp simd reduction(+:s)")
CBRT = "#include <math.h>\nstatic double g(double x) { return cbrt(x); }\ndouble h(void) { return g(1.7); }"
POW = "#include <math.h>\nstatic double g(double x, double y) { return pow(x, y); }\ndouble f(double x) { return g(x, 2); }"
BY_ADDRESS = """
#include <math.h>
static void map(double (*f)(double), double *o) { for (int i = 0; i < 12; i++) o[i] = f(0.5 + i * 0.3); }
void run(double *o) { map(sinh, o); }
"""
COMPLEX = """
typedef _Complex double C;
static C product(C a, C b) { return a * b; }
C f(void) { return product(__builtin_complex(1.1, 2.3), __builtin_complex(0.7, 3.1)); }
"""
MODE = "#include <fenv.h>\nint up(void) { return fesetround(FE_UPWARD); }"
INTEGERS = """
#include <stdint.h>
#include <string.h>
typedef uint64_t U64;
typedef struct { U64 low, high; } pair;
U64 f(const void *p, int n) {
  U64 h = n; pair q;
  for (int i = 0; i + 16 <= n; i += 16) { memcpy(&q, (const char *)p + i, 16); h = h * 31 + q.low - q.high / 7; }
  return h;
}
"""
FAST_EXP = """
#include <string.h>
float f(float x) { float y = x * 12102203.0f; int i; memcpy(&i, &y, 4); i += 127 << 23; memcpy(&y, &i, 4); return y; }
"""


def test_an_intrinsic_that_needs_optimisation_to_see_a_constant_is_looked_at_with_it(tmp_path):
    text = """
#include <immintrin.h>
static __m128i shifted(__m128i x, int by) { return _mm_slli_si128(x, by); }
__m128i f(__m128i x) { return shifted(x, 4); }
float g(float a, float b, float c) { return a * b + c; }
"""
    assert names(tmp_path, text, FMA) == ["contraction"]


def names(tmp_path: Path, text: str, flags: str, *, suffix: str = ".c", compiler: str | None = None) -> list[str]:
    return [licence.name for licence in found(tmp_path, text, flags, suffix=suffix, compiler=compiler)]


def found(tmp_path, text, flags, *, suffix=".c", compiler=None):
    (tmp_path / f"k{suffix}").write_text(text)
    if compiler is not None and shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    if suffix == ".f90":
        toolchain = Fortran("k.f90", flags=flags)
    else:
        toolchain = Cc(f"k{suffix}", flags=flags, compiler=compiler or "gcc")
    return toolchain.resolve(Place(tmp_path, tmp_path)).licences()


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        (AXPY, FMA, ["contraction"]),
        (AXPY, f"{FMA} -ffp-contract=off", []),
        (AXPY, f"{FMA} -std=c11", []),  # ISO C contracts within an expression alone, which gcc does not do at all
        (AXPY, "-O2", []),  # no FMA
        (AXPY, "-O2 -mfpmath=387", ["excess precision"]),
        (AXPY.replace("double", "long double"), "-O2", []),
        (SUM.format(""), FMA, []),  # sums without products
        (SUM.format(""), "-Ofast", ["fast maths"]),
        (SUM.format(""), "-O2 -fno-signed-zeros", ["fast maths"]),
        (OMP_SUM, "-O2 -fopenmp-simd", ["simd reduction"]),
        (OMP_SUM, "-O2", []),  # nothing reads the directive
        (OMP_SUM.replace("double", "long"), "-O2 -fopenmp-simd", []),
        (CBRT, "-O2", ["libm folding"]),
        (CBRT, "-O2 -frounding-math", []),
        (CBRT.replace("cbrt", "sqrt"), "-O2", []),  # is rounded correctly by both
        (POW, "-O2 -frounding-math", ["libm folding"]),  # is x * x all the same
        (CBRT.replace("cbrt(x)", "fmax(x, 0.0)"), "-O2", ["libm folding"]),  # fmax(0.0, -0.0) is either zero
        (BY_ADDRESS, "-O2", ["libm folding"]),
        (MODE, "-O2 -frounding-math", ["rounding mode"]),  # gcc moves operations across the call all the same
        (f'__attribute__((optimize("fast-math"))) {SUM.format("")}', "-O2", ["fast maths"]),
        (f'__attribute__((target("fma"))) {AXPY}', "-O2", ["contraction"]),
        (COMPLEX, "-O3", ["complex constants"]),  # where the product of its constants is folded already
        (FAST_EXP, "-O2", ["NaN payloads"]),
        (FAST_EXP, "", ["NaN payloads"]),  # which the baseline keeps in memory
        (INTEGERS, f"{FMA} -Ofast", []),
    ],
)
def test_gcc_is_asked_what_it_may_change(tmp_path, text, flags, expected):
    assert names(tmp_path, text, flags) == expected


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        (AXPY, FMA, ["contraction"]),
        (f"#pragma STDC FP_CONTRACT OFF\n{AXPY}", FMA, []),
        (f"#pragma clang fp contract(fast) reassociate(on)\n{AXPY}", "-O2", ["fast maths"]),
        (SUM.format("#pragma clang loop vectorize(enable)"), "-O2", ["simd reduction"]),
        (POW, "-O2", ["libm folding"]),
        (BY_ADDRESS, "-O2", ["libm folding"]),
        (CBRT.replace("cbrt(x)", "fmax(x, 0.0)"), "-O2 -fno-math-errno", ["libm folding"]),
        (MODE, "-O2", ["rounding mode"]),
        (FAST_EXP, "-O2", ["NaN payloads"]),
        (INTEGERS, f"{FMA} -Ofast", []),
    ],
)
def test_clang_is_asked_what_it_may_change(tmp_path, text, flags, expected):
    assert names(tmp_path, text, flags, compiler="clang") == expected


@pytest.mark.parametrize("order", [("table.c", "k.c"), ("k.c", "table.c")])
def test_a_source_of_data_alone_neither_stops_the_question_nor_answers_with_another_s_text(tmp_path, order):
    (tmp_path / "table.c").write_text("const double table[2] = {1, 2};\n")
    (tmp_path / "k.c").write_text(AXPY)
    (only,) = Cc(*order, flags=FMA).resolve(Place(tmp_path, tmp_path)).licences()
    assert (only.name, only.where) == ("contraction", "k.c:1 (-march=x86-64-v3)")


def test_functions_of_the_maths_library_are_seen_in_tables_and_as_arguments_but_no_variables_of_their_names():
    assembly = """
\tmovq\texp@GOTPCREL(%rip), %rax
\tfmin\td0, d1, d2
\tcall\tsincos@PLT
\taddsd\ty1(%rip), %xmm0
\t.type\ty1, @object
\t.comm\tgamma,8,8
\tmovsd\tgamma(%rip), %xmm0
table:
\t.quad\tcbrtf
\t.string\t"log of tan"
"""
    assert library_symbols(assembly) == ["cbrtf", "exp"]
    ir = """@gamma = global double 0.0
@table = internal constant [1 x double (double)*] [double (double)* @cbrt]
declare double @sin(double)
define void @f() {
  call void @map(double (double)* @tgamma)
  store double 1.0, double* @gamma
}
"""
    assert list(read_ir(ir).calls) == ["cbrt", "tgamma"]


def test_a_licence_says_where_it_comes_from_and_what_takes_it_away(tmp_path):
    contraction, folding = found(tmp_path, f"{CBRT}\n{AXPY}", FMA)
    assert (contraction.where, contraction.allows) == ("k.c:4 (-march=x86-64-v3)", "contraction")
    assert contraction.remedy == "-ffp-contract=off in the toolchain's flags"
    assert (folding.where, folding.remedy) == ("cbrt at k.c:2", "-fno-builtin-cbrt in the toolchain's flags")
    assert not found(tmp_path, f"{CBRT}\n{AXPY}", f"{FMA} -ffp-contract=off -fno-builtin-cbrt")


def test_sums_and_differences_side_by_side_are_fused_by_gcc_although_contraction_is_off(tmp_path):
    text = """void f(float *o, const float *a, const float *b, int n) {
    for (int k = 0; k < n; k += 2) {
        float x = a[k] * b[k] - a[k + 1] * b[k + 1], y = a[k] * b[k + 1] + a[k + 1] * b[k];
        o[k] = x, o[k + 1] = y;
    }
    }"""
    options = ["-O2", "-march=x86-64-v3", "-ffp-contract=off"]
    (tmp_path / "k.c").write_text(text)
    vectorised = ["gcc", *options, "-ftree-vectorize", "-fvect-cost-model=unlimited", "-S", "k.c", "-o", "-"]
    assembly = subprocess.run(vectorised, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    fuses = "vfmaddsub" in assembly or "vfmsubadd" in assembly
    assert names(tmp_path, text, " ".join(options)) == (["contraction"] if fuses else [])
    assert names(tmp_path, text, "-O2 -march=x86-64-v3 -mno-fma") == []


@needs.gxx
def test_a_call_that_a_header_of_c_plus_plus_makes_is_placed_where_the_project_calls_it(tmp_path):
    text = "#include <cmath>\nfloat f(float x) { return\n std::cbrt(x); }"
    (folding,) = found(tmp_path, text, "-O2", suffix=".cpp", compiler="g++")
    assert (folding.where, folding.remedy) == ("cbrtf at k.cpp:3", "-frounding-math in the toolchain's flags")


def test_fortran_is_asked_too(tmp_path):
    text = "real(8) function f(a, b, c)\nreal(8) :: a, b, c\nf = a * b + sin(c)\nend function\n"
    assert names(tmp_path, text, FMA, suffix=".f90", compiler="gfortran") == ["contraction", "libm folding"]
    assert names(tmp_path, text, f"{FMA} -ffp-contract=off -frounding-math", suffix=".f90") == []


def test_a_source_that_does_not_compile_has_no_licences_but_an_error(tmp_path):
    with pytest.raises(BuildError, match=r"refuses k\.c"):
        found(tmp_path, "int f(", "-O2")


def test_what_cannot_tell_says_so(tmp_path):
    (tmp_path / "k.c").write_text(AXPY)
    toolchain = Command("gcc -O2 -shared -fPIC k.c -o {out}", sources=["k.c"])
    (licence,) = toolchain.resolve(Place(tmp_path, tmp_path)).licences()
    assert (licence.name, licence.allows) == ("unknown", "opaque")


def test_an_integer_s_reduction_and_a_bitwise_one_give_no_licence():
    gimple = "{\n  u64 a;\n  long unsigned int b;\n  double c;\n\n"
    directive = "  [k.c:9:9] #pragma omp simd reduction(+:b) reduction(^:a) reduction(max:c)\n}\n"
    assert read_statements(gimple + directive).reductions == {"omp reduction(max:c)": "k.c:9"}


def test_products_meet_sums_of_the_same_width_alone():
    product = '(insn 5 4 6 2 (set (reg:{0} 82)\n        (mult:{0} (reg:{0} 1)\n            (reg:{0} 2))) "k.c":3:7 -1\n'
    total = '(insn 6 5 7 2 (set (reg:{0} 83)\n        (plus:{0} (reg:{0} 1)\n            (reg:{0} 2))) "k.c":4:7 -1\n'
    assert read_operations(product.format("DF") + total.format("V4DF")).products_meet_sums == "k.c:3"
    assert read_operations(product.format("DF") + total.format("SF")).products_meet_sums is None
    assert read_operations(product.format("XF") + total.format("XF")).arithmetic is None
    assert read_operations(product.format("DI") + total.format("SI")).arithmetic is None
