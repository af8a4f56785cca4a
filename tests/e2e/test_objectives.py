"""What a test may hand over besides a callable: its own times, other metrics, builds, programs, outputs, clang's code."""

from __future__ import annotations

import json
import shutil
import tomllib

import pytest

from tests.projects import Project, naming

SQUARES_C = """\
unsigned squares(const unsigned *x, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}
"""
PROGRAM_C = """\
#include <stdio.h>
#include <time.h>
#include "squares.c"
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
int main(void) {
    static unsigned x[8192];
    unsigned sum = 0;
    for (unsigned i = 0; i < 8192; i++)
        x[i] = i;
    double start = now();
    for (int k = 0; k < 20; k++) {
        x[0] = (unsigned)k;
        sum += squares(x, 8192);
    }
    printf("%u %.9f\\n", sum, now() - start);
    return 0;
}
"""
# Loops of which -O3 makes more work than -O0: about as much as the compiler's start, in each of 256 compilations.
UNIT_C = "\n".join(
    f"float f{k}(const float *x, int n) {{ float s = {k}; for (int i = 0; i < n; i++) s += x[i] * s; return s; }}"
    for k in range(2)
)
OBJECTIVES_PY = """\
import ctypes
import subprocess
import time

import numpy as np
import pytest

from pytest_compileiq import Cc, Command, choice, literal, maximize, minimize

LENGTH = 8192
SQUARES = sum(i * i for i in range(LENGTH)) % 2**32
PROGRAM = sum(k * k + SQUARES for k in range(20)) % 2**32  # its first element, 0, is k


@pytest.fixture(scope="module")
def x():
    return np.arange(LENGTH, dtype=np.uint32)


@pytest.mark.tune(
    Cc("squares.c", flags="-O0"),
    space={"-O3": literal("", knockout_prob=0.5)},
    objectives=[maximize("throughput")],
)
def test_throughput(acf, x):
    squares = acf.build().load().squares
    squares.restype = ctypes.c_uint32
    arguments = x.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(LENGTH)
    assert squares(*arguments) == SQUARES
    start = time.perf_counter()
    total = squares(*arguments)
    seconds = time.perf_counter() - start
    acf.compare("total", [total])
    acf.record(throughput=LENGTH / seconds, temperature=37)


@pytest.mark.tune(
    Cc("squares.c", flags="-O0"),
    space={"-O3": literal("", knockout_prob=0.5)},
    objectives=[minimize("runtime", at="p95")],
)
def test_tail(acf, x):
    squares = acf.build().load().squares
    arguments = x.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(LENGTH)
    acf.measure(lambda: squares(*arguments))


@pytest.mark.tune(Cc("program.c", flags="-O0", output="executable"), space={"-O": choice([2, 3])})
def test_program(acf):
    done = subprocess.run([acf.build().load()], capture_output=True, text=True, check=True)
    total, seconds = done.stdout.split()
    assert int(total) == PROGRAM
    acf.record(runtime=float(seconds))


@pytest.mark.tune(
    Command("gcc -O3 -funroll-loops {options} -S {source} -o {out}", sources=["unit.c"], output="file"),
    space={"-O0": literal("", knockout_prob=0.5), "-fomit-frame-pointer": literal("", knockout_prob=0.5)},
    objectives=[minimize("compile_time")],
)
def test_compile(acf):
    acf.build()
"""
SIZE_PY = """\
import pytest
from pytest_compileiq import Cc, choice, minimize


@pytest.mark.tune(
    Cc("squares.c", flags="-O3", compiler="clang"), space={"-O": choice([1, 2, "s"])}, objectives=[minimize("code_bytes")]
)
def test_size(acf):
    assert acf.build().load().squares(None, 0) == 0
"""
# Fast maths adds the two weights first: less code, and the same bits for powers of two, but not for every input.
BLEND_C = """\
float blend(const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * 0.3f + x[i] * 0.4f;
    return sum;
}
"""
COMPARE_PY = """\
import ctypes

import numpy as np
import pytest

from pytest_compileiq import Cc, literal, minimize


@pytest.mark.tune(
    Cc("blend.c", flags="-O1"),
    space={"-ffast-math": literal("", knockout_prob=0.5)},
    objectives=[minimize("code_bytes")],
)
def test_blend(acf):
    x = np.loadtxt("x.txt", dtype=np.float32)
    blend = acf.build().load().blend
    blend.restype = ctypes.c_float
    total = np.float32(blend(x.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(x.size)))
    acf.compare("total", total)
"""
SAME_BITS = "1 2 4 8\n"
OTHER_BITS = " ".join(f"{0.1 + 1 / (k + 3):.7f}" for k in range(64)) + "\n"
FILES = {"squares.c": SQUARES_C, "program.c": PROGRAM_C, "unit.c": UNIT_C, "test_all.py": OBJECTIVES_PY}


def claim_of(made: Project, name: str) -> dict:
    metadata = tomllib.loads(made.one(f"acf/{name}/*.toml").read_text())
    assert metadata["outcome"] == "tuned", metadata
    (claim,) = metadata["claims"]
    return claim


def replayed(made: Project, code: int = 0) -> dict:
    """The only item of the JSON report of a normal run."""
    made.pytest("--acf-report=report.json", code=code)
    (item,) = json.loads((made.root / "report.json").read_text())["items"]
    return item


