"""What watching Triton's JIT adds to a launch, above the driver of tests/driver, which executes nothing.

``python -m bench.triton_capture_overhead`` from the repository's root. A launch then is all that the host does for it;
on a GPU it is the same, and the kernel itself comes after it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.driver.build import build_driver, ptxas

ROOT = Path(__file__).parents[1]
LAUNCHES = 20_000
PAIRS = 12
PROGRAM = f"""
import sys, time
sys.path.insert(0, {str(ROOT / "tests/kernels/triton_kernels")!r})
from kernels import softmax

class Tensor:
    dtype, shape = "fp32", (128, 1920)
    def data_ptr(self):
        return 1 << 47 | 4096

x, out = Tensor(), Tensor()
launch = lambda: softmax[(128,)](out, x, 1920, 1920, BLOCK=2048)
for _ in range(1000):
    launch()
began = time.perf_counter_ns()
for _ in range({LAUNCHES}):
    launch()
print("ns a launch:", (time.perf_counter_ns() - began) / {LAUNCHES})
"""


def nanoseconds(before: list[str], environment: dict[str, str]) -> float:
    command = [*before, sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return float(re.findall(r"ns a launch: (\S+)", done.stdout)[0])


def main() -> None:
    with TemporaryDirectory() as folder:
        environment = {**os.environ, **build_driver(Path(folder)), "TRITON_CACHE_DIR": folder}
        environment |= {"TRITON_PTXAS_BLACKWELL_PATH": ptxas().program, "STUB_DRIVER_LOG": os.devnull}
        acf = [sys.executable, "-m", "pytest_compileiq.cli", "capture", "--rank-only", "--"]
        nanoseconds([], environment)  # compiles
        pairs = [(nanoseconds([], environment), nanoseconds(acf, environment)) for _ in range(PAIRS)]
    plain, watched = (min(each) for each in zip(*pairs, strict=True))  # what else the machine does only adds
    print(f"load {os.getloadavg()[0]:.1f}; {PAIRS} pairs of {LAUNCHES} launches of four arguments and a constexpr")
    print(f"a launch {plain / 1e3:.1f} µs, watched {watched / 1e3:.1f} µs")


if __name__ == "__main__":
    main()
