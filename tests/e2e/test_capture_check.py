"""``acf capture --check`` says whether a program still calls what was captured of it, and names what changed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.files import write_files
from tests.projects import Project

PROGRAM_PY = """\
import ctypes, sys
c = ctypes.CDLL(None)
for n in range(40):
    c.abs(-n)
print("read", [c.atoi(text.encode()) for text in sys.argv[1:]])
"""
PROGRAM = ("--", sys.executable, "program.py")


@pytest.fixture(scope="module")
def _captured(tmp_path_factory) -> Path:
    root = write_files(tmp_path_factory.mktemp("program"), {"program.py": PROGRAM_PY})
    Project(root).acf("capture", *PROGRAM, "100", "101", "20000", code=0)
    return root


@pytest.fixture
def captured(_captured, tmp_path) -> Project:
    shutil.copytree(_captured, tmp_path / "elsewhere")
    return Project(tmp_path / "elsewhere")


def check(project: Project, *arguments: str, code: int = 0) -> str:
    return project.acf("capture", "--check", "acf-capture", *PROGRAM, *arguments, code=code)


def test_a_program_that_calls_what_was_captured_passes_however_often_it_does(captured):
    output = check(captured, "999", "12345", "12346", "12347")
    assert output.startswith("read [999, 12345, 12346, 12347]\n")
    assert "abs: on 1 shape as captured; 40 calls, 40 when captured" in output
    assert "atoi: on 2 shapes as captured; 4 calls, 3 when captured" in output
    assert "the program calls what acf-capture holds" in output


def test_an_argument_of_many_values_is_one_shape_of_which_few_calls_are_kept(captured):
    assert "abs     1       4 of 40" in captured.acf("capture", "--show", "acf-capture", code=0)


def test_a_shape_that_is_gone_and_one_that_is_new_are_named(captured):
    output = check(captured, "100", "1", "2", code=1)
    assert "atoi: no longer called on (bytes[5]); 1 call when captured" in output
    assert "atoi: newly called on (bytes[1]); 2 calls" in output
    assert "abs: on 1 shape as captured" in output
    assert "the program no longer calls what acf-capture holds: capture again" in output


def test_a_kernel_that_is_no_longer_called_is_named(captured):
    captured.edit("program.py", "c.abs(-n)", "c.labs(-n)")
    output = check(captured, "100", "20000", code=1)
    assert "abs: no longer called; 40 calls when captured" in output
    assert "atoi: on 2 shapes as captured" in output


def test_a_program_that_fails_is_no_pass(captured):
    captured.edit("program.py", "print(", "sys.stdin.close(); sys.exit(3 if print(")
    captured.edit("program.py", "sys.argv[1:]])", "sys.argv[1:]]) is None else 0)")
    assert "program.py ended with status 3: the figures are of the part before" in check(
        captured, "100", "20000", code=1
    )


def test_what_cannot_be_checked_is_refused_in_a_sentence(captured):
    path = captured.root / "acf-capture/abs/kernel.json"
    kernel = json.loads(path.read_text())
    path.write_text(json.dumps(kernel | {"unrecorded": None}))
    assert "acf-capture/abs was captured by an earlier acf, which did not keep all shapes" in check(captured, code=2)
    path.write_text(json.dumps(kernel | {"unrecorded": [{"shape": [1.5], "calls": 1}]}))
    assert "kernel.json is no captured kernel" in check(captured, code=2)
    shutil.rmtree(captured.root / "acf-capture")
    assert "acf-capture is no capture" in check(captured, code=2)
    (captured.root / "acf-capture").mkdir()
    assert "acf-capture holds no kernel, so there is nothing to check" in check(captured, code=2)
    said = captured.acf("capture", "--check", "acf-capture", "--to", "other", *PROGRAM, code=2)
    assert "--check records nothing, so there is nothing for --to, --tests and --extents" in said
