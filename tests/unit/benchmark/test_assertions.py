"""Which bodies check what they time: read from the source, generously."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from pytest_compileiq.benchmark.assertions import advice

HELPERS = """\
def close_to(out, reference):
    assert out == reference

def outer(out):
    close_to(out, 1)

def scale(x):
    return 2 * x

def refuse(out):
    if not out:
        raise ValueError(out)

def timed(acf, call):
    acf.measure(call)

def timed_and_held(acf, call, out):
    acf.measure(call)
    close_to(out, 1)
"""
HEAD = """\
import numpy as np
import pytest
import unittest
import helpers_x as helpers
from helpers_x import close_to as near, outer, refuse, scale, timed, timed_and_held
from numpy.testing import assert_allclose as close

def oracle():
    def judge(out):
        assert out
    return judge

"""
SILENT = {
    "an assertion around it": "assert acf.measure(run) == 1",
    "a helper around it": "near(acf.measure(run), 1)",
    "an assertion after": "acf.measure(run); assert out",
    "numpy's assertion": "acf.measure(run); np.testing.assert_allclose(out, 1)",
    "numpy's assertion under another name": "acf.measure(run); close(out, 1)",
    "pytest.raises": "acf.measure(run)\n    with pytest.raises(ValueError): out[9]",
    "pytest.fail": "acf.measure(run)\n    if not out: pytest.fail('wrong')",
    "an exception": "acf.measure(run)\n    if not out: raise ValueError(out)",
    "unittest's assertion": "acf.measure(run); unittest.TestCase().assertEqual(out, 1)",
    "a function that says so": "acf.measure(run); elsewhere.check_result(out)",
    "a helper of another file": "acf.measure(run); near(out, 1)",
    "a helper by its module": "acf.measure(run); helpers.close_to(out, 1)",
    "a helper's helper": "acf.measure(run); outer(out)",
    "a helper that raises": "acf.measure(run); refuse(out)",
    "a function of the body, defined before": "def held(): assert out\n    acf.measure(run)\n    held()",
    "a lambda of the body": "held = lambda: near(out, 1)\n    acf.measure(run)\n    held()",
    "a helper handed on": "acf.measure(run); any(map(refuse, out))",
    "a fixture's function": "acf.measure(run); oracle(out)",
    "a loop": "acf.measure(run)\n    for one in out:\n        assert one",
    "the end of a try": "try:\n        acf.measure(run)\n    finally:\n        assert out",
    "a manager around it": "with helpers.outer(out):\n        acf.measure(run)",
    "the measured call itself": "def run_and_hold(): assert out\n    acf.measure(run_and_hold)",
    "the measured lambda": "acf.measure(lambda: near(run(), 1))",
    "a check between the samples": "acf.measure(run, check=judge)",
    "acf.compare before": "acf.compare('out', out); acf.measure(run)",
    "acf.compare after": "acf.measure(run); acf.compare('out', out)",
    "a helper that measures and asserts": "timed_and_held(acf, run, out)",
    "an assertion after a helper that measures": "timed(acf, run); assert out",
    "a record with an assertion": "assert out; acf.record(runtime=1.0)",
    "a record with a comparison": "acf.compare('out', out); acf.record(runtime=1.0)",
    "a build alone": "acf.build()",
    "a measurement that is not seen": "getattr(acf, 'mea' + 'sure')(run)",
}
TOLD = {
    "nothing at all": "acf.measure(run)",
    "an assertion before": "assert out; acf.measure(run)",
    "numpy's assertion before": "np.testing.assert_allclose(out, 1); acf.measure(run)",
    "a helper before": "near(out, 1); acf.measure(run)",
    "something else after": "acf.measure(run); print(scale(out))",
    "a checking function that is only defined": "def held(): assert out\n    acf.measure(run)",
    "no check between the samples": "acf.measure(run, check=None)",
    "a process that may fail": "acf.measure(lambda: subprocess.run(['k'], check=True))",
    "a process whose failure is passed over": "acf.measure(lambda: subprocess.run(['k'], check=False))",
    "a helper that measures, an assertion before it": "assert out; timed(acf, run)",
}


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Write a test of that body, and ask; ``name`` is the test, which may be a method."""

    def ask(text: str, name: str = "test_it", inside: bool = True):
        (tmp_path / "helpers_x.py").write_text(HELPERS)
        (tmp_path / "test_x.py").write_text(HEAD + text)
        monkeypatch.syspath_prepend(str(tmp_path))
        for module in ("helpers_x", "test_x"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        spec = importlib.util.spec_from_file_location("test_x", tmp_path / "test_x.py")
        loaded = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "test_x", loaded)
        spec.loader.exec_module(loaded)
        function = loaded
        for part in name.split("."):
            function = getattr(function, part)
        return advice(function, fixtures=(loaded.oracle,), rootdir=tmp_path if inside else tmp_path / "elsewhere")

    yield ask
    sys.modules.pop("helpers_x", None)


def test_of(body: str) -> str:
    return f"def test_it(acf, run, out, oracle):\n    {body}\n"


test_of.__test__ = False


@pytest.mark.parametrize("what", SILENT)
def test_it_is_silent_about(told, what):
    assert told(test_of(SILENT[what])) is None


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_of(told, what):
    said = told(test_of(TOLD[what]))
    assert said.startswith("no assertion stands after acf.measure") and "acf.compare" in said


def test_a_record_without_any_assertion_is_told_in_its_own_words(told):
    assert told(test_of("acf.record(runtime=1.0)")).startswith("the body records what it timed and asserts nothing")


METHOD = """\
class TestIt:
    def right(self, out):
        assert out

    def double(self, out):
        return 2 * out

    def test_it(self, acf, run, out):
        acf.measure(run)
        self.{method}(out)
"""


@pytest.mark.parametrize(("method", "silent"), [("right", True), ("double", False)])
def test_a_method_of_its_class_counts_for_what_it_does(told, method, silent):
    assert (told(METHOD.format(method=method), "TestIt.test_it") is None) is silent


def test_a_source_outside_the_project_says_nothing(told):
    assert told(test_of("acf.measure(run)"), inside=False) is None
