"""What a kernel gains alone, and between others: recorded calls of two libraries, by what happens between the calls.

``alone`` makes one call again and again; in the program other kernels run in between. Before each timed call,
``caches`` writes 16 MiB, ``in turn`` is what the tests of captured kernels do (``CallsInTurn.reset``), and ``others``
makes recorded calls of the other five kernels, which fills the branch predictor with other branches than this call's.

    python bench/captured_alone.py [--baseline=-O2] [--tuned="-O3 -march=native"] [--samples 200]
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from captured import BUNDLE, KERNELS, build, capture, copied, machine_and_load
from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.toolchain.replay import CallsInTurn, RecordedKernel

WRITTEN = np.zeros(16 << 20, np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baseline", default="-O2")
    parser.add_argument("--tuned", default="-O3 -march=native")
    parser.add_argument("--samples", type=int, default=200)
    asked = parser.parse_args()
    print(machine_and_load())
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder, "program"))
        arms = [build(root, asked.baseline), build(root, asked.tuned, "tuned.so")]
        capture(root, "--share", "0.9999", program=("60",))
        baseline, tuned = (loaded(Bundle(root / BUNDLE), library) for library in arms)
    print(f"{asked.baseline} over {asked.tuned}, on each shape:")
    for kernel in KERNELS:
        others = [call for name, calls in baseline.items() if name != kernel for call in calls]
        before: dict[str, Callable[[CallsInTurn], object]] = {
            "alone": lambda call: call.restore(),
            "caches": lambda call: (call.restore(), WRITTEN.fill(1)),
            "in turn": lambda call: call.reset(),
            "others": lambda call, others=others: (call.restore(), made(others)),
        }
        told = []
        for name, prepare in before.items():
            pairs = zip(baseline[kernel], tuned[kernel], strict=True)
            gains = [gain(one, other, prepare, asked.samples) for one, other in pairs]
            told.append(f"{name} {', '.join(f'{each:.2f}x' for each in gains):<16}")
        print(f"{kernel:<11}", *told, flush=True)


def loaded(bundle: Bundle, library: Path) -> dict[str, list[CallsInTurn]]:
    """Kernel → the calls of each shape."""
    functions, calls = ctypes.CDLL(str(library)), {}
    for name in bundle.names():
        kernel = bundle.read(name)
        recorded = RecordedKernel(bundle, kernel, functions[kernel.function])
        calls[name] = [recorded.call(place) for place in range(len(kernel.shapes))]
    return calls


def made(calls: Sequence[CallsInTurn]) -> None:
    for call in calls:
        call.restore()
        call()


def gain(baseline: CallsInTurn, tuned: CallsInTurn, prepare: Callable[[CallsInTurn], object], samples: int) -> float:
    """The ratio of the medians, of blocks of five calls of each arm in turn."""
    times: tuple[list[int], list[int]] = [], []
    for _ in range(samples // 5):
        for call, into in zip((baseline, tuned), times, strict=True):
            for _ in range(5):
                prepare(call)
                began = time.thread_time_ns()
                call()
                into.append(time.thread_time_ns() - began)
    return statistics.median(times[0]) / statistics.median(times[1])


if __name__ == "__main__":
    main()
