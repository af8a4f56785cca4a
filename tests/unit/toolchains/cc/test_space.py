"""The default spaces, against the installed compilers."""

from __future__ import annotations

import ctypes
import re
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import CONTROL_CLASSES, BuildResult, Candidate, ControlClass
from pytest_compileiq.rules.classes import SAFE
from pytest_compileiq.space import Space
from pytest_compileiq.toolchains import inputs
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import resolve
from pytest_compileiq.toolchains.cc.compiler import find_compiler
from pytest_compileiq.toolchains.cc.flags import BaselineFlags
from pytest_compileiq.toolchains.cc.known_options import GCC
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.cc.space import cc_space
from pytest_compileiq.toolchains.steps import ask

KERNELS = """
#include <math.h>
#include <string.h>
void smooth(float *restrict out, const float *in, int n) {
    for (int y = 1; y < n - 1; y++)
        for (int x = 1; x < n - 1; x++)
            out[y * n + x] = sqrtf(in[y * n + x - 1] * in[y * n + x + 1]) + 0.25f * in[(y - 1) * n + x];
}
void count(unsigned *bins, const unsigned char *data, int n) {
    memset(bins, 0, 256 * sizeof *bins);
    for (int i = 0; i < n; i++) bins[data[i]] += data[i] > 3 ? 2 : 1;
}
static double pull(double d) { return d > 0 ? 1 / (d * sqrt(d)) : 0; }
double forces(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) sum += pull((x[i] - x[j]) * (x[i] - x[j]));
    return sum;
}
"""

compilers = pytest.mark.parametrize("compiler", ["gcc", "clang"])


def require(compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")


@pytest.mark.parametrize(
    ("missing", "other"),
    [("gcc-99", "clang"), ("arm-linux-g++-99", "clang++"), ("clang-99", "gcc"), ("clang++-99", "g++")],
)
def test_a_missing_compiler_is_answered_with_another_of_its_language(tmp_path, missing, other):
    with pytest.raises(EnvironmentFault, match=re.escape(f"no compiler '{missing}'") + ".*" + re.escape(f"'{other}')")):
        find_compiler(missing, Place(tmp_path, tmp_path))


def space_of(compiler: str, root: Path, *classes: ControlClass, flags: str = "-O2") -> Space:
    """The options of ``classes`` behind ``flags``; without classes, those of a default space."""
    found = find_compiler(compiler, Place(root, root))
    return cc_space(found, BaselineFlags(found.name, (tuple(flags.split()),)), frozenset(classes or SAFE))


@pytest.mark.parametrize(("flags", "level"), [("-O2", 2), ("-O1 -Os", "s"), ("-O3", None)])
def test_a_space_says_what_its_options_stand_behind(tmp_path, flags, level):
    require("gcc")
    assert space_of("gcc", tmp_path, flags=flags).behind.get("-O") == level


@compilers
def test_every_gene_can_be_off_and_every_option_may_stand_in_a_controls_file(tmp_path: Path, compiler: str) -> None:
    require(compiler)
    (tmp_path / "k.c").write_text(KERNELS)
    builder = resolve(Cc("k.c", compiler=compiler), Place(tmp_path, tmp_path))
    space = builder.default_space()
    assert len(space.genes) >= {"gcc": 45, "clang": 13}[compiler]
    for gene in space.genes:
        assert 0.3 <= gene.knockout_prob <= 0.9
        for value in gene.values:
            builder.render(Candidate({gene.name: value}))


@compilers
def test_random_points_build_without_a_warning_and_differ(tmp_path: Path, compiler: str) -> None:
    require(compiler)
    (tmp_path / "k.c").write_text(KERNELS)
    builder = resolve(Cc("k.c", flags="-O2 -Wall", compiler=compiler), Place(tmp_path, tmp_path))
    space = builder.default_space()
    rng = np.random.default_rng(5)
    points = [space.sample(rng, density) for density in (None, None, None, None, 0.1, 0.9)]

    def build(number: int) -> BuildResult:
        controls = builder.render(Candidate(space.knobs(points[number])))
        return builder.build(controls, tmp_path / str(number), timeout_s=60)

    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(build, range(len(points))))
    assert len({each.digest for each in built}) >= len(points) - 1
    assert not [each.log for each in built if "unrecognized" in each.log or "unknown" in each.log]


