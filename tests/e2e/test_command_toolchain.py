"""A pass pipeline of LLVM's ``opt``, tuned and replayed through the plugin: any compiler is a command with places."""

from __future__ import annotations

import shutil
import tomllib

import pytest

LLVM = ("clang", "opt", "llc", "gcc")
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, LLVM)), reason="needs clang, opt, llc and gcc (Debian: the packages clang, llvm and gcc)"
)

KERNEL_C = """\
#include "shift.h"
void kernel(const float *restrict x, float *restrict y, int n) {
    for (int i = 0; i < n; i++)
        y[i] = 2.0f * x[i] + SHIFT;
}
"""
TEST_PY = """\
import ctypes

import numpy as np
import pytest

from pytest_compileiq import Command, choice, literal

PIPELINE = Command(
    [
        "clang -O1 -Xclang -disable-llvm-passes -fPIC -emit-llvm -c {source} -o {out_dir}/raw.bc",
        "opt -passes={pipeline} {options} {out_dir}/raw.bc -o {out_dir}/kernel.bc",
        "llc -O3 -relocation-model=pic -filetype=obj {out_dir}/kernel.bc -o {out_dir}/kernel.o",
        "gcc -shared {out_dir}/kernel.o -o {out}",
    ],
    sources=["kernel.c"],
    depends=["shift.h"],
    defaults={"pipeline": "default<O1>"},
    version="opt --version",
)


@pytest.fixture(scope="module")
def buffers():
    x = np.linspace(-3, 3, 8192, dtype=np.float32)
    return x, np.empty_like(x)


@pytest.mark.tune(
    PIPELINE,
    space={
        "pipeline": choice(["default<O0>", "default<O2>", "no-such-pass"]),
        "-vectorizer-min-trip-count=16": literal("", knockout_prob=0.5),
    },
)
def test_kernel(acf, buffers):
    x, y = buffers
    kernel = acf.build().load().kernel
    floats = ctypes.POINTER(ctypes.c_float)
    arguments = x.ctypes.data_as(floats), y.ctypes.data_as(floats), ctypes.c_int(len(x))
    y[:] = 0
    kernel(*arguments)
    np.testing.assert_allclose(y, 2 * x + 1, rtol=1e-5, atol=1e-6)
    acf.measure(lambda: kernel(*arguments))
"""


@pytest.fixture
def tuned_pipeline(project):
    made = project({"kernel.c": KERNEL_C, "shift.h": "#define SHIFT 1.0f\n", "test_kernel.py": TEST_PY})
    made.pytest("--tune", "--tune-budget=6", code=0)
    return made


def test_the_best_pipeline_is_stored_replayed_and_guarded(tuned_pipeline):
    made = tuned_pipeline
    metadata = tomllib.loads(made.one("acf/kernel/*.toml").read_text())
    assert metadata["outcome"] == "tuned" and "-opt" in metadata["target"]
    assert metadata["controls"]["knobs"]["pipeline"] == "default<O2>"
    assert metadata["search"]["invalid"] >= 1  # opt refuses the pass that does not exist
    assert list(metadata["code"]) == ["kernel"]
    assert sorted(metadata["fingerprint"]["sources"]) == ["kernel.c", "shift.h"]
    controls = made.one("acf/kernel/*.acf")
    assert "pipeline=default<O2>\n" in controls.read_text()
    assert "1 passed" in made.pytest("--acf-check=replay", code=0)

    made.edit("kernel.c", "    for", "    /* a remark */ for")
    output = made.pytest("--acf-check=replay", "--acf-report=report.json", code=0)
    assert "kernel.c (changed): the machine code is the same" in output + (made.root / "report.json").read_text()

    made.edit("shift.h", "1.0f", "(1.0f + 1e-6f)")
    assert "shift.h (changed): the machine code is another" in made.pytest("--acf-check=replay", code=1)

    made.edit("shift.h", "(1.0f + 1e-6f)", "1.0f")
    controls.write_text(controls.read_text().replace("default<O2>", "default<O0>"))
    assert "CORRUPT" in made.pytest("--acf-check=replay", code=1)
