"""Forty artifacts gated in one run: how long it takes against the measuring alone, start-up and builds being shared.

    python bench/forty.py [--artifacts 40]

Tunes that many kernels once, then replays them all with the gate. Measuring is the time in the gate's blocks.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe

KERNEL = """\
unsigned squares(const unsigned *x, int n) {
    unsigned sum = STEP;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}
"""
TEST = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, choice

X = np.arange(1 << 16, dtype=np.uint32)
"""
ONE = """
@pytest.mark.tune(Cc("k.c", flags="-O0 -DSTEP={number}"), space={{"-O": choice([2, 3])}})
def test_{number}(acf):
    squares = acf.build().load().squares
    arguments = X.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(X.size)
    squares.restype = ctypes.c_uint32
    acf.measure(lambda: squares(*arguments))
    assert squares(*arguments) == ({number} + int((X * X).sum(dtype=np.uint32))) % 2**32
"""
# Timed where the controller waits for a block: the bodies of both arms, warm-up and samples.
CONFTEST = """
import time
from pytest_compileiq.workers.pool import Pool

spent, original = [], Pool.block

def block(*arguments):
    start = time.perf_counter()
    try:
        return original(*arguments)
    finally:
        spent.append(time.perf_counter() - start)

Pool.block = block

def pytest_unconfigure(config):
    if spent:
        print(f"measuring {sum(spent):.3f} s in {len(spent)} blocks")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", type=int, default=40)
    artifacts = parser.parse_args().artifacts
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "k.c").write_text(KERNEL)
        (home / "pytest.ini").write_text("[pytest]\n")
        (home / "test_k.py").write_text(TEST + "".join(ONE.format(number=number) for number in range(artifacts)))
        run(home, "--tune", "--tune-budget=2")
        (home / "conftest.py").write_text(CONFTEST)
        for _ in range(3):
            start = time.perf_counter()
            printed = run(home)
            wall_s = time.perf_counter() - start
            (measuring, blocks) = re.findall(r"measuring ([\d.]+) s in (\d+) blocks", printed)[0]
            proven = re.search(r"\d+ proven", printed)
            print(f"{proven[0] if proven else 'none proven'}: {wall_s:.1f} s, {float(measuring):.1f} s of it measuring "
                  f"in {blocks} blocks: {wall_s / float(measuring):.2f} times", flush=True)  # fmt: skip


def run(home: Path, *arguments: str) -> str:
    """What pytest prints; a failure ends the bench with it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *arguments]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


if __name__ == "__main__":
    main()