def test_what_the_installed_compiler_does_not_know_is_left_out(tmp_path: Path) -> None:
    require("gcc")
    older = tmp_path / "gcc"
    older.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" -fipa-pta "*|*"=very-cheap "*) echo "unrecognized" >&2; exit 1;; esac\n'
        'exec gcc "$@"\n'
    )
    older.chmod(0o755)
    full, reduced = (space_of(compiler, tmp_path) for compiler in ("gcc", "./gcc"))
    values = {gene.name: gene.values for gene in reduced.genes}
    assert {gene.name for gene in full.genes} - set(values) == {"-fipa-pta"}
    assert "very-cheap" not in values["-fvect-cost-model="]
    assert "cheap" in values["-fvect-cost-model="]


def test_associative_maths_survives_the_check(tmp_path: Path) -> None:
    require("gcc")
    older = tmp_path / "gcc"  # one refusal, so that options are tried in smaller companies
    older.write_text('#!/bin/sh\ncase " $* " in *" -fipa-pta "*) exit 1;; esac\nexec gcc "$@"\n')
    older.chmod(0o755)
    space = space_of("./gcc", tmp_path, "relaxed-maths")
    assert "-fassociative-math" in {gene.name for gene in space.genes}


def test_gcc_may_optimise_for_size(tmp_path: Path) -> None:
    require("gcc")
    levels = {gene.name: gene.values for gene in space_of("gcc", tmp_path).genes}["-O"]
    assert levels == (2, 3, "s")


NAMED = {
    "nothing": ("int plain(int x) { return x; }", set()),
    "errno": ("#include <errno.h>\nint plain(int x) { return errno + x; }", {"-fno-math-errno"}),
    "fenv": ("#include <fenv.h>\nint plain(int x) { return fetestexcept(x); }", {"-fno-trapping-math"}),
}


@pytest.mark.parametrize(("source", "left_out"), NAMED.values(), ids=NAMED)
def test_a_default_space_keeps_every_value_and_what_the_source_names(
    tmp_path: Path, source: str, left_out: set
) -> None:
    require("gcc")
    (tmp_path / "k.h").write_text(f"static {source}\n" if not source.startswith("#") else source)
    (tmp_path / "k.c").write_text('#include "k.h"\n#include <math.h>\nint f(int x) { return plain(x); }\n')
    builder = resolve(Cc("k.c"), Place(tmp_path, tmp_path))
    names = {gene.name for gene in builder.default_space().genes}
    assert {"-fno-math-errno", "-fno-trapping-math"} - names == left_out
    listed = {option.name: option.control_class for option in GCC.known}
    assert {listed[name] for name in names} == {"value-safe", "environment"}
    asked = {gene.name for gene in builder.space_with("default", ["environment"]).genes}
    assert asked - names == left_out


def test_a_class_adds_its_options_and_no_knob_twice(tmp_path: Path) -> None:
    require("gcc")
    default, wider = (
        {gene.name: gene.values for gene in space_of("gcc", tmp_path, *classes, flags="-O1").genes}
        for classes in (SAFE, (*SAFE, "relaxed-semantics", "contraction"))
    )
    assert wider.keys() - default.keys() == {"-O", "-ffp-contract="} and wider["-O"] == (1, 2, 3, "s")


def test_what_the_baseline_says_is_no_knob(tmp_path: Path) -> None:
    require("gcc")
    flags = "-O3 -fno-math-errno -ffp-contract=off -fplt"
    everything = space_of("gcc", tmp_path, *CONTROL_CLASSES, flags=flags)
    names = {gene.name for gene in everything.genes}
    assert not names & {"-O", "-fno-math-errno", "-ffp-contract=", "-fno-plt"} and "-ffinite-math-only" in names


SUMS = """
double by_column(const double (*a)[64], int n) {
    double sum = 0;
    for (int j = 0; j < 64; j++)
        for (int i = 0; i < n; i++) sum += a[i][j];
    return sum;
}
void outer(double *y, const double (*a)[64], const double *x) {
    for (int j = 0; j < 64; j++)
        for (int i = 0; i < 64; i++) y[i] += a[j][i] * x[j];
}
double chain(const double *a) { return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7]; }
"""


