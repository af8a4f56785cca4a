"""The classes of controls, from the compilers' lists alone."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pytest_compileiq.errors import BuildError, EnvironmentFault, StoreError
from pytest_compileiq.model import CONTROL_CLASSES
from pytest_compileiq.rules.classes import SAFE
from pytest_compileiq.toolchains.cc.known_options import CLANG, GCC
from pytest_compileiq.toolchains.nvidia.options import NVCC, PTXAS, BaselineOptions
from pytest_compileiq.toolchains.option_classes import LAUNCH_OPTIONS, classes_of, licences_or_unknown
from pytest_compileiq.toolchains.triton.launch import NOT_FOR_MARKERS
from tests import needs
from tests.class_tables import PAGE, page

LISTS = {"gcc": GCC, "clang": CLANG, "ptxas": PTXAS, "nvcc": NVCC}
lists = pytest.mark.parametrize("compiler", LISTS)


@lists
def test_every_option_has_a_class_and_the_place_in_a_manual_that_says_so(compiler):
    for option in (*LISTS[compiler].known, *LISTS[compiler].unlisted):
        assert option.control_class in CONTROL_CLASSES
        assert re.match(
            r"(GCC manual|Clang [A-Za-z .']+|CUDA Compiler Driver NVCC|PTX ISA|OpenMP API)[,:] \S+", option.source
        )


@lists
def test_every_value_that_is_drawn_has_the_class_of_its_option(compiler):
    for option in LISTS[compiler].known:
        assert option.control_class not in ("hardening", "opaque")
        for value in option.drawn.values:
            assert LISTS[compiler].class_of(f"{option.name}{value}") == option.control_class


def test_triton_s_launch_options_have_classes_and_sources():
    assert all(each.control_class in CONTROL_CLASSES and "Triton" in each.source for each in LAUNCH_OPTIONS)


@needs.triton
def test_each_of_triton_s_launch_options_has_a_class():
    # In a process of its own: others of the suite assert that this one never imports Triton.
    code = "import dataclasses, triton.backends.nvidia.compiler as c; print(*(f.name for f in dataclasses.fields(c.CUDAOptions)))"
    named = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    listed = [name for name in named if name not in NOT_FOR_MARKERS]
    lacking = [name for name in listed if not any(re.fullmatch(each.form, name) for each in LAUNCH_OPTIONS)]
    assert listed and lacking == []


@pytest.mark.parametrize(
    ("compiler", "knobs", "own"),
    [
        ("gcc", {"-O": 3, "-funroll-loops": ""}, {"value-safe": ("-O3", "-funroll-loops")}),
        ("gcc", {"-O3": ""}, {"value-safe": ("-O3",)}),
        ("gcc", {"-O": "fast"}, {"relaxed-maths": ("-Ofast",)}),
        ("gcc", {"-ffp-contract=": "off"}, {"contraction": ("-ffp-contract=off",)}),
        ("gcc", {"-fno-stack-protector": ""}, {"hardening": ("-fno-stack-protector",)}),
        ("gcc", {"-fno-tree-ter": ""}, {"opaque": ("-fno-tree-ter",)}),
        ("gcc", {"-fopenmp-simd": ""}, {"order": ("-fopenmp-simd",)}),
        ("g++", {"-fno-plt": ""}, {"environment": ("-fno-plt",)}),
        ("clang", {"-fmerge-all-constants": ""}, {"relaxed-semantics": ("-fmerge-all-constants",)}),
        ("clang", {"-fapprox-func": ""}, {"relaxed-maths": ("-fapprox-func",)}),
        ("ptxas", {"--fmad=": "false"}, {"contraction": ("--fmad=false",)}),
        ("ptxas", {"--def-load-cache=": "cv"}, {"value-safe": ("--def-load-cache=cv",)}),
        ("ptxas", {"--force-load-cache=": "ca"}, {"relaxed-semantics": ("--force-load-cache=ca",)}),
        ("nvcc", {"--prec-div=": "true"}, {"relaxed-maths": ("--prec-div=true",)}),
        ("nvcc", {"--restrict": ""}, {"relaxed-semantics": ("--restrict",)}),
        ("nvcc", {"-Xptxas=-O": 2}, {"value-safe": ("-Xptxas=-O2",)}),
        ("nvcc", {"-Xptxas=--fmad=": "true"}, {"contraction": ("-Xptxas=--fmad=true",)}),
        ("nvcc", {"-Xptxas=--return-at-end": ""}, {"value-safe": ("-Xptxas=--return-at-end",)}),
        ("triton", {"num_warps": 8, "BLOCK": 64, "maxnreg": 64, "enable_fp_fusion": False},
         {"value-safe": ("maxnreg=64",), "contraction": ("enable_fp_fusion=False",),
          "order": ("BLOCK=64", "num_warps=8")}),
        ("triton", {"config": "BLOCK=64, num_warps=8, default_dot_input_precision='tf32'"},
         {"order": ("BLOCK=64", "num_warps=8"), "relaxed-maths": ("default_dot_input_precision=tf32",)}),
        ("triton", {"config": "__import__('os')"}, {"opaque": ("config=__import__('os')",)}),
        ("opt", {"-unroll-threshold=": 100}, {"opaque": ("-unroll-threshold=100",)}),
    ],
)  # fmt: skip
def test_an_option_has_the_class_that_its_compiler_s_list_gives(compiler, knobs, own):
    classed = classes_of(compiler, (compiler, "-O2", "k"), "options", knobs)
    assert (classed.options, classed.tests_own) == (own, ())


def test_macros_and_parameters_are_the_test_s_own():
    knobs = {"-DTILE=": 16, "-DUSE_LUT": "", "threads": 4, "-O": 3}
    classed = classes_of("gcc", ("gcc", "-O2", "k.c"), "options", knobs)
    assert classed.tests_own == ("-DTILE=16", "-DUSE_LUT", "threads=4") and classed.own == ("value-safe",)
    assert classes_of("params", ("params",), "options", {"threads": 4}).own == ()


def test_an_acf_is_opaque_whatever_stands_beside_it():
    classed = classes_of("triton", ("triton", "k"), "blob", {"num_warps": 8})
    assert classed.options == {"order": ("num_warps=8",), "opaque": ("the ACF",)}


def test_a_level_is_judged_by_the_recorded_baseline():
    assert classes_of("gcc", ("gcc", "-O1", "k.c", "--link"), "options", {"-O": 3}).own == ("relaxed-semantics",)
    assert classes_of("gcc", ("gcc", "k.c", "{options}"), "options", {"-O": 3}).own == ("relaxed-semantics",)


@pytest.mark.parametrize(
    ("compiler", "words", "gone"),
    [
        ("nvcc", "--fmad=false", {"--use_fast_math", "--fmad="}),
        ("nvcc", "-use_fast_math", {"--use_fast_math", "--fmad=", "--ftz=", "--prec-div=", "--prec-sqrt="}),
        ("nvcc", "-maxrregcount 64", {"--maxrregcount="}),
        ("nvcc", "-O0 --restrict", {"--restrict"}),
        ("nvcc", "-Xptxas -O1,-dlcm=cg", {"-Xptxas=--def-load-cache="}),
        ("ptxas", "-O1 -dlcm=cg", {"--def-load-cache="}),
        ("ptxas", "--fmad=true -flcm=ca", {"--fmad=", "--force-load-cache="}),
    ],
)
def test_no_option_of_nvidia_s_takes_back_what_the_baseline_says(compiler, words, gone):
    listed = LISTS[compiler]
    everything = {
        gene.name
        for gene in listed.space(
            BaselineOptions(compiler, ["-O1" if compiler == "ptxas" else "-Xptxas=-O1"]), CONTROL_CLASSES
        ).genes
    }
    left = {gene.name for gene in listed.space(BaselineOptions(compiler, words.split()), CONTROL_CLASSES).genes}
    level = "-O" if compiler == "ptxas" else "-Xptxas=-O"
    assert everything - left - {level} == gone
    assert (level in left) is ("O1" in words)


@pytest.mark.parametrize("compiler", ["ptxas", "nvcc"])
def test_the_public_options_of_a_default_space_keep_every_value(compiler):
    names = {gene.name for gene in LISTS[compiler].space(BaselineOptions(compiler, []), SAFE).genes}
    assert "--maxrregcount=" in names and len(names) >= 5
    assert not names & {"--fmad=", "--use_fast_math", "--ftz=", "--restrict", "--force-load-cache=",
                        "--optimize-float-atomics"}  # fmt: skip


def test_the_page_of_classes_holds_every_option_as_the_lists_have_it():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.class_tables"


@pytest.mark.parametrize(
    "error",
    [BuildError("gcc refuses k.c", kind="compile"), EnvironmentFault("no gcc"), StoreError("k.ptx cannot be read")],
)
def test_a_compiler_that_cannot_tell_its_licences_costs_the_promise_of_bits_and_no_finished_search(error):
    def licences():
        raise error

    (licence,) = licences_or_unknown(SimpleNamespace(licences=licences))
    assert (licence.name, licence.allows, licence.where) == ("unknown", "opaque", str(error))


@pytest.mark.parametrize(
    ("compiler", "words", "option", "is_said"),
    [
        ("ptxas", "", "-O3", True),
        ("ptxas", "-O2", "-O3", False),
        ("nvcc", "", "-Xptxas=-O3", True),
        ("nvcc", "-use_fast_math", "--fmad=true", True),
        ("nvcc", "", "--fmad=true", False),
        ("nvcc", "", "-Xptxas=--return-at-end", False),
    ],
)
def test_an_option_that_nvidia_s_baseline_says_is_known_and_no_other(compiler, words, option, is_said):
    assert BaselineOptions(compiler, words.split()).says(option) is is_said
