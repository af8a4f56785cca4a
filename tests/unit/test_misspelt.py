"""A name that does not exist is answered with the nearest that does, wherever a user writes one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import pytest_compileiq
from pytest_compileiq import Fortran, Nvcc, Ptxas
from pytest_compileiq.benchmark.fixture import Parameters
from pytest_compileiq.benchmark.marker import read_marker
from pytest_compileiq.config import NamedOptions
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import make
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.machine_code.shared_library import load_library
from pytest_compileiq.model import BuildResult, Candidate, Workload
from pytest_compileiq.options import read_settings
from pytest_compileiq.rules.stopping import unread_text
from pytest_compileiq.search.trackers import make_tracker
from pytest_compileiq.space import PtxasSearchSpace
from pytest_compileiq.testing import SMALL_SPACE
from pytest_compileiq.toolchains.base import Builder, Place
from pytest_compileiq.toolchains.cc.known_options import GCC
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.command.marker import read_template
from pytest_compileiq.toolchains.nvidia.options import PTXAS
from tests.files import write_files
from tests.unit.test_options import Configured

TEMPLATE = read_template(["cc -O{level} {source} -o {out}"], {"level": 2}, 1)


def marked(**arguments: object) -> None:
    read_marker(pytest.mark.tune(Cc("k.c"), **arguments).mark, "test_k")


def engine(name: str, **options: object) -> object:
    return make(name, Brief(SMALL_SPACE, 1, options=options or None))


RAISES: dict[str, tuple[Callable[[], object], str]] = {
    "a marker's argument": (lambda: marked(wokloads={}), "tune() has no argument 'wokloads' (did you mean 'workloads'?): exp"),
    "an argument without a name": (lambda: marked(**{"": 1}), "tune() has no argument ''"),
    "a compiler's argument": (lambda: marked(flags="-O2"), "tune() has no argument 'flags': it belongs to the compiler, Cc(…, flags=…)"),
    "an argument of a compiler": (lambda: Nvcc("k.cu", arhc="sm_90a"), "Nvcc() has no argument 'arhc' (did you mean 'arch'?): expected source, arch"),
    "an argument that a compiler needs": (lambda: Ptxas("k.ptx"), "Ptxas() lacks the argument 'arch'"),
    "what the compiler takes by its place": (lambda: marked(sources="k.c"), "tune() has no argument 'sources' (did you mean 'stress'?): expected name,"),
    "an engine": (lambda: engine("optuna:tpa"), "there is no engine 'optuna:tpa' (did you mean 'optuna:tpe'?): expected auto,"),
    "an engine's option": (lambda: engine("ga", pool_sise=3), "'ga' has no option 'pool_sise' (did you mean 'pool_size'?): exp"),
    "a tracker": (lambda: make_tracker("mflow:x"), "--tune-tracker='mflow:x' (did you mean 'mlflow'?): expected csv:FILE,"),
    "a knob": (lambda: SMALL_SPACE.point({"-funrol-loops": ""}), "no knob '-funrol-loops' (did you mean '-funroll-loops'?): expected"),
    "a workload's value": (lambda: Workload("w", {"rows": 3}).rws, "workload 'w' has no value 'rws' (did you mean 'rows'?): it has rows"),
    "a parameter": (lambda: Parameters({"TILE": 3}, set())["TLE"], "acf.params has no 'TLE' (did you mean 'TILE'?): it has TILE: write"),
    "a place in a command": (lambda: read_template(["cc {sorce} -o {out}"], {}, 1), "{sorce} has no value in the baseline (did you mean 'source'?)"),
    "a knob of a command": (lambda: TEMPLATE.render(Candidate({"levl": 3})), "'levl' has no place in Command's steps (did you mean 'level'?)"),
    "an option of ptxas": (lambda: PTXAS.words({"--maxregcount=": 3}), "may hold (did you mean '--maxrregcount='?): expected"),
    "a public name": (lambda: pytest_compileiq.minimise, "pytest_compileiq has no 'minimise' (did you mean 'minimize'?): it has"),
}  # fmt: skip


@pytest.mark.parametrize("what", RAISES)
def test_a_misspelt_name_is_answered_with_the_nearest(what):
    call, said = RAISES[what]
    with pytest.raises((CompileIQError, AttributeError)) as refused:
        call()
    assert said in str(refused.value)


def test_a_setting_is_answered_with_the_nearest(pytestconfig):
    with pytest.raises(pytest.UsageError, match=r"acf_stale = 'wran' \(did you mean 'warn'\?\): expected fail, warn"):
        read_settings(Configured(pytestconfig, acf_stale="wran"))


def test_an_option_that_is_not_known_is_answered_with_the_nearest_but_not_one_whose_value_is_wrong():
    nobody = NamedOptions()
    assert "that this tool knows (did you mean '-funroll-loops'?), so that" in GCC.why_not(["-funrol-loops"], nobody)
    assert "did you mean" not in GCC.why_not(["-falign-loops=many"], nobody)
    assert "controls file (did you mean '-O'?)" in PTXAS.why_not(["-o3"], nobody)


def test_a_variant_of_a_hidden_space_is_answered_with_the_nearest():
    assert (
        "no ptxas 13.3 space 'atn' (did you mean 'att'?): of ptxas it has" in PtxasSearchSpace(variant="atn").why_not()
    )
    assert "did you mean" not in PtxasSearchSpace("13.9").why_not()


def test_a_parameter_that_nothing_reads_is_answered_with_the_one_that_is_read_in_its_place():
    assert "the test's body (acf.params) (it reads 'TLE' for 'TILE'?) nor by" in unread_text(["TILE"], {"TLE", "other"})


def test_a_parameter_may_be_caught_as_a_key_error():
    with pytest.raises(KeyError) as refused:
        Parameters({}, set())["TILE"]
    assert str(refused.value) == "acf.params has no 'TILE': it is empty: write acf.params.get('TILE', default)"


def test_a_function_that_a_library_has_not_is_answered_with_the_nearest(tmp_path):
    (tmp_path / "k.c").write_text("int kernel(void) { return 3; }\nint other(void) { return 4; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "k.c", "-o", "k.so"], cwd=tmp_path, check=True)
    built = BuildResult(tmp_path / "k.so", {}, {}, "", 0.1)
    library = load_library(built, used := set())
    assert (library.kernel(), used) == (3, {"kernel"})
    with pytest.raises(AttributeError) as refused:
        library.kernl()
    assert str(refused.value) == "k.so has no function 'kernl' (did you mean 'kernel'?)"


def compiler_of(root: Path, toolchain: Cc | Fortran) -> Builder:
    write_files(root, {"t/k.c": "", "t/k.cpp": "", "t/k.f90": "", "t/k.h": ""})
    if shutil.which(toolchain.compiler or "gcc") is None:
        pytest.skip(f"needs {toolchain.compiler}")
    return toolchain.resolve(Place(root / "t", root))


def test_what_the_compiler_does_not_take_is_answered_in_its_own_words(tmp_path):
    said = compiler_of(tmp_path, Cc("k.c")).refused_option(
        ["-O3", "-funroll-loops", "-funrol-loops", "-falign-loops=8"]
    )
    assert said.startswith("gcc ") and " does not take '-funrol-loops': " in said
    assert "unrecognized command-line option '-funrol-loops'; did you mean '-funroll-loops'?" in said.replace("‘", "'")


@pytest.mark.parametrize(
    "toolchain",
    [
        Cc("k.c"),
        Cc("k.c", flags="-O2 -Werror -DTILE=4"),
        Cc("k.c", flags="-include k.h"),
        Cc("k.c", flags="-Werror -x c++ -std=c++17"),
        Cc("k.cpp", flags="-Werror -std=c++17"),
        Cc("k.cpp", compiler="g++", flags="-Werror -std=c++17"),
        Cc("k.cpp", compiler="clang++", flags="-std=c++17 -O2"),
        Fortran("k.f90", flags="-Werror -std=f2018"),
    ],
    ids=str,
)
def test_what_the_compiler_takes_in_the_language_and_behind_the_flags_of_the_baseline_is_no_mistake(
    tmp_path, toolchain
):
    builder = compiler_of(tmp_path, toolchain)
    assert builder.refused_option(["-O3", "-funroll-loops", "-DTILE=8"]) is None
    assert "'-funrol-loops'" in builder.refused_option(["-O3", "-DTILE=8", "-funrol-loops"])


def test_flags_that_an_empty_file_cannot_be_compiled_with_tell_nothing_about_options(tmp_path):
    write_files(tmp_path, {"t/no.h": "#error no\n"})
    assert compiler_of(tmp_path, Cc("k.c", flags="-include no.h")).refused_option(["-O3"]) is None
