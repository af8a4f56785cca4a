"""A name that does not exist is answered with the nearest that does, wherever a user writes one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

import pytest_compileiq
from pytest_compileiq.benchmark.fixture import Parameters
from pytest_compileiq.benchmark.marker import read_marker
from pytest_compileiq.engines.base import Brief
from pytest_compileiq.engines.registry import make
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.model import BuildResult, Candidate, Workload
from pytest_compileiq.named_options import NamedOptions
from pytest_compileiq.options import read_settings
from pytest_compileiq.rules.judged import unread_text
from pytest_compileiq.search.trackers import make_tracker
from pytest_compileiq.space import PtxasSearchSpace
from pytest_compileiq.testing import SMALL_SPACE
from pytest_compileiq.toolchains.base import Place, TriesOptions
from pytest_compileiq.toolchains.cc.known_options import GCC
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.command.template import read_template
from pytest_compileiq.toolchains.machine_code.shared_library import load_library
from pytest_compileiq.toolchains.nvidia.options import PTXAS
from tests.unit.test_options import Configured

TEMPLATE = read_template(["cc -O{level} {source} -o {out}"], {"level": 2}, 1)


def marked(**arguments: object) -> None:
    read_marker(pytest.mark.tune(Cc("k.c"), **arguments).mark, "test_k")


def engine(name: str, **options: object) -> object:
    return make(name, Brief(SMALL_SPACE, 1, options=options or None))


RAISES: dict[str, tuple[Callable[[], object], str]] = {
    "a marker's argument": (lambda: marked(wokloads={}), "tune() has no argument 'wokloads' (did you mean 'workloads'?): exp"),
    "an engine": (lambda: engine("optuna:tpa"), "there is no engine 'optuna:tpa' (did you mean 'optuna:tpe'?): expected auto,"),
    "an engine's option": (lambda: engine("ga", pool_sise=3), "'ga' has no option 'pool_sise' (did you mean 'pool_size'?): exp"),
    "a tracker": (lambda: make_tracker("mflow:x"), "--tune-tracker='mflow:x' (did you mean 'mlflow'?): expected csv:FILE,"),
    "a knob": (lambda: SMALL_SPACE.point({"-funrol-loops": ""}), "no knob '-funrol-loops' (did you mean '-funroll-loops'?): expected"),
    "a workload's value": (lambda: Workload("w", {"rows": 3}).rws, "workload 'w' has no value 'rws' (did you mean 'rows'?): it has rows"),
    "a parameter": (lambda: Parameters({"TILE": 3}, set())["TLE"], "acf.params has no 'TLE' (did you mean 'TILE'?): it has TILE: write"),
    "a place in a command": (lambda: read_template(["cc {sorce} -o {out}"], {}, 1), "{sorce} has no value in the baseline (did you mean 'source'?)"),
    "a knob of a command": (lambda: TEMPLATE.render(Candidate({"levl": 3})), "'levl' has no place in Command's steps (did you mean 'level'?)"),
    "an option of ptxas": (lambda: PTXAS.text({"--maxregcount=": 3}), "may hold (did you mean '--maxrregcount='?): expected"),
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
    assert "that this tool knows (did you mean '-funroll-loops'?), so that" in GCC.why_not("-funrol-loops", "", nobody)
    assert "did you mean" not in GCC.why_not("-falign-loops=", "many", nobody)
    assert "controls file (did you mean '-O'?)" in PTXAS.why_not("-o", 3, nobody)


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


def test_what_the_compiler_does_not_take_is_answered_in_its_own_words(tmp_path):
    (tmp_path / "k.c").write_text("int kernel(void) { return 3; }\n")
    builder = Cc("k.c", flags="-O2").resolve(Place(tmp_path, tmp_path))
    assert isinstance(builder, TriesOptions)
    assert builder.refused_option(["-O3", "-funroll-loops", "-falign-loops=8"]) is None
    said = builder.refused_option(["-O3", "-funroll-loops", "-funrol-loops", "-falign-loops=8"])
    assert said.startswith("gcc ") and " does not take '-funrol-loops': " in said
    assert "unrecognized command-line option '-funrol-loops'; did you mean '-funroll-loops'?" in said.replace("‘", "'")