def test_what_turns_loops_around_adds_in_the_source_s_order(tmp_path: Path) -> None:
    """The doubts about gcc's value-safe options, on numbers whose sum depends on the order."""
    require("gcc")
    (tmp_path / "k.c").write_text(SUMS)
    builder = resolve(Cc("k.c", flags="-O3 -ffp-contract=off"), Place(tmp_path, tmp_path))
    doubted = ("-floop-interchange", "-floop-unroll-and-jam", "-fvariable-expansion-in-unroller", "-funroll-loops",
               "-ftree-vectorize")  # fmt: skip
    numbers = np.random.default_rng(1).standard_normal((64, 64)) * 10.0 ** np.arange(-8, 8).repeat(4)

    def sums(number: int, knobs: dict[str, str | int]) -> list[bytes]:
        built = builder.build(builder.render(Candidate(knobs)), tmp_path / str(number), timeout_s=60)
        library, y = ctypes.CDLL(str(built.path)), np.zeros(64)
        library.by_column.restype = library.chain.restype = ctypes.c_double
        a = numbers.ctypes.data_as(ctypes.c_void_p)
        library.outer(y.ctypes.data_as(ctypes.c_void_p), a, a)
        return [struct.pack("dd", library.by_column(a, 64), library.chain(a)), y.tobytes()]

    turned = {**dict.fromkeys(doubted, ""), "--param=tree-reassoc-width=": 8, "-fvect-cost-model=": "unlimited"}
    relaxed = {"-fassociative-math": "", "-fno-signed-zeros": "", "-fno-trapping-math": ""}
    plain = sums(0, {})
    assert sums(1, turned) == plain
    assert sums(2, turned | relaxed) != plain, "these numbers would show another order"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_what_an_expert_would_set_by_hand_lies_in_the_space(tmp_path: Path, compiler: str) -> None:
    require(compiler)
    default, relaxed = (space_of(compiler, tmp_path, *SAFE, *more) for more in ((), ("relaxed-maths",)))
    for space in (default, relaxed):
        assert {"-O": 3} in space.presets and any("-fno-math-errno" in preset for preset in space.presets)
        assert [space.why_not(preset) for preset in space.presets] == [None] * len(space.presets)
    assert not any("-fassociative-math" in preset for preset in default.presets)
    assert any("-fassociative-math" in preset for preset in relaxed.presets)


def test_a_preset_goes_without_what_the_installed_compiler_does_not_know(tmp_path: Path) -> None:
    require("gcc")
    older = tmp_path / "gcc"
    older.write_text('#!/bin/sh\ncase " $* " in *" -Os "*|*" -funroll-loops "*) exit 1;; esac\nexec gcc "$@"\n')
    older.chmod(0o755)
    presets = space_of("./gcc", tmp_path).presets
    assert len(presets) == 2 and not any("-funroll-loops" in preset for preset in presets)


def test_the_preprocessor_is_asked_once_and_only_where_the_sources_decide_about_an_option(tmp_path, monkeypatch):
    (tmp_path / "k.c").write_text("int plain(int x) { return x; }")
    built = resolve(Cc("k.c", flags="-O2", compiler="gcc"), Place(tmp_path, tmp_path))
    asked = []
    monkeypatch.setattr(inputs, "ask", lambda argv, **more: asked.append(argv) or ask(argv, **more))
    built.space_with(None, ["relaxed-maths"])
    assert asked == []
    assert built.sources() == built.sources()
    built.default_space()
    assert [argv[-4] for argv in asked] == ["-M", "-MM"]


@pytest.mark.parametrize(
    ("flags", "option", "beside", "is_said"),
    [
        ("-O2", "-O2", (), True),
        ("-O2", "-O3", (), False),
        ("-O2", "-O2", ("-O3",), False),
        ("-O2 -funroll-loops", "-funroll-loops", ("-O3",), True),
        ("-O2 -funroll-loops", "-funroll-loops", ("-fno-unroll-loops",), False),
        ("-O2", "-fno-unroll-loops", (), True),
        ("-O2", "-fno-unroll-loops", ("-funroll-loops",), False),
        ("-O2", "-fno-tree-loop-distribution", (), True),
        ("-O2", "-fno-tree-loop-distribution", ("-O3",), False),
        ("-O2", "-fno-tree-vectorize", (), False),  # both kinds that it stands for are on
        ("-O1", "-fno-tree-vectorize", (), True),
        ("-O2", "--param=max-unroll-times=8", (), True),
        ("-O2", "--param=max-unroll-times=4", (), False),
        ("-O2", "-fvect-cost-model=very-cheap", (), True),
        ("-O2", "-fno-math-errno", (), False),
        ("-O2", "-DTILE=4", (), False),
    ],
)
def test_an_option_that_the_baseline_says_or_implies_is_known(
    tmp_path: Path, flags: str, option: str, beside: tuple[str, ...], is_said: bool
) -> None:
    (tmp_path / "k.c").write_text("int kernel(int x) { return x; }\n")
    assert resolve(Cc("k.c", flags=flags), Place(tmp_path, tmp_path)).says(option, beside) is is_said
