"""Real trials: two builds of one kernel, the tuned one with a known share of its rows left out, timed by the package's
own sampler in separate processes. Every raw sample is kept; nothing is judged here."""

import argparse
import ctypes
import gc
import mmap
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np

from gate.trials import GAINS, KERNELS, ONE_PROCESS_QUADS, PROCESSES, ROWS, Cell, Floats, Trial, save
from machine import describe
from pytest_compileiq.model import Arm
from pytest_compileiq.rules.gate import QUADS, SAMPLES
from pytest_compileiq.timing.clock import CpuClock
from pytest_compileiq.timing.sampler import BlockPlan, Slot, Timed, plan_block, sample_calls

SOURCE = Path(__file__).with_name("kernels.c")
FLOATS = (ROWS + 2) * 256  # enough for the largest of the kernels
OWN_BUFFERS = "potential"  # each arm has its own, as in a body that allocates; the others share theirs, as by a fixture
ARMS: tuple[Arm, Arm] = ("baseline", "tuned")
FORK = multiprocessing.get_context("fork")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="gate record", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path(".bench"), help="where trials are kept (default: .bench)")
    parser.add_argument("--equal", type=int, default=170, help="trials of equal arms a kernel (default: %(default)s)")
    parser.add_argument("--faster", type=int, default=34, help="of each gain a kernel (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=15, help="stop after so long (default: %(default)s)")
    parser.add_argument("--loaded", action="store_true", help="keep one core busy with another process")
    asked = parser.parse_args(arguments)
    print(describe())
    asked.home.mkdir(parents=True, exist_ok=True)
    (asked.home / ".gitignore").write_text("*\n", encoding="utf-8")
    (asked.home / "machine.txt").write_text(describe() + "\n", encoding="utf-8")
    deadline = time.monotonic() + 60 * asked.minutes
    taken = 0
    with tempfile.TemporaryDirectory() as folder, busy_neighbour(asked.loaded):
        libraries = {arm: build(Path(folder), arm) for arm in ARMS}
        gc.freeze()  # a child's collection would copy every page of this process
        for cell, number in missing(asked.home, asked.equal, asked.faster, asked.loaded):
            if time.monotonic() > deadline:
                break
            save(asked.home, take(cell, number, libraries))
            taken += 1
    print(f"{taken} trials taken; run it again for more")


def missing(home: Path, equal: int, faster: int, loaded: bool) -> Iterator[tuple[Cell, int]]:
    """Trials still to be taken, all conditions advancing at the same pace so that a part is a fair part."""
    wanted = [(Cell(kernel, gain, loaded), faster if gain else equal) for kernel in KERNELS for gain in GAINS]
    steps = max(equal, faster)
    for step in range(steps):
        for cell, trials in wanted:
            for number in range(step * trials // steps, (step + 1) * trials // steps):
                if not cell.path(home, number).exists():
                    yield cell, number


def build(folder: Path, arm: Arm) -> Path:
    path = folder / f"{arm}.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", SOURCE, "-o", path, "-lm"], check=True)
    return path


@contextmanager
def busy_neighbour(wanted: bool) -> Iterator[None]:
    """Another process that spins on one core meanwhile."""
    if not wanted:
        yield
        return
    neighbour = FORK.Process(target=spin, daemon=True)
    neighbour.start()
    try:
        yield
    finally:
        neighbour.kill()
        neighbour.join()


def spin() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    while True:
        pass


