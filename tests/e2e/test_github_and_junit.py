"""A run on GitHub's runners, as the runner sees it: annotations, job summary and JUnit, from one process alone."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree

import pytest

from tests.forked import run_module

# Nothing is compiled: a missing artifact is a verdict too.
TEST_PY = """
import pytest
from pytest_compileiq import Cc

@pytest.mark.tune(Cc("k.c", flags="-O1 -march=x86-64-v3"))
def test_missing(acf):
    acf.build()

@pytest.mark.tune(Cc("k.c", flags="-O1"), budget="much")
def test_marker(acf):
    acf.build()

def test_other():
    pass
"""


@pytest.fixture
def run(project, tmp_path):
    """Run pytest as a step of a job; returns its lines, the job summary and the test cases of JUnit."""

    def run(*arguments, files=None, environment=None):
        made = project({"sub/test_it.py": TEST_PY, "sub/k.c": "int k(void) { return 1; }\n", **(files or {})})
        summary, junit = tmp_path / "summary.md", tmp_path / "junit.xml"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "GITHUB_"))}
        told = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_WORKSPACE": str(tmp_path)}
        options = ["-pno:cacheprovider", "-pno:randomly", f"--junitxml={junit}", *arguments]
        environment = kept | (told if environment is None else environment)
        code, output = run_module("pytest", options, cwd=made.root, environment=environment)
        assert code == 1, output
        cases = {case.get("name"): case for case in ElementTree.parse(junit).iter("testcase")}
        return output.splitlines(), summary.read_text() if summary.exists() else "", cases

    return run


@pytest.mark.parametrize(
    "arguments", [["-p", "no:xdist"], ["-n", "2"], ["-q", "--no-summary"], ["-p", "no:terminal"]], ids=" ".join
)
def test_each_failing_tuned_test_is_marked_once_on_its_line_and_summed_up(run, arguments):
    lines, summary, cases = run(*arguments)
    marked = sorted(line for line in lines if line.startswith("::"))
    assert [line.partition("title=")[0] for line in marked] == [
        "::error file=project/sub/test_it.py,line=5,",
        "::error file=project/sub/test_it.py,line=9,",
    ]
    assert "MISSING::" in marked[0]
    assert "pytest --tune" in marked[0]
    assert "budget" in marked[1]
    assert summary.count("### Compiler controls: 1 MISSING") == 1
    properties = {one.get("name"): one.get("value") for one in cases["test_missing"].iter("property")}
    assert properties["acf.verdict"] == "MISSING"
    assert properties["acf.name"] == "missing"
    assert not list(cases["test_other"].iter("property"))


def test_elsewhere_nothing_is_printed_for_github(run, tmp_path):
    lines, summary, cases = run(environment={"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")})
    assert not [line for line in lines if line.startswith("::")]
    assert summary == ""
    assert cases["test_missing"].find("properties") is not None


def test_a_summary_that_cannot_be_written_is_a_warning(run, tmp_path):
    lines, _, _ = run(environment={"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path)})
    assert any(line.startswith("::warning title=acf::the job summary could not be written") for line in lines)
    assert any(line.startswith("::error file=sub/test_it.py,line=5,") for line in lines)


def test_a_test_that_is_tried_again_has_its_properties_once(run):
    conftest = """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if item.name != "test_missing":
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    runtestprotocol(item, log=False, nextitem=nextitem)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
"""
    _, _, cases = run(files={"conftest.py": conftest})
    names = [one.get("name") for one in cases["test_missing"].iter("property")]
    assert names.count("acf.verdict") == 1
