"""How often first calls refuse an honest gain, and how surely a kernel that remembers.

python bench/first_calls.py [--trials 10] [--drawn] [--only vector …]

The first calls are those of fresh copies of a build, whose body has one input, or with --drawn those on new draws.
"""

import argparse
import ctypes
import multiprocessing
import tempfile
from pathlib import Path

import numpy as np

from machine import describe
from pytest_compileiq import Cc
from pytest_compileiq.benchmark.body import Bodies
from pytest_compileiq.benchmark.first_calls import time_first_calls, time_first_calls_of_copies
from pytest_compileiq.model import Candidate
from pytest_compileiq.rules.calls import is_decided, why_never_new, why_remembered
from pytest_compileiq.testing.fakes import fake_benchmark
from pytest_compileiq.toolchains.base import Place
from slot_starts import HONEST

KERNELS = Path(__file__).parent / "slot_start_kernels"
SIZES = 600, 1000, 2000, 20_000, 100_000
REMEMBERS = {**dict.fromkeys(("input", "hashed", "pointer", "heap", "half"), SIZES), "plan": SIZES[:4]}
FILLS = {"table": (1000, 10_000, 100_000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10, help="of each pair (default: %(default)s)")
    parser.add_argument("--drawn", action="store_true", help="first calls on new draws")
    parser.add_argument("--only", nargs="*", default=[*REMEMBERS, *FILLS, *HONEST], help="these pairs")
    asked = parser.parse_args()
    print(describe())
    for source, kernels in (("memos.c", REMEMBERS), ("memos.c", FILLS), ("pairs.c", HONEST)):
        for name, sizes in kernels.items():
            for size in sizes if name in asked.only else ():
                with multiprocessing.Pool(1, maxtasksperchild=1) as alone:  # as a worker: a process of its own
                    pair = source, name, size, asked.drawn
                    said = [alone.apply(trial, (*pair, number)) for number in range(asked.trials)]
                refused, rounds, calls = (list(each) for each in zip(*said, strict=True))
                baseline_us, tuned_us = np.median(calls, axis=0) * 1e6
                print(
                    f"{name:9} n = {size:7}, {baseline_us:.1f} and {tuned_us:.1f} µs: "
                    f"refused {sum(refused)} of {asked.trials}, {np.mean(rounds):.1f} first calls",
                    flush=True,
                )


def trial(source: str, name: str, size: int, drawn: bool, number: int) -> tuple[bool, int, tuple[float, float]]:
    """What one worker says of a pair: whether it is refused, after how many first calls, and calls in a row."""
    with tempfile.TemporaryDirectory() as folder:
        (root := Path(folder), (root / "kernel.c").write_bytes((KERNELS / source).read_bytes()))
        builder = Cc("kernel.c", flags="-O2 -pthread -lm").resolve(Place(root, root))
        benchmark = fake_benchmark(root, builder)
        benchmark.builds.directory.mkdir()
        arms = {"baseline": None, "tuned": builder.render(Candidate({"-fipa-sra": ""}))}  # which -O2 implies
        one = np.random.default_rng(number).random(size)

        def body(acf):
            library = acf.build().load()
            x = (acf.rng.random(size) if drawn else one) * (8 if name == "histogram" else 1)
            aligned = np.ones(8 + (1 if name == "dot" else 256 if name == "histogram" else size))
            out = aligned[-aligned.ctypes.data % 64 // 8 :][: aligned.size - 8]
            pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (x, out))
            kernel, arguments = library[f"{name}_{'a' if acf.is_baseline else 'b'}"], (*pointers, ctypes.c_long(size))
            acf.measure(lambda: kernel(*arguments), outputs=[out])

        taken = []
        while not is_decided(taken, drawn=drawn):
            bodies = Bodies(benchmark, body, arms, benchmark.spec.workloads[0])
            call = time_first_calls if drawn else time_first_calls_of_copies
            taken.append(call(bodies, 1000 * number + len(taken)))
        later = ([calls.baseline.warm_s for calls in taken], [calls.tuned.warm_s for calls in taken])
        reason = (why_remembered if drawn else why_never_new)(taken)
        return reason is not None, len(taken), (float(np.median(later[0])), float(np.median(later[1])))


if __name__ == "__main__":
    main()
