"""What capturing costs a program, K = 3: its own time, plain, ranked and captured in turn; and what writing it takes.

    python bench/capture_cost.py [--pairs 5] [--frames 60,600]           # the program of captured_program
    python bench/capture_cost.py [--pairs 5] -- python PROGRAM …         # any other, whose output is left out

Times are of the whole process, its interpreter's start included, which is also in the plain time: by the clock, and of
the processor, user and system, which other work on the machine moves less. ``and written`` is ``acf capture`` from its
start to its end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from captured import build, copied, machine_and_load
from pytest_compileiq.capture.program import CallAccount, python_program, watch
from pytest_compileiq.capture.ranking import ranked

KEEP = 3
T = TypeVar("T")


class Took(NamedTuple):
    """Seconds."""

    clock: float
    processor: float


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
    taken: dict[str, list[Took]] = {"plain": [], "ranked": [], "captured": [], "captured and written": []}
    with tempfile.TemporaryDirectory() as folder, silent():
        for number in range(pairs):
            taken["plain"].append(timed(lambda: started(command))[0])
            taken["ranked"].append(timed(lambda: watched(command, None))[0])
            took, account = timed(lambda: watched(command, KEEP))
            taken["captured"].append(took)
            taken["captured and written"].append(timed(partial(capture, Path(folder, str(number)), command))[0])
    functions = ranked(account)
    calls = sum(function.calls for function in functions)
    call_us = sum(function.own_ns for function in functions) / max(calls, 1) / 1e3
    print(f"{' '.join(Path(word).name for word in command)}: {calls} calls, {call_us:.1f} µs each")
    for what, times in taken.items():
        told = [f"{what:<22}"]
        for unit in Took._fields:
            ratios = [
                getattr(one, unit) / getattr(plain, unit) for one, plain in zip(times, taken["plain"], strict=True)
            ]
            seconds = statistics.median(getattr(one, unit) for one in times)
            told.append(f"{seconds:6.2f} s by the {unit}, {statistics.median(ratios):.2f} times;")
        print(" ", *told, flush=True)


def timed(run: Callable[[], T]) -> tuple[Took, T]:
    """What a run of another process took, and gave."""
    began, children = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    given = run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - children.ru_utime + after.ru_stime - children.ru_stime
    return Took(time.perf_counter() - began, used), given


def watched(command: Sequence[str], sampled: int | None) -> CallAccount:
    with tempfile.TemporaryDirectory() as folder:
        return watch(python_program(command), Path(folder), sampled)[1]


def capture(to: Path, command: Sequence[str]) -> None:
    started([sys.executable, "-m", "pytest_compileiq.cli", "capture", "--to", str(to), "--", *command])


def started(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


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
