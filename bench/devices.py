"""How many more evaluations an hour several devices make than one, where each waits for its kernel.

    python bench/devices.py [--devices 1 8] [--benchmarks 16] [--evaluations 24] [--wait 1.0] [--total]

The devices are simulated: a node of a Ray cluster on this machine is told that it has so many GPUs, so that each gets
an actor of its own, and a body waits where a kernel would run. All else is real: Ray, the workers, gcc, the engine.
Rates are taken between the first body and the last one; with ``--total`` the benchmarks share one night's budget.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from local_cluster import TOKEN, local_cluster
from machine import describe

KERNEL = Path(__file__).parents[1] / "tests" / "kernels" / "wire.c"
TEST = """\
import time
from pathlib import Path
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("wire.c", flags="-O2"), objectives=[minimize("code_bytes")])
def test_k{number}(acf):
    acf.build()
    if not acf.is_baseline:
        time.sleep({wait})
        with Path("bodies").open("a") as stream:
            stream.write(f"{{time.time()}}\\n")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--benchmarks", type=int, default=16)
    parser.add_argument("--evaluations", type=int, default=24, help="of each benchmark")
    parser.add_argument("--wait", type=float, default=1.0, help="seconds of one body")
    parser.add_argument("--total", action="store_true", help="one night's budget for all")
    asked = parser.parse_args()
    print(describe())
    rates = {}
    for devices in asked.devices:
        rates[devices] = rate_with(devices, asked)
        print(f"{devices} device(s): {rates[devices] * 3600:.0f} evaluations an hour", flush=True)
    for fewer, more in itertools.pairwise(rates):
        print(f"{fewer} → {more} devices: {rates[more] / rates[fewer]:.2f} times as many")


def rate_with(devices: int, asked: argparse.Namespace) -> float:
    """Evaluations a second with so many devices."""
    budget = asked.evaluations * (asked.benchmarks if asked.total else 1)
    with tempfile.TemporaryDirectory() as home, local_cluster([{"num_gpus": devices}]) as address:
        project = Path(home) / "p"
        project.mkdir()
        (project / "pytest.ini").touch()
        (project / "wire.c").write_bytes(KERNEL.read_bytes())
        for number in range(asked.benchmarks):
            (project / f"test_{number}.py").write_text(TEST.format(number=number, wait=asked.wait))
        begun = time.time()
        words = [f"--tune-on={address}", f"--tune-{'total' if asked.total else 'budget'}={budget}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--tune", *words], cwd=project, env={**os.environ, **TOKEN},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(done.stdout[-3000:] + done.stderr[-1000:])
        ends = sorted(map(float, (project / "bodies").read_text().split()))
    seconds = ends[-1] - (ends[0] - asked.wait)
    print(f"{devices} device(s): {len(ends)} bodies in {seconds:.1f} s, {time.time() - begun:.1f} s in all")
    return len(ends) / seconds


if __name__ == "__main__":
    main()
