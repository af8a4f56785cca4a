"""What looking at the outputs costs: the time of a proof's block with outputs= over its time without.

Blocks of even and of odd processes are taken in equal numbers, with and without checks in turn; medians. Times are the
processor's, so that what else runs on the machine does not count.

    python bench/check_cost.py [--blocks 20]
"""

import argparse
import ctypes
import subprocess
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

from machine import describe
from pytest_compileiq.rules.gate import QUADS, SAMPLES
from pytest_compileiq.timing.checked import CHECKED_CALLS, CheckedArm, CheckedBlock, asked_for
from pytest_compileiq.timing.clock import CpuClock
from pytest_compileiq.timing.sampler import Timed, plan_block, sample_calls

KERNEL = """\
void kernel(const float *x, float *out, int n, int times)
{
    for (int k = 0; k < times; k++)
        for (int i = 0; i < n; i++)
            ((volatile float *)out)[i] = x[i] * 2;
}
"""
# Seconds of a call, and the size of its output: what it writes at least once.
CASES = ((3e-6, 4 << 10), (50e-6, 64 << 10), (1e-3, 1 << 20), (1e-3, 4 << 10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=20, help="of each kind (default: %(default)s)")
    asked = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        source.write_text(KERNEL, encoding="ascii")
        subprocess.run(["gcc", "-O2", "-mavx2", "-shared", "-fPIC", str(source), "-o", str(built)], check=True)
        kernel = ctypes.CDLL(str(built)).kernel
        for call_s, size in CASES:
            report(kernel, call_s, size, asked.blocks)


def report(kernel: ctypes._CFuncPtr, call_s: float, size: int, blocks: int) -> None:
    """Measure one kind of call and print its line."""
    x = np.random.default_rng(1).random(size // 4, dtype=np.float32)
    out = np.empty_like(x)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (x, out)]

    def call(times: int) -> None:
        kernel(*pointers, x.size, times)

    def seconds(times: int) -> float:
        begun = time.process_time()
        for _ in range(200):
            call(times)
        return (time.process_time() - begun) / 200

    way_s, four_s = (min(seconds(times) for _ in range(5)) for times in (0, 4))
    times = max(1, round((call_s - way_s) / (four_s - way_s) * 4))
    taken_s = seconds(times)
    with_s, without_s = [], []
    for number in range(blocks):
        without_s.append(block_s(lambda: call(times), [], number))
        with_s.append(block_s(lambda: call(times), [out], number))
    even, odd = (median(with_s[first::2]) / median(without_s) for first in (0, 1))
    per_process_s = (median(with_s[::2]) + median(with_s[1::2])) / 2 - median(without_s)
    print(
        f"call of {taken_s * 1e6:6.1f} µs, {size >> 10:5d} KiB of output: block {median(without_s) * 1e3:6.1f} ms, "
        f"with checks {(even + odd) / 2:.2f} times that (even {even:.2f}, odd {odd:.2f}): {per_process_s * 1e3:+.1f} ms"
    )


def block_s(call: object, outputs: list[np.ndarray], number: int) -> float:
    """The time of the block that a proof takes in process ``number``."""
    asked = asked_for(outputs, None, None)
    checked_calls = CHECKED_CALLS if number % 2 == 0 else 0
    plan = plan_block(Random(number), quads=QUADS, samples=SAMPLES, checked_calls=checked_calls)
    timed = {arm: Timed(arm, call, CpuClock(), lambda: None) for arm in ("baseline", "tuned")}
    begun = time.process_time()
    checked = CheckedBlock(plan, {arm: CheckedArm(own, asked) for arm, own in timed.items()})
    checked.learn()
    sample_calls(plan, timed, after_slot=checked.after_slot)
    for arm in timed:
        checked.last(arm)
    return time.process_time() - begun


if __name__ == "__main__":
    main()
