"""What a build beside a measurement does to it: none beside it, gcc on another core, gcc wherever the system puts it.

    python bench/builds_beside.py [--rounds 60] [--told FILE]

A kernel is sampled on one core, in the gate's way: slots of five samples, their median. The three conditions take turns
in random order, so that whatever else runs on the machine meets all of them. With ``--told``, a file of
``--tune-tracker=csv:FILE``, it also says what share of each search the clock ran for builds: an evaluation that begins
a batch of four waits for them, the others do not.
"""

import argparse
import contextlib
import csv
import ctypes
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from machine import describe
from pytest_compileiq.config import BATCH

KERNELS = Path(__file__).parents[1] / "tests" / "kernels"
SAMPLES, SLOTS = 5, 64
CONDITIONS = ("held", "on another core", "anywhere")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--told", type=Path, help="what a tracker was told of searches")
    asked = parser.parse_args()
    print(describe())
    for line in shares(asked.told) if asked.told else ():
        print(line)
    cores = sorted(os.sched_getaffinity(0))
    coins = random.Random(0)
    medians: dict[str, list[float]] = {condition: [] for condition in CONDITIONS}
    spreads: dict[str, list[float]] = {condition: [] for condition in CONDITIONS}
    with tempfile.TemporaryDirectory() as home:
        call, build_s = kernel(Path(home)), seconds_a_build(Path(home))
        os.sched_setaffinity(0, cores[:1])
        for _ in range(asked.rounds):
            for condition in coins.sample(CONDITIONS, len(CONDITIONS)):
                with building(Path(home), condition, cores):
                    slots = [statistics.median(seconds(call) for _ in range(SAMPLES)) for _ in range(SLOTS)]
                medians[condition].append(statistics.median(slots))
                spreads[condition].append(statistics.stdev(np.log(slots).tolist()))
    print(f"{build_s:.3f} s a build; {asked.rounds} rounds of {SLOTS} slots")
    for condition in CONDITIONS:
        slower = statistics.median(own / held for own, held in zip(medians[condition], medians["held"], strict=True))
        print(f"  {condition:<18}{slower:>8.3f}x the time, {statistics.median(spreads[condition]):.2%} between slots")


def shares(told: Path) -> Iterator[str]:
    """The share of each search that building, and the engine, took of the clock."""
    ended: dict[str, list[float]] = {}
    with told.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            ended.setdefault(row["benchmark"], [0.0]).append(float(row["seconds"]))
    for benchmark, ends in ended.items():
        took = [end - before for before, end in pairwise(ends)]
        first, others = took[::BATCH], [seconds for place, seconds in enumerate(took) if place % BATCH]
        built = sum(first) - len(first) * statistics.median(others)
        each = f"{statistics.median(others):.3f} s an evaluation beyond that"
        yield f"{benchmark:<18}{built / ends[-1]:>6.0%} of {ends[-1]:.1f} s built, {each}"


@contextlib.contextmanager
def building(home: Path, condition: str, cores: list[int]) -> Iterator[None]:
    """gcc again and again, where the condition says."""
    if condition == "held":
        yield
        return
    places = cores[1:] if condition == "on another core" else cores
    loop = f"while true; do gcc -O3 -c {KERNELS / 'matmul.c'} -o {home / 'beside.o'}; done"
    beside = [subprocess.Popen(["sh", "-c", loop], start_new_session=True) for _ in range(len(places))]
    for process in beside:  # its compilers inherit it
        os.sched_setaffinity(process.pid, places)
    time.sleep(0.1)
    try:
        yield
    finally:
        for process in beside:
            os.killpg(process.pid, 9)
            process.wait()


def kernel(home: Path) -> Callable[[], object]:
    library = home / "histogram.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", KERNELS / "histogram.c", "-o", library, "-lm"], check=True)
    values, counts = np.random.default_rng(0).normal(size=300_000).astype(np.float32), np.zeros(64, np.int32)
    function, pointers = (
        ctypes.CDLL(str(library)).histogram,
        [each.ctypes.data_as(ctypes.c_void_p) for each in (values, counts)],
    )
    return lambda: function(pointers[0], 300_000, ctypes.c_float(-3), ctypes.c_float(3), pointers[1])


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def seconds_a_build(home: Path) -> float:
    command = ["gcc", "-O3", "-c", KERNELS / "matmul.c", "-o", home / "once.o"]
    return statistics.median(seconds(lambda: subprocess.run(command, check=True)) for _ in range(9))


if __name__ == "__main__":
    main()
