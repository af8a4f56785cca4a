"""The digest of a benchmark: what it sees, and what it is blind to."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.benchmark import benchmark_digest, benchmark_parts
from pytest_compileiq.errors import MarkerError

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
GOLDEN = "38dc066c88dfc8c8c091a3480144b859e5cf4b5931921cc645d17557737e4e1d"


def load(path: Path, name: str):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def digest(tmp_path, request):
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
        return benchmark_digest(
            loaded.test_it, fixtures=functions, rootdir=home, workloads=chosen, objectives=objectives
        )

    yield make
    for name in ("helper_x", "test_x"):
        sys.modules.pop(name, None)


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
    assert set(benchmark_parts(wrapped, fixtures=(), rootdir=tmp_path)) == {"test_y.py::helper", "test_y.py::test_it"}
    sys.modules.pop("test_y")


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
