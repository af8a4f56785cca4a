"""The gate on a real kernel: how often equal arms are called faster, and how often a true gain is found.

Two builds of one stencil, the tuned one with a known share of its rows left out, are sampled by the package's own
sampler in separate processes and judged by its own gate through three looks. Both arms work on the same buffers.

    python bench/gate.py [--equal 250] [--faster 50]
"""

import argparse
import ctypes
import multiprocessing
import subprocess
import tempfile
import time
from pathlib import Path
from random import Random

import numpy as np
from machine import describe

from pytest_compileiq.model import SampleRow, Thresholds
from pytest_compileiq.rules.gate import LOOKS, QUADS, SAMPLES, Verdict, gather, judge_gain
from pytest_compileiq.timing.cpu import CpuClock
from pytest_compileiq.timing.sampler import plan_block, sample_calls

SOURCE = """
void stencil(const float *restrict in, float *restrict out, int rows, int columns) {
    for (int r = 1; r < rows - 1; r++)
        for (int c = 1; c < columns - 1; c++)
            out[r * columns + c] = 0.25f * (in[r * columns + c - 1] + in[r * columns + c + 1]
                + in[(r - 1) * columns + c] + in[(r + 1) * columns + c]);
}
"""
ROWS, COLUMNS = 402, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equal", type=int, default=250, help="trials of equal arms (default: %(default)s)")
    parser.add_argument("--faster", type=int, default=50, help="trials of each true gain (default: %(default)s)")
    options = parser.parse_args()
    print(describe())
    print("true gain  trials  proven  seconds of measuring a verdict")
    with tempfile.TemporaryDirectory() as home:
        libraries = [build(Path(home), name) for name in ("baseline", "tuned")]
        for gain, trials in (
            (0.0, options.equal),
            (0.01, options.faster),
            (0.02, options.faster),
            (0.05, options.faster),
        ):
            proven, seconds = 0, []
            for trial in range(trials):
                start = time.perf_counter()
                proven += judge(libraries, gain, trial)
                seconds.append(time.perf_counter() - start)
            print(f"{gain:9.0%}  {trials:6}  {proven:6}  {np.median(seconds):.2f}", flush=True)


def build(home: Path, name: str) -> Path:
    path = home / f"{name}.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-xc", "-", "-o", path], input=SOURCE, text=True, check=True)
    return path


def judge(libraries: list[Path], gain: float, seed: int) -> bool:
    """One gate: fresh processes, look by look."""
    rows: list[SampleRow] = []
    level = Thresholds().alpha / len(LOOKS)
    done = 0
    for processes in LOOKS:
        for process in range(done, processes):
            rows += in_a_fresh_process(libraries, gain, process, seed)
        done = processes
        if judge_gain(gather(rows, "minimize"), Thresholds(), level=level, seed=seed).verdict is Verdict.PROVEN:
            return True
    return False


def in_a_fresh_process(libraries: list[Path], gain: float, process: int, seed: int) -> list[SampleRow]:
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=send_block, args=(there, libraries, gain, process, seed))
    child.start()
    rows = here.recv()
    child.join()
    return rows


def send_block(pipe, libraries: list[Path], gain: float, process: int, seed: int) -> None:
    image, out = (
        np.random.default_rng(1).random((ROWS, COLUMNS), dtype=np.float32),
        np.empty((ROWS, COLUMNS), np.float32),
    )
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (image, out)]
    less = round((ROWS - 2) * (1 - 1 / (1 + gain)))
    baseline, tuned = (ctypes.CDLL(str(path)).stencil for path in libraries)
    calls = {
        "baseline": lambda: baseline(*pointers, ROWS, COLUMNS),
        "tuned": lambda: tuned(*pointers, ROWS - less, COLUMNS),
    }
    plan = plan_block(Random(f"{seed}/{process}"), quads=QUADS, samples=SAMPLES)
    slots = sample_calls(plan, calls, CpuClock(), lambda: None)
    pipe.send([
        SampleRow("cpu", "w", "runtime", process, slot.quad, slot.slot, slot.arm, sample, value)
        for slot in slots
        for sample, value in enumerate(slot.values)
    ])  # fmt: skip


if __name__ == "__main__":
    main()
