"""What a baseline's flags leave open: which levels are news, and which switches no candidate may take back."""

from __future__ import annotations

import pytest

from pytest_compileiq.toolchains.cc.flags import BaselineFlags
from pytest_compileiq.toolchains.cc.known_options import CLANG, GCC
from pytest_compileiq.toolchains.option_classes import classes_of

LISTS = {"gcc": GCC, "clang": CLANG}


def behind(flags: str, compiler: str = "gcc") -> BaselineFlags:
    return BaselineFlags.of(compiler, [compiler, *flags.split(), "k.c", "--link", "-O0"])


@pytest.mark.parametrize(
    ("compiler", "flags", "level", "is_news"),
    [
        ("gcc", "-O1", "-O2", True),
        ("gcc", "-O1", "-Os", True),
        ("gcc", "-Og", "-O3", True),
        ("gcc", "", "-O3", True),
        ("gcc", "", "-O1", False),
        ("gcc", "-O2", "-O3", False),
        ("gcc", "-O0 -O2", "-O3", False),
        ("gcc", "-O2 -O1", "-O3", True),
        ("gcc", "-Os", "-O3", False),
        ("gcc", "-O1 -fstrict-aliasing", "-O2", False),
        ("gcc", "-O1 -fno-strict-aliasing", "-O2", False),
        ("gfortran", "-O1", "-O2", True),
        ("clang", "", "-O1", True),
        ("clang", "-O1", "-O2", False),
    ],
)
def test_a_level_that_assumes_what_the_baseline_does_not_relaxes_semantics(compiler, flags, level, is_news):
    expected = "relaxed-semantics" if is_news else "value-safe"
    assert behind(flags, compiler).widened("value-safe", level) == expected


UNDONE = {
    "-O2": ["-O1"],
    "-O3": ["-O1", "-O2", "-Os"],
    "-Os": ["-O1"],
    "-Ofast": ["-O1", "-O2", "-O3", "-Os"],
    "-O1 -fno-strict-aliasing -fwrapv": [],
    "-O1 -ffp-contract=off": ["-ffp-contract=fast"],
    "-O1 -fno-omit-frame-pointer": ["-fomit-frame-pointer"],
    "-O1 -fplt -fsemantic-interposition": ["-fno-plt", "-fno-semantic-interposition"],
    "-O1 -fmath-errno": ["-fno-math-errno"],
    "-O1 -ftrapping-math": ["-fno-trapping-math", "-funsafe-math-optimizations"],
    "-O1 -fsignaling-nans": ["-fno-trapping-math", "-funsafe-math-optimizations"],
    "-O1 -fno-associative-math": ["-fassociative-math", "-funsafe-math-optimizations"],
    "-O1 -fno-unsafe-math-optimizations": [
        "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-freciprocal-math",
        "-funsafe-math-optimizations",
    ],
    "-O1 -ffast-math -fsigned-zeros": ["-fno-signed-zeros", "-funsafe-math-optimizations"],
    "-O1 -fno-tree-vectorize": ["-ftree-vectorize"],
    "-O1 -fno-tree-slp-vectorize": ["-ftree-vectorize"],
    "-O1 -ftree-vectorize": ["-fno-tree-loop-vectorize", "-fno-tree-slp-vectorize"],
    "-O1 --param max-unroll-times=4": [f"--param=max-unroll-times={count}" for count in (16, 2, 8)],
    "-O1 --param=max-unroll-times=4 -mprefer-vector-width=256": [
        *(f"--param=max-unroll-times={count}" for count in (16, 2, 8)),
        "-mprefer-vector-width=128", "-mprefer-vector-width=512",
    ],
}  # fmt: skip


@pytest.mark.parametrize("flags", UNDONE)
def test_no_option_takes_back_what_the_baseline_says(flags):
    every = [f"{option.name}{value}" for option in GCC.known for value in option.drawn.values]
    assert sorted(filter(behind(flags).undone_by, every)) == sorted(UNDONE[flags])


def test_unsafe_maths_contracts_by_clang_alone():
    assert behind("-ffp-contract=off", "clang").undone_by("-funsafe-math-optimizations")
    assert not behind("-ffp-contract=off").undone_by("-funsafe-math-optimizations")
    assert behind("-ffp-model=strict", "clang").undone_by("-fno-trapping-math")


def test_what_the_baseline_says_already_is_no_news():
    baseline = behind("-O3 -fno-math-errno --param max-unroll-times=8 -ffast-math")
    said = ("-O3", "-fno-math-errno", "--param=max-unroll-times=8", "-ffinite-math-only")
    assert all(map(baseline.says, said))
    assert not any(map(baseline.says, ("-O2", "-fno-plt", "--param=max-unroll-times=4")))


def test_of_several_sources_the_lowest_level_is_widened_and_the_highest_is_kept():
    command = ["gcc", "-O1", "-Xclang", "x", "a.c", "gcc", "-O3", "b.c", "--then", "-fPIC", "--link", "-shared"]
    baseline = BaselineFlags.of("gcc", command)
    assert baseline.sources == (("-O1", "-Xclang", "-fPIC"), ("-O3", "-fPIC"))
    assert baseline.undone_by("-O2") and not baseline.undone_by("-O3")
    assert baseline.widened("value-safe", "-O3") == "relaxed-semantics"
    assert not baseline.says("-O3")


def test_a_source_that_says_itself_whether_pointers_alias_does_not_widen_the_others():
    command = ["gcc", "-O1", "-fno-strict-aliasing", "a.c", "gcc", "-O2", "b.c", "--then", "-fPIC"]
    assert BaselineFlags.of("gcc", command).widened("value-safe", "-O3") == "value-safe"


def test_however_many_levels_an_artifact_names_its_command_is_read_once(monkeypatch):
    read = []
    monkeypatch.setattr("pytest_compileiq.toolchains.cc.flags._level_of", lambda flags: read.append(flags) or 1)
    levels = {f"-O{level}": "" for level in range(2000)}
    classed = classes_of("gcc", ("gcc", "-O1", "a.c", "gcc", "-O1", "b.c", "--then", "-fPIC"), "options", levels)
    assert "relaxed-semantics" in classed.own and len(read) == 1
