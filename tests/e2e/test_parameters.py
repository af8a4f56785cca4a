"""What a test is given is a part of what was proven, wherever it is written."""

from __future__ import annotations

import pytest

from tests.examples import SUM_C
from tests.projects import make_project

GIVEN_PY = """\
from dataclasses import dataclass

import numpy as np
import pytest
from pytest_compileiq import Cc, choice, minimize

SIZES = {"large": 20_000 + 1}
tuned = pytest.mark.tune(Cc("sum.c", flags="-O1"), space={"-O": choice([2, "s"])}, objectives=[minimize("code_bytes")])

@dataclass
class Case:
    n: int

class Shape:
    def __init__(self, n):
        self.n = n

@pytest.fixture(params=[np.arange(5)], ids=["data"])
def data(request):
    return request.param

@pytest.fixture
def doubled(request):
    return 2 * request.param

def pytest_generate_tests(metafunc):
    if "made" in metafunc.fixturenames:
        metafunc.parametrize("made", ["some text"], ids=["made"])

@tuned
@pytest.mark.parametrize("n", SIZES.values(), ids=SIZES)
def test_plain(acf, n):
    acf.build()

@tuned
def test_fixture(acf, data):
    acf.build()

@tuned
@pytest.mark.parametrize("doubled", [7], ids=["seven"], indirect=True)
def test_indirect(acf, doubled):
    acf.build()

@tuned
def test_made(acf, made):
    acf.build()

class TestHeld:
    N = 5
    LOG = []

    def setup_method(self):
        self.made = 6

    @property
    def doubled(self):
        return self.half() * 4

    def half(self):
        return self.N // 2

    @tuned
    def test_held(self, acf):
        assert self.doubled and self.made
        self.LOG.append(self.N)
        acf.build()

    @tuned
    def test_other(self, acf):
        acf.build()

@tuned
@pytest.mark.parametrize("case", [Case(3), Shape(4)])
def test_object(acf, case):
    acf.build()
"""
HELD = {"attribute N": ("N = 5", "N = 15"), "attribute setup_method": ("self.made = 6", "self.made = 7")}
CHANGES = {
    "n": ("20_000 + 1", "2 + 1"),
    "data": ("np.arange(5)", "np.arange(6)"),
    "doubled": ("[7]", "[8]"),
    "made": ("some text", "other text"),
    "case": ("[Case(3), Shape(4)]", "[Shape(4), Case(3)]"),
}


@pytest.mark.slow
def test_another_input_under_the_same_id_is_stale_by_its_name(tmp_path):
    project = make_project(tmp_path, {"test_k.py": GIVEN_PY, "sum.c": SUM_C})
    project.pytest("--tune", "--tune-budget=2", "--tune-engine=grid", code=0)
    stored = project.one("acf/plain-large/*.toml")
    assert '"parameter n" = ' in stored.read_text()
    assert "8 proven" in project.pytest(code=0)
    for old, new in CHANGES.values():
        project.edit("test_k.py", old, new)
    output = project.pytest(code=1)
    for name in CHANGES:
        assert f"the benchmark changed: parameter {name}" in output
    assert "6 failed, 2 passed" in output
    for old, new in HELD.values():
        project.edit("test_k.py", old, new)
    output = project.pytest("-k", "held", code=1)
    assert "the benchmark changed: attribute N, attribute setup_method\n" in output.replace(" (since", "\n")
    project.pytest("--tune", "--tune-budget=0", code=0)
    assert "8 proven" in project.pytest(code=0)

    # An artifact of before values were recorded is not held to them, and says so.
    text = stored.read_text()
    stored.write_text("".join(line for line in text.splitlines(True) if "parameter n" not in line))
    output = project.pytest(code=0)
    assert "8 proven" in output and "not compared, since the artifact is older than such records: parameter n" in output

    project.edit("test_k.py", "[Shape(4), Case(3)]", "[object(), lambda: 3]")
    output = project.pytest("--tune", "-k", "object", code=1)
    assert "parameter case holds a object, which has no value that can be digested" in output
    assert "parameter case holds the function <lambda>" in output and "make the object of them in a fixture" in output
