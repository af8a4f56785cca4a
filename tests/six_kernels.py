"""A numpy program that spends its time in six C kernels: gather, ragged, branchy, stencil, reduction, histogram."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.files import write_files

KERNELS_C = """\
#include <stdint.h>

void gather(const double *table, const int64_t *index, double *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = table[index[i]];
}

void ragged(const double *values, const int64_t *ends, double *sums, int64_t rows) {
    for (int64_t row = 0, i = 0; row < rows; row++) {
        double sum = 0;
        for (; i < ends[row]; i++) sum += values[i];
        sums[row] = sum;
    }
}

void branchy(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (x[i] > 0.5) x[i] = 1 / x[i];
        else x[i] = x[i] * x[i];
}

void stencil(const double *in, double *out, int64_t n) {
    for (int64_t i = 1; i + 1 < n; i++) out[i] = (in[i - 1] + 2 * in[i] + in[i + 1]) / 4;
}

double reduction(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

void histogram(const uint8_t *x, int32_t *counts, int64_t n) {
    for (int64_t i = 0; i < n; i++) counts[x[i]]++;
}
"""

PROGRAM_PY = """\
import ctypes
import sys
from pathlib import Path

import numpy as np
from numpy.ctypeslib import load_library, ndpointer

kernels = load_library("kernels", Path(__file__).parent)
N = ctypes.c_int64
F64, I64 = ndpointer(np.float64, flags="C"), ndpointer(np.int64, flags="C")
kernels.gather.argtypes = [F64, I64, F64, N]
kernels.ragged.argtypes = [F64, I64, F64, N]
kernels.branchy.argtypes = [F64, N]
kernels.stencil.argtypes = [F64, F64, N]
kernels.reduction.argtypes, kernels.reduction.restype = [F64, N], ctypes.c_double
kernels.histogram.argtypes = [ndpointer(np.uint8), ndpointer(np.int32), N]
for name in ("gather", "ragged", "branchy", "stencil", "histogram"):
    getattr(kernels, name).restype = None

random = np.random.default_rng(7)
table = random.random(4000)
total = 0.0
for step in range(int(sys.argv[1])):
    n = 1000 if step % 4 else 3000
    out = np.empty(n)
    kernels.gather(table, random.integers(0, len(table), n), out, n)
    kernels.branchy(out, n)
    smooth = out.copy()
    kernels.stencil(out, smooth, n)
    ends = np.sort(random.integers(0, n, 50))
    sums = np.empty(50)
    kernels.ragged(smooth, ends, sums, 50)
    counts = np.zeros(256, np.int32)
    kernels.histogram((smooth * 100).astype(np.uint8), counts, n)
    total += kernels.reduction(smooth, n) + sums.sum() + counts @ np.arange(256)
print("total", total)
"""


def write_program(root: Path) -> Path:
    """The program and its library in ``root``, compiled once a run of the tests for each process; returns ``root``."""
    write_files(root, {"kernels.c": KERNELS_C, "program.py": PROGRAM_PY})
    compiler = shutil.which("gcc")
    assert compiler
    subprocess.run([compiler, "-O2", "-g", "-shared", "-fPIC", "kernels.c", "-o", "kernels.so"], cwd=root, check=True)
    return root