def take(cell: Cell, number: int, libraries: Mapping[Arm, Path]) -> Trial:
    """One trial: the gate's processes, and one process each for the recipes with and without interleaving."""
    random = Random(f"{cell}/{number}")
    order, gate, gate_seconds = [], [], []
    for _ in range(PROCESSES):
        plan = plan_block(random, quads=QUADS, samples=SAMPLES)
        samples, seconds = in_a_fresh_process(cell, plan, libraries, random)
        order.append([quad == "BAAB" for quad in plan.quads])
        gate.append(samples.reshape(2, QUADS, 2, SAMPLES))
        gate_seconds.append(seconds)
    half = ONE_PROCESS_QUADS // 2
    in_turn = BlockPlan("baseline", ("AAAA",) * half + ("BBBB",) * half, SAMPLES)
    block, block_seconds = in_a_fresh_process(cell, in_turn, libraries, random)
    mixed = plan_block(random, quads=ONE_PROCESS_QUADS, samples=SAMPLES)
    interleaved, interleaved_seconds = in_a_fresh_process(cell, mixed, libraries, random)
    return Trial(
        cell,
        number,
        gate=np.stack(gate, axis=1).astype(np.float32),
        order=np.array(order),
        gate_seconds=np.array(gate_seconds, np.float32),
        block=block.astype(np.float32),
        block_seconds=np.float32(block_seconds),
        interleaved=interleaved.astype(np.float32),
        interleaved_seconds=np.float32(interleaved_seconds),
        load=np.float32(os.getloadavg()[0]),
    )


def in_a_fresh_process(
    cell: Cell, plan: BlockPlan, libraries: Mapping[Arm, Path], random: Random
) -> tuple[Floats, float]:
    """Both arms' samples by the plan, shape (2, n) in the order taken, and the wall time with the process's start."""
    start = time.perf_counter()
    here, there = multiprocessing.Pipe(duplex=False)
    child = FORK.Process(target=send_samples, args=(there, cell, plan, libraries, random.getrandbits(64)))
    child.start()
    samples = here.recv()
    child.join()
    return samples, time.perf_counter() - start


def send_samples(pipe, cell: Cell, plan: BlockPlan, libraries: Mapping[Arm, Path], seed: int) -> None:
    calls, _alive = arms_somewhere(cell, libraries, Random(seed))
    timed = {arm: Timed(arm, call, CpuClock(), lambda: None) for arm, call in calls.items()}
    slots = sample_calls(plan, timed)
    pipe.send(np.array([samples_of(slots, arm) for arm in ARMS]))


def samples_of(slots: Sequence[Slot], arm: Arm) -> list[float]:
    return [value for slot in slots if slot.arm == arm for value in slot.values]


def arms_somewhere(
    cell: Cell, libraries: Mapping[Arm, Path], random: Random
) -> tuple[dict[Arm, Callable[[], object]], list[object]]:
    """Both arms' calls, at addresses of this process's own: a fork inherits its parent's, a fresh worker does not."""
    alive: list[object] = []
    kernels = {}
    for arm in random.sample(ARMS, 2):
        alive.append(mmap.mmap(-1, mmap.PAGESIZE * random.randint(1, 4096)))
        kernels[arm] = getattr(ctypes.CDLL(str(libraries[arm])), cell.kernel)
    shared = buffers_somewhere(random)
    pointers = {arm: buffers_somewhere(random) if cell.kernel == OWN_BUFFERS else shared for arm in ARMS}
    rows = {"baseline": ROWS, "tuned": ROWS - cell.rows_left_out}
    calls = {arm: call_of(kernels[arm], pointers[arm], rows[arm]) for arm in ARMS}
    return calls, [*alive, shared, pointers]


def call_of(kernel, buffers: Sequence[Floats], rows: int) -> Callable[[], object]:
    addresses = [ctypes.c_void_p(buffer.ctypes.data) for buffer in buffers]
    return lambda: kernel(*addresses, rows)


def buffers_somewhere(random: Random) -> list[Floats]:
    """Input and output, each a random number of 64-byte lines into an allocation."""
    buffers = []
    for content in (np.random.default_rng(1).random(FLOATS, dtype=np.float32), np.zeros(FLOATS, np.float32)):
        line = random.randrange(64)
        room = np.empty(FLOATS + 64 * 16, np.float32)
        buffer = room[16 * line : 16 * line + FLOATS]
        buffer[:] = content
        buffers.append(buffer)
    return buffers