@pytest.mark.slow
def test_what_a_test_hands_over_is_tuned_proven_and_replayed(project):
    """One search for three tests, so that the processes of the proof are shared."""
    made = project(FILES)
    # Others build beside this, and a candidate whose first quad they disturb is rejected: two halve a compilation's time.
    made.pytest("--tune", "--tune-budget=4", code=0)
    falls = {}
    objectives = {"program": "runtime", "throughput": "throughput", "compile": "compile_time", "tail": "runtime@p95"}
    for name, objective in objectives.items():
        claim = claim_of(made, name)
        assert (claim["objective"], claim["kind"]) == (objective, "gain")
        assert claim["speedup_low"] > 1.005
        assert f",default,{objective},0," in (made.root / "acf" / name / claim["samples"]).read_text()
        falls[name] = claim["tuned"]["p50"] < claim["baseline"]["p50"]
    assert falls == {"program": True, "throughput": False, "compile": True, "tail": True}
    tail = claim_of(made, "tail")
    rows = (made.root / "acf" / "tail" / tail["samples"]).read_text().splitlines()[1:]
    assert len(rows) == (tail["test"]["processes"] + tail["test"]["second"]) * 4 * 4 * 20

    made.pytest("--acf-check=replay", "--acf-report=report.json", code=0)
    items = json.loads((made.root / "report.json").read_text())["items"]
    assert {item["name"]: item["verdict"] for item in items} == dict.fromkeys(falls, "REPLAYED")


# Built alone it takes a second, or a half with -fast; what is built together shares nearly all of its work.
TOGETHER_PY = """\
import random
from dataclasses import replace
import pytest
from pytest_compileiq import literal, minimize
from pytest_compileiq.testing import FakeBuilder, FakeToolchain

class Together(FakeBuilder):
    def build(self, controls, out_dir, *, timeout_s):
        seconds = (0.5 if controls and controls.data else 1.0) * random.uniform(0.99, 1.01)
        return replace(super().build(controls, out_dir, timeout_s=timeout_s), seconds=seconds)

    def build_together(self, controls, out_dir, *, timeout_s):
        seconds = 0.01 if controls else 1.0
        return replace(self.build(controls, out_dir, timeout_s=timeout_s), seconds=seconds)

@pytest.mark.tune(
    FakeToolchain(Together()), space={"-fast": literal("", knockout_prob=0.5)}, objectives=[minimize("compile_time")]
)
def test_compile(acf):
    acf.build()
"""


@pytest.mark.slow
def test_a_compile_time_is_that_of_a_build_by_itself(project):
    made = project({"test_compile.py": TOGETHER_PY})
    made.pytest("--tune", "--tune-budget=2", code=0)
    assert claim_of(made, "compile")["speedup"] == pytest.approx(2, rel=0.05)


@pytest.mark.slow
def test_a_budget_of_time_ends_the_search_and_proves_its_winner(project):
    endless = SIZE_PY.replace(', compiler="clang"', "").replace('"-O"', '"-falign-loops=": range(1, 1000), "-O"')
    made = project(
        {"squares.c": SQUARES_C, "test_size.py": endless.replace("choice, minimize", "choice, minimize, range")}
    )
    made.pytest("--tune", "--tune-budget=2s", code=0)
    claim = claim_of(made, "size")
    assert claim["tuned_value"] < claim["baseline_value"]
    search = tomllib.loads(made.one("acf/size/*.toml").read_text())["search"]
    assert 1 < search["evaluations"] < 3000 and search["seconds"] >= 2
    assert replayed(made)["verdict"] == "PROVEN"


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
def test_clang_is_tuned_and_replayed_like_gcc(project):
    made = project({"squares.c": SQUARES_C, "test_size.py": SIZE_PY})
    made.pytest("--tune", "--tune-budget=3", code=0)
    claim = claim_of(made, "size")
    assert "-clang" in made.one("acf/size/*.toml").name and claim["kind"] == "exact"
    assert claim["tuned_value"] < claim["baseline_value"]
    assert replayed(made)["verdict"] == "PROVEN"


# ── acf.compare: the tuned arm's output against the baseline's ────────────────────────────────────────────────────


def blend_project(project, x: str, test_py: str = COMPARE_PY) -> Project:
    return project(naming("-ffast-math") | {"blend.c": BLEND_C, "x.txt": x, "test_blend.py": test_py})


def correctness(item: dict) -> str:
    (detail,) = (check["detail"] for check in item["checks"] if check["name"] == "correctness")
    return detail


def test_a_candidate_that_changes_one_bit_of_the_output_is_invalid(project):
    made = blend_project(project, OTHER_BITS)
    output = made.pytest("--tune", "--tune-budget=2", code=0)
    assert "1 invalid (wrong): output 'total': 1 of 1 values differ from the baseline's (bit for bit)" in output
    assert tomllib.loads(made.one("acf/blend/*.toml").read_text())["outcome"] == "baseline"


def test_committed_controls_that_change_the_output_are_wrong(project):
    made = blend_project(project, SAME_BITS)
    made.pytest("--tune", "--tune-budget=2", code=0)
    assert claim_of(made, "blend")["kind"] == "exact"
    assert correctness(replayed(made)) == "total compared bit for bit"
    (made.root / "x.txt").write_text(OTHER_BITS)
    item = replayed(made, code=1)
    assert item["verdict"] == "WRONG" and item["failed"]
    assert "output 'total': 1 of 1 values differ from the baseline's (bit for bit)" in item["message"]


def test_a_tolerance_lets_the_last_bits_differ_and_the_report_says_so(project):
    made = blend_project(project, OTHER_BITS, COMPARE_PY.replace('"total", total', '"total", total, rtol=1e-5'))
    made.pytest("--tune", "--tune-budget=2", code=0)
    claim_of(made, "blend")
    item = replayed(made)
    assert item["verdict"] == "PROVEN"
    assert correctness(item) == "total compared rtol=1e-05, atol=0"
