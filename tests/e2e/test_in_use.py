"""Whether what was shipped is in use, as a user of pytest and of ``acf expect`` sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.ship.acf_runtime import NEVER_APPLIED
from tests.exports import make_export

SERVE = "import acf_runtime, sys\nfor name in sys.argv[1:]: acf_runtime.resolve(name, 'sm_90a', 'NVIDIA H200')\n"
TESTS = """
import subprocess, sys
import acf_runtime

def ask(name):
    return acf_runtime.resolve(name, "sm_90a", "NVIDIA H200").path

def serve(*names):
    subprocess.run([sys.executable, "serve.py", *names], check=True)

def test_softmax():
    assert ask("softmax")

def test_matmul():
    assert ask("matmul")

def test_by_fixture(acf_expect):
    ask("softmax")
    acf_expect("softmax")

def test_of_other_processes(acf_expect):
    serve("softmax")
    serve("matmul")
    acf_expect()

def test_that_asks_for_nothing(acf_expect):
    serve("sotfmax")
    acf_expect("softmax")

def test_that_fails():
    assert 1 == 2
"""


@pytest.fixture
def shipping(project, monkeypatch):
    """A project beside an export of two artifacts; the environment says nothing of them yet."""
    monkeypatch.delenv("ACF_EXPECT", raising=False)
    monkeypatch.delenv("ACF_COUNTS", raising=False)
    made = project({"test_serving.py": TESTS, "serve.py": SERVE, "conftest.py": ""})
    make_export(made.root / "export", {"softmax": ["NVIDIA H200"], "matmul": []}, retired=["old"])
    monkeypatch.setenv("PYTHONPATH", f"{made.root / 'export'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return made


@pytest.mark.parametrize(
    ("expected", "chosen", "code", "told"),
    [
        ("all", "softmax or matmul", 0, "in use: 2 of 2 shipped artifacts applied in 1 process"),
        ("softmax", "test_softmax", 0, "in use: 1 of 2 shipped artifacts applied in 1 process"),
        (
            "all", "test_softmax", NEVER_APPLIED,
            "in use: 1 of 2 shipped artifacts applied in 1 process; matmul was never applied: nobody asked for it",
        ),
        ("all", "that_fails", 1, "matmul was never applied: nobody asked for it; softmax was never applied"),
        ("", "test_softmax", 0, None),
    ],
)  # fmt: skip
def test_a_run_of_tests_is_held_to_what_it_expects(shipping, monkeypatch, expected, chosen, code, told):
    monkeypatch.setenv("ACF_EXPECT", expected)
    output = shipping.pytest("-k", chosen, code=code)
    assert (told in output) if told else "in use:" not in output


def test_a_run_that_imports_no_export_does_not_pass(project, monkeypatch):
    monkeypatch.setenv("ACF_EXPECT", "all")
    output = project({"test_nothing.py": "def test_nothing(): pass"}).pytest(code=NEVER_APPLIED)
    assert "in use: no process of this run imported an acf_runtime" in output


def test_a_search_is_not_judged(project, monkeypatch):
    monkeypatch.setenv("ACF_EXPECT", "all")
    output = project({"test_nothing.py": "def test_nothing(): pass"}).pytest("--tune", code=5)
    assert "in use: not judged" in output


@pytest.mark.slow
def test_workers_of_xdist_are_judged_together(shipping, monkeypatch):
    monkeypatch.setenv("ACF_EXPECT", "all")
    each = ("-pxdist", "-n2", "--dist=each", "--tx=2*popen", "-k")
    assert "2 of 2 shipped artifacts applied in 2 processes" in shipping.pytest(*each, "softmax or matmul", code=0)
    assert "matmul was never applied" in shipping.pytest(*each, "test_softmax", code=NEVER_APPLIED)


def test_the_fixture_judges_a_test_by_its_own_processes(shipping):
    shipping.pytest("-k", "by_fixture or other_processes", code=0)
    output = shipping.pytest("-k", "test_softmax or asks_for_nothing", code=1)
    assert "softmax was never applied: nobody asked for it, but for sotfmax, not shipped" in output
    assert "1 failed, 1 passed" in output


def serve(root: Path, counts: Path, *names: str) -> None:
    environment = os.environ | {"ACF_COUNTS": str(counts), "PYTHONPATH": str(root / "export")}
    subprocess.run([sys.executable, "-S", "serve.py", *names], cwd=root, env=environment, check=True, timeout=60)


def test_acf_expect_judges_the_counts_of_several_processes_together(shipping, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    serve(shipping.root, first, "softmax", "softmax", "sotfmax")
    serve(shipping.root, first)
    told = shipping.acf("expect", str(first), code=1)
    assert "in use: 1 of 2 shipped artifacts applied in 2 processes" in told
    assert "acf: matmul was never applied: nobody asked for it, but for sotfmax, not shipped" in told
    shipping.acf("expect", str(first), "--name", "softmax")
    shipping.acf("expect", str(first), "--name", "old", code=1)

    serve(shipping.root, second, "matmul")
    told = shipping.acf("expect", str(first), str(second), "--all")
    assert "matmul                 1           1        0" in told
    report = json.loads(shipping.acf("expect", str(first), str(second), "--format", "json"))
    assert report["schema"] == 1 and report["never_applied"] == [] and report["processes"] == 3
    assert report["artifacts"]["softmax"] == {"shipped": True, "looked_for": 2, "applied": 2, "refused": {}}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "is missing: no process has written its counts there"),
        (b'{"schema": 1, "process"', ":1 is no counts of acf_runtime"),
        (b'{"schema": 1, "process": "p", "export": "", "problem": null, "artifacts": {"a": 1}}\n', ":1 is no counts"),
        (b'{"schema": 2, "process": "p", "export": "", "problem": null, "artifacts": {}}\n', ":1 has schema 2"),
    ],
)
def test_counts_that_cannot_be_read_are_no_pass(shipping, tmp_path, content, told):
    counts = tmp_path / "counts"
    if content is not None:
        counts.write_bytes(content)
    assert told in shipping.acf("expect", str(counts), code=2)


def test_counts_of_nobody_or_of_an_export_that_cannot_be_read_are_no_pass(shipping, tmp_path):
    counts = tmp_path / "counts"
    counts.touch()
    assert "no controls are shipped" in shipping.acf("expect", str(counts), code=1)
    (shipping.root / "export" / "manifest.json").unlink()
    serve(shipping.root, counts, "softmax")
    assert "manifest.json cannot be read" in shipping.acf("expect", str(counts), code=1)
