"""A search that could judge nothing says why, fails, and writes nothing: "nothing beats the defaults" is a statement."""

from __future__ import annotations

import tomllib

import pytest

from tests import needs

LIBRARY_C = """\
int first(const int *x, int n) { int sum = 0; for (int i = 0; i < n; i++) sum += x[i] * x[i]; return sum; }
int second(const int *x, int n) { int sum = 1; for (int i = 0; i < n; i++) sum ^= x[i] << 1; return sum; }
"""
LIBRARY_PY = """\
import ctypes
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("library.c"), objectives=[minimize("code_bytes")])
def test_first(acf):
    first = acf.build().load().first
    values = (ctypes.c_int * 3)(*range(3))
    assert first(values, 3) == 5
"""


@pytest.mark.slow
def test_a_library_whose_neighbours_void_the_candidates_ends_early_and_is_not_stored_as_a_baseline(project):
    made = project({"library.c": LIBRARY_C, "test_library.py": LIBRARY_PY})
    output = made.pytest("--tune", "--tune-budget=100", code=1)
    assert "the first invalid candidate (neighbour): also change second, which the test does not take" in output
    assert "candidates were not measured" in output and "move the kernel to a file of its own" in output
    line = 'Cc("library.c", flags="-O2", functions="first", neighbours="allow")'
    assert f"allow it in the marker, {line}, or" in output
    assert not (made.root / "acf").exists()

    made.edit("test_library.py", "    values =", "    acf.build().load().second\n    values =")
    made.pytest("--tune", "--tune-budget=8", code=0)
    made.edit("test_library.py", "    acf.build().load().second\n", "")
    made.edit("test_library.py", 'Cc("library.c")', line)
    assert "also changes: second" in made.pytest("--tune", "--tune-fresh", "--tune-budget=8", code=0)


UNREAD_PY = """\
import pytest
from pytest_compileiq import {toolchain}, choice, minimize

@pytest.mark.tune({call}, space={space}, objectives=[minimize("code_bytes")])
def test_kernel(acf):
    {body}acf.build()
"""
CC = {"toolchain": "Cc", "call": 'Cc("kernel.c")'}
NVCC = {"toolchain": "Nvcc", "call": 'Nvcc("kernel.cu", arch="sm_90a")'}
KERNELS = {
    "kernel.c": "int kernel(int x) { return x + 1; }\n",
    "kernel.cu": 'extern "C" __global__ void kernel(int *x) { x[threadIdx.x] += 1; }\n',
}


@pytest.mark.parametrize("toolchain", [CC, pytest.param(NVCC, marks=needs.nvcc)], ids=["Cc", "Nvcc"])
def test_a_space_of_knobs_that_nobody_reads_is_refused(project, toolchain):
    test = UNREAD_PY.format(**toolchain, space='{"BLOCK": choice([64, 128, 256])}', body="")
    made = project({**KERNELS, "test_kernel.py": test})
    output = made.pytest("--tune", "--tune-budget=20", code=1)
    assert "knob 'BLOCK' was never read" in output and "every candidate is the baseline" in output
    assert not (made.root / "acf").exists()


@pytest.mark.parametrize("read", ['acf.params.get("BLOCK", 64); ', "dict(**acf.params); ", '"BLOCK" in acf.params; '])
def test_a_knob_that_the_body_asks_for_is_read_however_it_asks(project, read):
    test = UNREAD_PY.format(**CC, space='{"BLOCK": choice([64, 128, 256])}', body=read)
    made = project({**KERNELS, "test_kernel.py": test})
    output = made.pytest("--tune", "--tune-budget=20", code=0)
    assert "BASELINE" in output and "never read" not in output


def test_one_unread_knob_among_others_is_told_and_costs_nothing(project):
    test = UNREAD_PY.format(**CC, space='["default", {"BLOCK": choice([64, 128])}]', body="")
    made = project({**KERNELS, "test_kernel.py": test})
    assert "knob 'BLOCK' was never read" in made.pytest("--tune", "--tune-budget=12", code=0)


def test_a_search_of_which_every_candidate_fails_is_no_baseline(project):
    body = 'assert acf.is_baseline, "only the baseline will do"\n    '
    test = UNREAD_PY.format(**CC, space='{"-O": choice([1, 3])}', body=body)
    made = project({**KERNELS, "kernel.c": LIBRARY_C, "test_kernel.py": test})
    output = made.pytest("--tune", "--tune-budget=4", code=1)
    assert "could be measured" in output and "only the baseline will do" in output and "nothing was written" in output
    assert not (made.root / "acf").exists()


def test_candidates_with_the_baselines_own_code_are_judged(project):
    test = UNREAD_PY.format(**CC, space='{"-fno-math-errno": choice([""])}', body="")
    made = project({**KERNELS, "test_kernel.py": test})
    made.pytest("--tune", "--tune-budget=3", code=0)
    assert tomllib.loads(made.one("acf/kernel/*.toml").read_text())["outcome"] == "baseline"
