"""Knobs without a compiler: what decides, what is written down, and what is refused in a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from typing import ClassVar

import pytest

from pytest_compileiq import Params, PtxasSearchSpace, choice, minimize
from pytest_compileiq.config import NamedOptions
from pytest_compileiq.errors import BodyError, EnvironmentFault, MarkerError, StoreError, TuneFailed
from pytest_compileiq.model import Candidate
from pytest_compileiq.testing import ToolchainConformance
from pytest_compileiq.testing.fakes import FakePool, fake_benchmark
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.params.marker import line_of, read_line
from pytest_compileiq.tuning.baseline import check_baseline

MODEL = "def fit(rate):\n    return 2 * rate\n"


class TestParams(ToolchainConformance):
    files: ClassVar = {"tests/model.py": MODEL, "tests/data.txt": "1 2 3\n"}
    test_dir = "tests"
    knobs = (
        {"threads": 8},
        {"booster": "gbtree", "threads": 1, "exact": True, "rate": 0.1},
        {"not in the baseline": "a\nb"},
    )

    def make(self) -> Params:
        return Params({"threads": 4}, versions=["numpy", "python"], sources=["model.py", "data.txt"])


@pytest.fixture
def digest(tmp_path):
    """The digest of an arm, of a project in ``tmp_path``."""
    (tmp_path / "model.py").write_text(MODEL)

    def of(params: Params, knobs=None, change=lambda builder: builder) -> str:
        builder = change(params.resolve(Place(tmp_path, tmp_path)))
        controls = None if knobs is None else builder.render(Candidate(knobs))
        return builder.build(controls, tmp_path / "out", timeout_s=10).digest

    return of


def test_equal_parameters_are_equal_code_whether_a_knob_or_a_default_says_so(digest):
    params = Params({"threads": 4, "rate": 0.1})
    assert digest(params) == digest(params, {"threads": 4}) == digest(params, {"rate": 0.1, "threads": 4})
    assert digest(params) != digest(params, {"threads": 8})
    assert digest(params) == digest(Params({"threads": 4}), {"rate": 0.1})
    assert len({digest(params, {"threads": value}) for value in (1, True, "1", 1.0)}) == 4


def test_packages_and_sources_are_named_in_any_order(tmp_path, digest):
    (tmp_path / "data.txt").write_text("1")
    orders = [
        Params(versions=["python", "numpy"], sources=["model.py", "data.txt"]),
        Params(versions=["numpy", "python", "numpy"], sources=["data.txt", "model.py"]),
    ]
    assert len({digest(params) for params in orders}) == 1
    assert len({params.resolve(Place(tmp_path, tmp_path)).compiler for params in orders}) == 1


def test_another_version_of_a_package_is_other_code(digest):
    params = Params({"threads": 4}, versions=["numpy"])

    def newer(builder):
        return replace(builder, compiler=replace(builder.compiler, build="numpy 99.0"))

    assert digest(params) != digest(params, change=newer)
    assert digest(params) != digest(Params({"threads": 4}))


def test_comments_and_formatting_of_a_python_source_are_no_change_and_all_else_is(digest, tmp_path):
    params = Params(sources=["model.py"])
    before = digest(params)
    (tmp_path / "model.py").write_text('def fit( rate ):\n    """Fit."""\n    return 2*rate  # twice\n')
    assert digest(params) == before
    (tmp_path / "model.py").write_text(MODEL.replace("2 *", "3 *"))
    assert digest(params) != before


def test_an_arm_is_written_down_readably(tmp_path):
    builder = Params({"threads": 4, "fast": True}).resolve(Place(tmp_path, tmp_path))
    controls = builder.render(Candidate({"threads": 8, "name": "größe"}))
    assert controls.data == b'name="gr\\u00f6\\u00dfe"\nthreads=8\n'
    built = builder.build(controls, tmp_path / "out", timeout_s=10)
    assert json.loads(built.path.read_text()) == {"fast": True, "name": "größe", "threads": 8}
    assert builder.baseline_params == {"threads": 4, "fast": True}
    assert (builder.target, builder.compiler.command) == (f"{builder.architecture}-params", ("params", "fast=true", "threads=4"))  # fmt: skip


@pytest.mark.parametrize("value", [True, False, 0, -3, 2**62, 0.1, -1e-9, "", "a=b", 'a"b\n'])
def test_a_line_is_read_back_as_it_was_written(value):
    name, read = read_line(line_of("knob", value))
    assert (name, read, type(read)) == ("knob", value, type(value))


@pytest.mark.parametrize("line", ["", "threads", "threads=", "threads=[1]", "threads=null", "threads={}"])
def test_what_is_no_parameter_is_refused(line):
    with pytest.raises(StoreError, match="is no parameter"):
        read_line(line)


REFUSED = {
    "a compiler's option": (lambda: Params({"-O": 3}), MarkerError, "'-O': Params has no compiler that takes options"),
    "no dict": (lambda: Params(["threads"]), MarkerError, "expected a dict"),
    "no pair": (lambda: Params([()]), MarkerError, r"defaults=\(\(\),\)\): expected a dict"),
    "half a pair": (lambda: Params([("a",)]), MarkerError, "expected a dict"),
    "more than a pair": (lambda: Params([("a", 1, 2)]), MarkerError, "expected a dict"),
    "no text as a name": (lambda: Params({1: 2}), MarkerError, "expected a dict"),
    "a name given twice": (lambda: Params([("a", 1), ("a", 2)]), MarkerError, "expected a dict"),
    "a list as a value": (lambda: Params({"sizes": [1, 2]}), MarkerError, "sizes = .*expected a bool, a finite number"),
    "no number": (lambda: Params({"rate": float("nan")}), MarkerError, "rate = nan: expected a bool, a finite number"),
    "a name with an equals sign": (lambda: Params({"a=b": 1}), MarkerError, "without '='"),
    "a version's bound": (lambda: Params(versions=["numpy>=2"]), MarkerError, "a package's name alone"),
    "a missing source": (lambda: Params(sources="no.py"), MarkerError, "no such file: .*relative to the test file"),
    "names that are none": (lambda: Params(versions=[1]), MarkerError, r"Params\(versions=.*expected a list of names"),
    "a package that is not there": (
        lambda: Params(versions="surely-not-installed"),
        EnvironmentFault,
        "no package of that name is installed: pip install surely-not-installed",
    ),
    "a misspelt one": (lambda: Params(versions="numpi"), EnvironmentFault, "did you mean 'numpy'"),
    "what it is imported as": (lambda: Params(versions="git"), EnvironmentFault, "name 'GitPython'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_used_is_refused_in_a_sentence(what, tmp_path):
    make, error, said = REFUSED[what]
    with pytest.raises(error, match=said):
        make().resolve(Place(tmp_path, tmp_path))


def test_there_is_nothing_to_load_and_no_option_or_acf_to_take(tmp_path):
    builder = Params(versions=["numpy"]).resolve(Place(tmp_path, tmp_path))
    assert builder.compiler.build == f"numpy {version('numpy')}"
    with pytest.raises(BodyError, match=r"nothing to load: read acf\.params"):
        builder.load(builder.build(None, tmp_path / "out", timeout_s=10), set())
    with pytest.raises(MarkerError, match="no compiler that takes options"):
        builder.render(Candidate({"-O": 3}))
    with pytest.raises(MarkerError, match="no compiler that takes an ACF"):
        builder.render(Candidate({}, b"controls"))


NO_SPACE = "params has no space of its own: give the marker space="
SPACES = {
    "none": (None, NO_SPACE),
    "the compiler's": ("options", NO_SPACE),
    "an option": ({"-O": choice([2, 3])}, "no compiler that takes options"),
    "an ACF's": (PtxasSearchSpace(), "params takes no ACF"),
}


@pytest.mark.parametrize("space", SPACES)
def test_a_space_that_cannot_be_used_is_told_before_anything_runs(space, tmp_path):
    given, said = SPACES[space]
    builder = Params({"threads": 4}).resolve(Place(tmp_path, tmp_path))
    with pytest.raises(MarkerError, match=said):
        fake_benchmark(tmp_path, builder, space=given).check_options(NamedOptions())


@pytest.mark.parametrize("metric", ["code_bytes", "compile_time"])
def test_what_only_a_compiler_gives_is_no_objective(metric, tmp_path):
    builder = Params({"threads": 4}).resolve(Place(tmp_path, tmp_path))
    benchmark = fake_benchmark(tmp_path, builder, space={"threads": choice([1, 2])}, objectives=[minimize(metric)])
    with pytest.raises(TuneFailed, match=f"nothing is compiled, so there is no {metric}"):
        check_baseline(benchmark, FakePool(), print)
