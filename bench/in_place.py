"""How often two builds of one program's kernels that are the same are told apart in the program, and two that are not.

    python bench/in_place.py [--runs 40] [--frames 60]

The six kernels of ``captured_program``, made by two arms in turn as ``acf capture --validate`` has them made: first two
equal ones (-O2 twice), then -O2 and -O3 -march=native. Of equal ones, the interval of 99 % should hold 1 in 99 of 100
and none should show half of a claimed gain; of unequal ones, the intervals of all runs should overlap.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from captured import BUNDLE, LIBRARY, build, capture, copied, machine_and_load
from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.in_place import Gain, gain_of
from pytest_compileiq.capture.program import python_program, watch
from pytest_compileiq.capture.routed_runs import TunedKernel, routing

ARMS = {"equal": ("-O2", "-O2"), "other": ("-O2", "-O3 -march=native")}
CLAIMED = (1.02, 1.05, 1.1)

Gains = dict[tuple[str, int], list[Gain]]  # kernel and shape → one a run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="of the program, for each pair of arms")
    parser.add_argument("--frames", type=int, default=60, help="of the program")
    asked = parser.parse_args()
    print(machine_and_load(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder, "program"))
        build(root, "-O2")
        capture(root, program=("6",))
        gains = {name: measured(root, name, flags, asked.runs, asked.frames) for name, flags in ARMS.items()}
    tell_equal(gains["equal"])
    tell_other(gains["other"])
    print(machine_and_load())


def measured(root: Path, name: str, flags: tuple[str, str], runs: int, frames: int) -> Gains:
    arms = tuple(build(root, flag, f"{name}-{arm}.so") for arm, flag in enumerate(flags))
    bundle = Bundle(root / BUNDLE)
    kernels = [
        TunedKernel(each, "", "", bundle.read(each), (arms[0], arms[1]), shape_of={}, required={})
        for each in bundle.names()
    ]
    program = python_program([sys.executable, str(root / "program.py"), str(root / LIBRARY), str(frames)])
    gains: Gains = {}
    for run in range(runs):
        account = root / f"{name}-{run}"
        account.mkdir()
        _, watched = watch(program, account, arms=routing(kernels, lambda _: None), output=account / "output")
        for kernel, routed in zip(kernels, watched.routed, strict=True):
            for number, series in enumerate(routed.series[:-1]):
                if gain := gain_of(series.pairs):
                    gains.setdefault((kernel.name, number), []).append(gain)
    return gains


def tell_equal(gains: Gains) -> None:
    every = [gain for each in gains.values() for gain in each]
    holding = sum(gain.low <= 1 <= gain.high for gain in every)
    width = statistics.median(gain.high / gain.low - 1 for gain in every) / 2
    print(f"equal arms: {holding} of {len(every)} intervals hold 1; median half-width {width:.2%}")
    for claimed in CLAIMED:
        seen = sum(gain.low >= claimed**0.5 for gain in every)
        refuted = sum(gain.high < claimed**0.5 for gain in every)
        print(f"  a gain of {claimed}: confirmed in {seen}, contradicted in {refuted} of {len(every)}")


def tell_other(gains: Gains) -> None:
    for (name, shape), each in gains.items():
        middle = statistics.median(gain.speedup for gain in each)
        apart = sum(not gain.low <= middle <= gain.high for gain in each)
        half = middle**0.5
        contradicted = sum(gain.high < half for gain in each) if middle > 1 else 0
        lost = "" if middle <= 1.01 else f"; half of it contradicted in {contradicted}"
        print(f"{name} shape {shape}: {middle:.3f}x; {apart} of {len(each)} intervals leave it out{lost}")


if __name__ == "__main__":
    main()
