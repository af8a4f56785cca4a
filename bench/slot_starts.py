"""How often single calls refuse an honest gain, how surely a kernel that skips its work, and what they cost.

Each pair of kernels is sampled as a proof samples it, in processes of its own. Proofs are drawn from these processes
without putting back; a pair whose gain is below 10 % is left alone by the rule, and said so.

    python bench/slot_starts.py [--processes 48] [--proofs 200] [--only vector …]
"""

import argparse
import ctypes
import os
import pickle
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from machine import describe
from pytest_compileiq.rules.evidence import Evidence, gather
from pytest_compileiq.rules.gate import QUADS, SAMPLES
from pytest_compileiq.rules.slot_starts import why_not_the_work
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.timing.checked import CHECKED_CALLS, CheckedArm, CheckedBlock, CheckFailed, asked_for
from pytest_compileiq.timing.clock import CpuClock
from pytest_compileiq.timing.sampler import ArmError, Slot, Timed, plan_block, sample_calls

SOURCE = Path(__file__).parent / "slot_start_kernels" / "pairs.c"
LOOKS = 8, 16
# Of doubles, by kernel: for calls of about 2, 12, 40 and 200 µs of the baseline.
DISHONEST: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("points", "one", "count", "both", "whole", "blocks", "half", "few", "mixed"), (600, 4000, 60_000)),
    "clock20": (600, 4000, 60_000), "clock5": (600, 4000, 60_000), "tenth": (4000, 12_000, 60_000),
}  # fmt: skip
HONEST: Mapping[str, tuple[int, ...]] = {
    "vector": (500, 8000, 60_000, 250_000), "scale": (3000, 20_000, 60_000, 1_000_000),
    "dot": (2000, 15_000, 60_000, 1_000_000), "stencil": (2000, 8000, 60_000, 200_000),
    "inplace": (2000, 8000, 60_000, 200_000), "gaps": (2000, 8000, 60_000, 200_000),
    "mask": (500, 4000, 20_000, 100_000), "horner": (300, 2000, 20_000, 100_000),
    "stream": (60_000, 150_000, 400_000, 1_000_000), "stages": (2000, 8000, 60_000, 250_000, 500_000),
    "lazy": (300, 2000, 10_000, 40_000), "transpose": (2500, 10_000, 62_500, 262_144),
    "product": (400, 1024, 4096, 10_000), "histogram": (3000, 15_000, 60_000, 200_000),
    "zeros": (500, 4000, 20_000, 100_000), "spinning": (12_000, 30_000, 60_000, 200_000),
    "sleeping": (12_000, 30_000, 60_000, 120_000, 200_000),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=48, help="of each pair (default: %(default)s)")
    parser.add_argument("--proofs", type=int, default=200, help="drawn of these (default: %(default)s)")
    parser.add_argument("--only", nargs="*", default=[*DISHONEST, *HONEST], help="these pairs")
    asked = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "pairs.so"
        command = ["gcc", "-O2", "-shared", "-fPIC", "-pthread", str(SOURCE), "-o", str(built), "-lm"]
        subprocess.run(command, check=True)
        for kind, kernels in (("dishonest", DISHONEST), ("honest", HONEST)):
            for name in (name for name in kernels if name in asked.only):
                for size in kernels[name]:
                    report(built, kind, name, size, asked.processes, asked.proofs)


def report(built: Path, kind: str, name: str, size: int, processes: int, proofs: int) -> None:
    """Sample one pair and print its line."""
    taken = [in_a_process(built, name, size, number) for number in range(processes)]
    failed = [each for each in taken if isinstance(each, str)]
    head = f"{kind:9} {name:9} n = {size:7}"
    if failed:
        print(f"{head}: wrong in {len(failed)} of {processes} processes: {failed[0]:.90}", flush=True)
        return
    rows = [
        SampleRow("cpu", "w", "runtime", number, slot.quad, slot.slot, slot.arm, sample, value,
                  start=None if sample else slot.start)
        for number, (slots, _) in enumerate(taken)
        for slot in slots
        for sample, value in enumerate(slot.values)
    ]  # fmt: skip
    whole = gather(rows, "minimize")
    random = Random(1)
    gain = np.exp(whole.by_process.mean())
    said = []
    for look in LOOKS:
        drawn = [why(chosen(whole, random.sample(range(processes), look))) for _ in range(proofs)]
        said.append(f"of {proofs} at {look}: {drawn.count('')} pass, {drawn.count('refused')} refused")
    cost = np.median([share for _, share in taken])
    singles = {each: float(np.exp(np.nanmedian(np.log(s[:, 0] / s[:, 1])))) for each, s in sorted(whole.starts.items())}
    print(
        f"{head}, {np.median(whole.baseline) * 1e6:7.1f} µs: {gain:8.2f}x in a row, "
        + ", ".join(f"{each} {single:.2f}x" for each, single in singles.items())
        + f"; {'; '.join(said)}; {cost:.1%} of the sampling"
        + ("; left alone" if gain < 1.1 else ""),
        flush=True,
    )


def why(evidence: Evidence) -> str:
    """What the rule says of a proof: ``refused``, ``open``, or nothing."""
    lost = why_not_the_work(evidence, float(np.exp(evidence.by_process.mean())))
    return "" if lost is None else "refused" if lost.sure else "open"


def chosen(evidence: Evidence, processes: list[int]) -> Evidence:
    """The evidence of some of its processes."""
    starts = {kind: seconds[processes] for kind, seconds in evidence.starts.items()}
    return Evidence(evidence.baseline[processes], evidence.tuned[processes], starts=starts)


def in_a_process(built: Path, name: str, size: int, number: int) -> tuple[list[Slot[float]], float] | str:
    """One block in a process of its own: its slots, and which share of the time single calls took; or why it failed."""
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            given: object = block(built, name, size, number)
        except (CheckFailed, ArmError) as failed:
            given = str(failed)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(given, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        result = pickle.load(pipe)
    os.waitpid(child, 0)
    return result


def block(built: Path, name: str, size: int, number: int) -> tuple[list[Slot[float]], float]:
    """As a proof takes it in process ``number``."""
    library = ctypes.CDLL(str(built))
    x = np.random.default_rng(number).random(size) * (8 if name == "histogram" else 1)
    aligned = np.ones(8 + (1 if name == "dot" else 256 if name == "histogram" else size))
    out = aligned[-aligned.ctypes.data % 64 // 8 :][: aligned.size - 8]
    arguments = x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(size)
    reset = (lambda: out.fill(1)) if name == "inplace" else None
    asked = asked_for([out], None, reset)
    plan = plan_block(
        Random(number), quads=QUADS, samples=SAMPLES, checked_calls=CHECKED_CALLS * (number % 2), starts=True
    )
    timed = {}
    for arm, letter in (("baseline", "a"), ("tuned", "b")):
        call = partial(getattr(library, f"{name}_{letter}"), *arguments)
        timed[arm] = Timed(arm, call, CpuClock(), lambda: None, reset)
    checked = CheckedBlock(plan, {arm: CheckedArm(own, asked) for arm, own in timed.items()})
    checked.learn()
    spent_s = 0.0

    def before_slot(arm: str, slot: int) -> object:
        nonlocal spent_s
        begun = time.perf_counter()
        start = checked.before_slot(arm, slot)
        spent_s += time.perf_counter() - begun
        return start

    begun = time.perf_counter()
    slots = sample_calls(plan, timed, after_slot=checked.after_slot, before_slot=before_slot)
    whole_s = time.perf_counter() - begun
    return slots, spent_s / (whole_s - spent_s)


if __name__ == "__main__":
    main()
