"""What capturing costs a program, K = 3: its own time, plain, ranked and captured in turn; and what writing it takes.

    python bench/capture_cost.py [--pairs 5] [--frames 60,600]           # the program of captured_program
    python bench/capture_cost.py [--pairs 5] -- python PROGRAM …         # any other, whose output is left out

Times are of the whole process, its interpreter's start included, which is also in the plain time. ``and written`` is
``acf capture`` from its start to its end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from captured import build, copied, machine_and_load
from pytest_compileiq.capture.program import python_program, watch
from pytest_compileiq.capture.rank import ranked

KEEP = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="how often each is run (default: %(default)s)")
    parser.add_argument("--frames", default="60,600", help="of the six-kernel program (default: %(default)s)")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- python PROGRAM ...")
    asked = parser.parse_args()
    print(machine_and_load(), flush=True)
    if asked.program:
        cost(asked.program[1:], asked.pairs)
    else:
        with tempfile.TemporaryDirectory() as folder:
            root = copied(Path(folder, "program"))
            library = build(root, "-O2")
            for frames in asked.frames.split(","):
                cost([sys.executable, str(root / "program.py"), str(library), frames], asked.pairs)
    print(machine_and_load())


def cost(command: Sequence[str], pairs: int) -> None:
    plain, only_ranked, captured, written = [], [], [], []
    with tempfile.TemporaryDirectory() as folder, silent():
        for number in range(pairs):
            plain.append(seconds_of(command))
            only_ranked.append(watched(command, None)[0])
            took, calls, call_us = watched(command, KEEP)
            captured.append(took)
            acf_capture = [sys.executable, "-m", "pytest_compileiq.cli", "capture"]
            written.append(seconds_of([*acf_capture, "--to", str(Path(folder, str(number))), "--", *command]))
    usual = statistics.median(plain)
    print(f"{' '.join(Path(word).name for word in command)}: {calls} calls, {call_us:.1f} µs each; plain {usual:.2f} s")
    for what, times in (("ranked", only_ranked), ("captured", captured), ("captured and written", written)):
        ratios = [one / other for one, other in zip(times, plain, strict=True)]
        print(f"  {what:<22}{statistics.median(times):6.2f} s, {statistics.median(ratios):.2f} times", flush=True)


def watched(command: Sequence[str], sampled: int | None) -> tuple[float, int, float]:
    """Seconds, how many calls, and microseconds of one."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        account = watch(python_program(command), Path(folder), sampled)[1]
        took = time.perf_counter() - began
    functions = ranked(account)
    calls = sum(function.calls for function in functions)
    return took, calls, sum(function.own_ns for function in functions) / max(calls, 1) / 1e3


def seconds_of(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - began


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Programs write into this process's own output: to nowhere, as long as this lasts."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


if __name__ == "__main__":
    main()
