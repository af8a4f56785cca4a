"""The digest of a benchmark: what it sees, and what it is blind to."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.benchmark.digest import digest_benchmark
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Fingerprint
from pytest_compileiq.rules.fingerprint import changed_benchmark

HELPER = """\
SCALE = 2
UNUSED = 3

def reference(x):
    return inner(x) * SCALE

def inner(x):
    return x + 1

def unrelated(x):
    return x - 1
"""
MODULE = """\
import functools
import helper_{tag} as helper
from helper_{tag} import reference

LIMIT = [1, 2]
OTHER = 5

class Box:
    def get(self):
        return 1

def fixture_buffers():
    return helper.UNUSED

def test_it(acf, n=3):
    '''A docstring.'''
    # a comment
    assert reference(n) < LIMIT[0] and f"{{n}}-{{n!r}}"
    return Box().get()
"""
GOLDEN_BENCHMARK = "2172523bd2fc8f483a771e4a45bf75f11b95d72c238e84dccf2218cffd1c95e2"
GOLDEN = "38dc066c88dfc8c8c091a3480144b859e5cf4b5931921cc645d17557737e4e1d"


def load(path: Path, name: str):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def benchmark_of(tmp_path):
    """Write the two modules with replacements, and digest the test; each call has modules of its own."""
    made = []

    def make(*edits: tuple[str, str], workloads=None, objectives=(("runtime", "minimize"),), fixtures=True):
        tag = f"m{len(made)}"
        home = tmp_path / tag
        home.mkdir()
        helper, module = HELPER, MODULE.format(tag="x")
        for old, new in edits:
            assert old in helper + module
            helper, module = helper.replace(old, new), module.replace(old, new)
        (home / "helper_x.py").write_text(helper)
        (home / "test_x.py").write_text(module)
        load(home / "helper_x.py", "helper_x")
        loaded = load(home / "test_x.py", "test_x")
        made.append(loaded)
        functions = [loaded.fixture_buffers] if fixtures else []
        chosen = workloads or {"default": ({}, 1.0)}
        return digest_benchmark(
            loaded.test_it, fixtures=functions, rootdir=home, workloads=chosen, objectives=objectives
        )

    yield make
    for name in ("helper_x", "test_x"):
        sys.modules.pop(name, None)


@pytest.fixture
def digest(benchmark_of):
    return lambda *edits, **given: benchmark_of(*edits, **given).sha256


SEEN = {
    "the test's logic": ("< LIMIT[0]", "<= LIMIT[0]"),
    "a default argument": ("n=3", "n=4"),
    "a constant": ("LIMIT = [1, 2]", "LIMIT = [1, 3]"),
    "a helper in another file": ("inner(x) * SCALE", "inner(x) + SCALE"),
    "a helper's helper": ("x + 1", "x + 2"),
    "a helper's constant": ("SCALE = 2", "SCALE = 3"),
    "a class it uses": ("        return 1", "        return 2"),
    "what a fixture uses": ("UNUSED = 3", "UNUSED = 4"),
    "an f-string": ("{n!r}", "{n!s}"),
}
BLIND = {
    "a comment": ("# a comment", "# another"),
    "a docstring": ("A docstring.", "Another."),
    "formatting": ("def test_it(acf, n=3):", "def test_it(\n    acf,\n    n=3,\n):"),
    "an unrelated function": ("x - 1", "x - 2"),
    "an unrelated constant": ("OTHER = 5", "OTHER = 6"),
}


@pytest.mark.parametrize("what", SEEN)
def test_it_sees(digest, what):
    assert digest(SEEN[what]) != digest()


@pytest.mark.parametrize("what", BLIND)
def test_it_is_blind_to(digest, what):
    assert digest(BLIND[what]) == digest()


def test_it_sees_workloads_weights_and_objectives(digest):
    plain = digest()
    for workloads in ({"default": ({"n": 1}, 1.0)}, {"default": ({}, 2.0)}, {"other": ({}, 1.0)}):
        assert digest(workloads=workloads) != plain
    assert digest(objectives=(("runtime", "maximize"),)) != plain


def test_a_workload_value_without_a_text_of_its_own_is_refused(digest):
    with pytest.raises(MarkerError, match="workload 'w': n="):
        digest(workloads={"w": ({"n": object()}, 1.0)})


def test_it_names_what_it_includes_relative_to_the_project(tmp_path):
    (tmp_path / "test_y.py").write_text("def helper():\n    return 1\n\ndef test_it():\n    helper()\n")
    loaded = load(tmp_path / "test_y.py", "test_y")
    wrapped = functools.wraps(loaded.test_it)(loaded.test_it)
    made = digest_benchmark(wrapped, fixtures=(), rootdir=tmp_path, workloads={"small": ({}, 1.0)}, objectives=())
    assert set(made.parts) == {"helper test_y.py::helper", "test test_y.py::test_it", "workload small", "objectives"}
    sys.modules.pop("test_y")


TWO = {"default": ({}, 1.0), "big": ({"n": 3}, 2.0)}


def test_a_benchmark_has_the_digest_that_stored_artifacts_hold(benchmark_of):
    made = benchmark_of(workloads=TWO)
    assert made.sha256 == GOLDEN_BENCHMARK
    assert list(made.parts) == [
        "helper helper_x.py::SCALE", "helper helper_x.py::UNUSED", "helper helper_x.py::inner",
        "helper helper_x.py::reference", "helper test_x.py::Box", "helper test_x.py::LIMIT",
        "fixture test_x.py::fixture_buffers", "test test_x.py::test_it", "workload default", "workload big", "objectives",
    ]  # fmt: skip


CHANGES = {
    "the test": ({"edits": [("< LIMIT[0]", "<= LIMIT[0]")]}, "test test_x.py::test_it"),
    "a fixture": ({"edits": [("return helper.UNUSED", "return -helper.UNUSED")]}, "fixture test_x.py::fixture_buffers"),
    "a helper": ({"edits": [("x + 1", "x + 2")]}, "helper helper_x.py::inner"),
    "two": (
        {"edits": [("x + 1", "x + 2"), ("LIMIT = [1, 2]", "LIMIT = [1, 3]")]},
        "helper helper_x.py::inner, helper test_x.py::LIMIT",
    ),
    "a helper that is used no more": ({"edits": [("* SCALE", "* 2")]}, "helper helper_x.py::SCALE (gone), helper helper_x.py::reference"),
    "a workload's value": ({"workloads": {**TWO, "big": ({"n": 4}, 2.0)}}, "workload big"),
    "a workload's weight": ({"workloads": {**TWO, "big": ({"n": 3}, 1.0)}}, "workload big"),
    "another workload": ({"workloads": {**TWO, "small": ({}, 1.0)}}, "workload small (added)"),
    "the order of workloads": ({"workloads": dict(reversed(TWO.items()))}, "the order of its workloads"),
    "the objectives": ({"objectives": (("runtime", "maximize"),)}, "objectives"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_of_it_is_named(benchmark_of, what):
    given, said = CHANGES[what]
    before = benchmark_of(workloads=TWO)
    now = benchmark_of(
        *given.get("edits", ()), **{"workloads": TWO, **{k: v for k, v in given.items() if k != "edits"}}
    )
    assert now.sha256 != before.sha256
    assert changed_benchmark(*(Fingerprint("0", "0", {}, each.parts) for each in (before, now))) == said


def other_pythons():
    mine = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return [mine, *(name for name in ("python3.11", "python3.12", "python3.13") if name != mine)]


@pytest.mark.parametrize("name", other_pythons())
def test_the_canonical_text_is_the_same_on_every_supported_python(name):
    program = sys.executable if name == other_pythons()[0] else shutil.which(name)
    runs = (
        program
        and subprocess.run(
            [program, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], capture_output=True, check=False
        ).returncode
        == 0
    )
    if not runs:
        pytest.skip(f"{name} is not installed")
    import pytest_compileiq

    # The rules import nothing but the standard library here, so a bare interpreter will do.
    rules = Path(pytest_compileiq.__file__).parent / "rules" / "fingerprint.py"
    code = f"import runpy, ast, sys; m = runpy.run_path({str(rules)!r}); print(m['digest']([m['canonical_text'](ast.parse(sys.stdin.read()))]))"
    done = subprocess.run(
        [program, "-c", code], input=HELPER + MODULE.format(tag="x"), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == GOLDEN
