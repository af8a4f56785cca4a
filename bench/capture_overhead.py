"""What watching costs a program whose calls take about 20 µs: its own time, plain and watched in turn.

``python bench/capture_overhead.py [CALLS [PAIRS]]`` prints the added share, and what a call was told to cost.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pytest_compileiq.capture.program import python_program, watch

KERNEL_C = """
void scale(const double *x, double *y, double a, long n) {
    for (long i = 0; i < n; i++) y[i] = a * x[i] / (1 + x[i]);
}
"""
PROGRAM_PY = """
import ctypes, sys, time
import numpy as np
from numpy.ctypeslib import ndpointer
kernel = ctypes.CDLL(sys.argv[1]).scale
kernel.argtypes = [ndpointer(np.float64), ndpointer(np.float64), ctypes.c_double, ctypes.c_long]
x, y, count = np.ones(14000), np.empty(14000), int(sys.argv[2])
for each in range(count): kernel(x, y, 2.0, 14000)
began = time.process_time()
for each in range(count): kernel(x, y, 2.0, 14000)
open(sys.argv[3], "w").write(str((time.process_time() - began) / count * 1e6))
"""


def main(calls: int, pairs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, library, program, taken = (Path(folder, name) for name in ("k.c", "k.so", "program.py", "taken"))
        source.write_text(KERNEL_C)
        program.write_text(PROGRAM_PY)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        command = [sys.executable, str(program), str(library), str(calls), str(taken)]
        plain, watched, told = [], [], []
        for _ in range(pairs):
            subprocess.run(command, check=True)
            plain.append(float(taken.read_text()))
            account = watch(python_program(command), Path(tempfile.mkdtemp(dir=folder)))[1]
            watched.append(float(taken.read_text()))
            told.append(account.watching_ns / sum(each.calls for each in account.calls) / 1e3)
    added = statistics.median(b - a for a, b in zip(plain, watched, strict=True))
    usual = statistics.median(plain)
    print(f"a call takes {usual:.1f} µs; watched {added:.2f} µs more, {added / usual:.1%}")
    print(f"told: {statistics.median(told):.2f} µs a call")


if __name__ == "__main__":
    main(*map(int, (sys.argv[1:] + ["20000", "9"][len(sys.argv) - 1 :])))
