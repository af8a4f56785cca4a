"""The environment is an input: a compiler sees what is listed, what decides is recorded, and what is not is named."""

from __future__ import annotations

import shlex
import sys

import pytest

from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs

SCRIPT = """\
import os, subprocess, sys
level = os.environ.get("LEVEL", "-O2")
sys.exit(subprocess.run(["gcc", level, "-shared", "-fPIC", *sys.argv[1:]]).returncode)
"""
KERNEL_C = "int kernel(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * i; return s; }\n"
COMMAND_PY = f"""\
import pytest
from pytest_compileiq import Command, choice, minimize

@pytest.mark.tune(
    Command(
        "{shlex.quote(sys.executable)} compile.py {{options}} {{source}} -o {{out}}",
        sources="kernel.c", depends="compile.py", version="gcc --version", ENVIRONMENT
    ),
    objectives=[minimize("code_bytes")],
    space={{"-Os": choice([""])}},
)
def test_kernel(acf):
    assert acf.build().load().kernel(4) == 14
"""


@pytest.fixture
def script(project):
    return project({"kernel.c": KERNEL_C, "compile.py": SCRIPT, "test_kernel.py": COMMAND_PY})


def test_a_variable_that_the_marker_names_is_handed_on_recorded_and_told_when_it_changes(script, monkeypatch):
    script.edit("test_kernel.py", "ENVIRONMENT", 'environment="LEVEL"')
    monkeypatch.setenv("LEVEL", "-O1")
    script.pytest("--tune", "--tune-budget=2", code=0)
    assert 'LEVEL = "-O1"' in script.one("acf/kernel/*.toml").read_text()
    assert "LEVEL=-O1" in script.acf("show", "kernel")
    script.pytest(code=0)
    monkeypatch.setenv("LEVEL", "-O3")
    assert "the environment changed: LEVEL was '-O1' and is '-O3': the machine code is another" in script.pytest(code=1)
    monkeypatch.delenv("LEVEL")
    assert "LEVEL was '-O1' and is not set" in script.pytest(code=1)


def test_a_variable_that_nobody_names_reaches_no_build(script, monkeypatch):
    script.edit("test_kernel.py", "ENVIRONMENT", "")
    script.pytest("--tune", "--tune-budget=2", code=0)
    monkeypatch.setenv("LEVEL", "-O3")
    script.pytest(code=0)


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("-O3", "two builds of the baseline are equal here"),
        ("now", "differ here, so that the build is not reproducible"),
    ],
)
def test_other_code_of_equal_inputs_is_called_irreproducible_only_after_a_second_build(script, level, said):
    """What ``compile.py`` reads beside its sources, no record names."""
    script.edit("test_kernel.py", "ENVIRONMENT", "")
    script.edit(
        "compile.py", 'os.environ.get("LEVEL", "-O2")', 'open("level").read().replace("now", f"-DX={time.time_ns()}")'
    )
    script.edit("compile.py", "import os", "import time, os")
    script.edit("kernel.c", "int s = 0", "int s = X")
    (script.root / "level").write_text("-DX=0")
    script.pytest("--tune", "--tune-budget=2", code=0)
    (script.root / "level").write_text(level.replace("-O3", "-DX=9"))
    output = script.pytest(code=1)
    assert "every recorded input is the same" in output and said in output


NVCC_PY = """\
import pytest
from pytest_compileiq import Nvcc, choice, minimize

@pytest.mark.tune(Nvcc("scale.cu", arch="sm_90a"), objectives=[minimize("instructions")], space={"--use_fast_math": choice([""])})
def test_scale(acf):
    acf.build()
"""
SCALE_CU = """\
extern "C" __global__ void scale(float *x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = x[i] / 3.0f + sqrtf(x[i]);
}
"""


@needs.nvcc
def test_flags_and_pytest_name_a_variable_that_nvcc_reads(project, monkeypatch):
    made = project({"scale.cu": SCALE_CU, "test_scale.py": NVCC_PY})
    made.pytest("--tune", "--tune-budget=2", code=0)
    nvcc = next(installed("nvcc")).program
    assert f"--options-file={made.root}" in made.acf("flags", "scale", "--compiler", nvcc)
    monkeypatch.setenv("PTXAS_FLAGS", "-O0")
    assert "built without PTXAS_FLAGS, set here, which nvcc reads" in made.pytest(code=0)
    assert "proven without PTXAS_FLAGS" in made.acf("flags", "scale", "--compiler", nvcc)
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-Xptxas -O1")
    named = "NVCC_APPEND_FLAGS was not set and is '-Xptxas -O1'"
    assert f"STALE: the environment changed: {named}" in made.pytest(code=1)
    assert f"is stale: {named}" in made.acf("flags", "scale", "--compiler", nvcc, code=3)
