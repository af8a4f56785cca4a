"""Does a capture put option sets into the order that the program would? And a capture of zeros in the data's place?

Ten option sets, the same for all six kernels of ``captured_program`` (gcc's levels with some options, or ten draws from
the space that a tune searches): the time of each in capture, where recorded calls are made again, against its time in
the program, which is run with its library built so and times its own calls. Both are of the processor, since other work
moves that less. Each process is one unit, in rounds of random order. A slot's value is the median of its calls of each
shape, weighted by the program's counts.

The gate's own rule (``judge_gain``: Welch, Cohen's d, the randomisation test and the floor of 0.5 %, at alpha) is put
to the program's times, and says which pairs of option sets can be told apart there. Over these pairs tau is
(concordant - discordant) / all; scipy's tau-b over all ten is shown beside it.

    python bench/captured_order.py [--sets levels|drawn] [--seed 1] [--rounds 8] [--frames 96] [--results FILE.json]
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import itertools
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

import captured_replay
from captured import BUNDLE, KERNELS, build, capture, copied, machine_and_load, run
from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.gate import judge_gain
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.options import options_of

# gcc's levels, and what one would turn on or off at its highest. Contraction is off, so that all give the same bits.
LEVELS = (
    *("-O0", "-O1", "-Os", "-O2", "-O3"),
    *(
        f"-O3 {more}"
        for more in (
            "-march=native",
            "-march=native -mprefer-vector-width=512",
            "-fno-tree-vectorize",
            "-funroll-loops",
            "-fno-tree-loop-if-convert -fno-if-conversion -fno-if-conversion2",
        )
    ),
)
ALWAYS = "-ffp-contract=off"
# What of the recorded calls' memory is zero before a call, by the kind of its content.
ZEROED = {"exact": (), "integers zero": ("integers",), "all zero": ("integers", "floats")}
MUST_LOSE = ("gather", "ragged", "branchy", "histogram")
LEAST_SPAN, LEAST_TAU = 0.2, 0.8

Slots = NDArray[np.float64]  # ns, shape (rounds, quads, 2)
ByKernel = dict[str, list[Slots]]  # those of each option set


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", choices=["levels", "drawn"], default="levels", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="processes of each option set (default: %(default)s)")
    parser.add_argument("--frames", type=int, default=96, help="of the program (default: %(default)s)")
    parser.add_argument("--results", type=Path, metavar="FILE")
    asked = parser.parse_args()
    print(machine_and_load(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder, "program"))
        option_sets = LEVELS if asked.sets == "levels" else drawn(root, asked.seed)
        program, captures = measured(root, option_sets, asked.rounds, asked.frames)
    print(machine_and_load())
    print(*(f"{at}: {options}" for at, options in enumerate(option_sets)), sep="\n")
    table = {kernel: compared(kernel, program[kernel], captures) for kernel in KERNELS}
    show(table)
    if asked.results:
        told = {"machine": machine_and_load(), "rounds": asked.rounds, "option_sets": option_sets, "kernels": table}
        asked.results.write_text(json.dumps(told, indent=1), encoding="utf-8")


def drawn(root: Path, seed: int) -> list[str]:
    """As many as ``LEVELS``, drawn from the space of a tune whose baseline is built for this processor."""
    baseline = f"-O2 -march=native {ALWAYS}"
    space = Cc("gather.c", flags=baseline).resolve(Place(root, root)).default_space()
    rng = np.random.default_rng(seed)
    draws = [space.knobs(space.sample(rng)) for _ in LEVELS]
    return [" ".join([baseline, *options_of(draw)]) for draw in draws]


def measured(root: Path, option_sets: Sequence[str], rounds: int, frames: int) -> tuple[ByKernel, dict[str, ByKernel]]:
    """Kernel → slots of each option set in the program; the same for each kind of capture."""
    build(root, f"-O2 {ALWAYS}")
    capture(root, "--share", "0.9999", program=(str(frames), "--save", "found.npz"))
    bundles = {name: zeroed(root, name, kinds) for name, kinds in ZEROED.items()}
    libraries = [build(root, f"{options} {ALWAYS}", f"{at}.so") for at, options in enumerate(option_sets)]
    expected, times = root / "found.npz", root / "times.json"
    program: list[dict[str, list[list[float]]]] = [collections.defaultdict(list) for _ in libraries]
    replayed = {name: [collections.defaultdict(list) for _ in libraries] for name in bundles}
    order = random.Random(1)
    for round_ in range(rounds):
        for at in order.sample(range(len(libraries)), len(libraries)):
            run(root, libraries[at], str(frames), "--expect", str(expected), "--times", str(times))
            for kernel, by_shape in json.loads(times.read_text()).items():
                program[at][kernel].append(in_program(by_shape))
            for name in order.sample(list(bundles), len(bundles)):
                command = [sys.executable, captured_replay.__file__, libraries[at], bundles[name], times]
                subprocess.run(command, check=True)
                told = json.loads(times.read_text())
                for kernel in KERNELS:
                    replayed[name][at][kernel].append(in_capture(told["times"][kernel], told["counts"][kernel]))
        print(f"round {round_ + 1} of {rounds}", file=sys.stderr, flush=True)
    return by_kernel(program), {name: by_kernel(each) for name, each in replayed.items()}


def zeroed(root: Path, name: str, kinds: Sequence[str]) -> Path:
    """A capture like that in ``root``, with zeros in what its calls were given of these kinds."""
    bundle = Path(shutil.copytree(root / BUNDLE, root / name.replace(" ", "-")))
    for path in bundle.glob("*/kernel.json"):
        kernel = json.loads(path.read_text())
        for call in (call for shape in kernel["shapes"] for call in shape["kept"]):
            for region in call["regions"]:
                before, after = region["before"], region["after"]
                if before["kind"] in kinds:
                    is_changed, zeros = before != after, bytes(region["size"])
                    before["sha256"] = hashlib.sha256(zeros).hexdigest()
                    if not is_changed:  # so that restore has as much to do
                        after["sha256"] = before["sha256"]
                    content = bundle / "data" / before["sha256"][:2] / f"{before['sha256']}.z"
                    content.parent.mkdir(exist_ok=True)
                    content.write_bytes(zlib.compress(zeros))
        path.write_text(json.dumps(kernel))
    return bundle


def in_program(by_shape: Mapping[str, Sequence[int]]) -> list[float]:
    """The slots of one run: as many stretches of the program, one after the other."""
    slots = captured_replay.SLOTS
    return [
        sum(len(times) * statistics.median(np.array_split(times, slots)[slot]) for times in by_shape.values())
        for slot in range(slots)
    ]


def in_capture(times: Sequence[Sequence[Sequence[int]]], counts: Sequence[int]) -> list[float]:
    """The slots of one replay: shape → slot → samples, with how often the program called each shape."""
    return [
        sum(count * statistics.median(slots[slot]) for slots, count in zip(times, counts, strict=True))
        for slot in range(captured_replay.SLOTS)
    ]


def by_kernel(measured: Sequence[Mapping[str, list[list[float]]]]) -> ByKernel:
    return {kernel: [np.reshape(each[kernel], (-1, 4, 2)) for each in measured] for kernel in KERNELS}


def compared(kernel: str, program: Sequence[Slots], captures: Mapping[str, Mapping[str, Sequence[Slots]]]) -> dict:
    """One kernel's row: its span, the pairs that are told apart, and how each kind of capture orders them."""
    means = geometric_means(program)
    faster = {  # of each pair that can be told apart, the faster first
        (one, other) if is_faster(program[other], program[one]) else (other, one)
        for one, other in itertools.combinations(range(len(program)), 2)
        if is_faster(program[other], program[one]) or is_faster(program[one], program[other])
    }
    row = {"span": max(means) / min(means) - 1, "told_apart": len(faster), "program_ns": means, "captures": {}}
    for name, slots in captures.items():
        replayed = geometric_means(slots[kernel])
        right = sum(replayed[fast] < replayed[slow] for fast, slow in faster)
        best = int(np.argmin(replayed))
        row["captures"][name] = {
            "capture_ns": replayed,
            "concordant": right,
            "tau": tau(right, len(faster)),
            "tau_b_of_all": float(kendalltau(means, replayed).statistic),
            "best": best,
            "best_in_program": means[best] / min(means),
            "best_is_slower_than": [fast for fast, slow in sorted(faster) if slow == best],
        }
    return row


def tau(concordant: int, pairs: int) -> float:
    return (2 * concordant - pairs) / pairs if pairs else math.nan


def is_faster(baseline: Slots, tuned: Slots) -> bool:
    thresholds = Thresholds()
    decision = judge_gain(Evidence(baseline, tuned), thresholds, level=thresholds.alpha, seed=1)
    return decision.verdict is Verdict.PROVEN


def geometric_means(slots: Sequence[Slots]) -> list[float]:
    return [float(np.exp(np.log(each).mean())) for each in slots]


def show(table: Mapping[str, dict]) -> None:
    print(f"{'':<11}{'span':>6}{'pairs':>6}", *(f"{name + ': tau, tau-b, best set':>28}" for name in ZEROED))
    for kernel, row in table.items():
        cells = [
            f"{each['tau']:>7.2f}{each['tau_b_of_all']:>7.2f}  {each['best']:>4}{each['best_in_program']:>6.2f}x"
            for each in row["captures"].values()
        ]
        print(f"{kernel:<11}{row['span']:>6.0%}{row['told_apart']:>6}", *cells)
    pairs = sum(row["told_apart"] for row in table.values())
    for name in ZEROED:
        right = sum(row["captures"][name]["concordant"] for row in table.values())
        print(f"{name}: tau {tau(right, pairs):.3f} over all {pairs} pairs that the gate tells apart")
    below = [kernel for kernel, row in table.items() if not row["captures"]["exact"]["tau"] >= LEAST_TAU]
    narrow = [kernel for kernel, row in table.items() if row["span"] < LEAST_SPAN]
    print(f"tau below {LEAST_TAU}: {', '.join(below) or 'none'}; span below {LEAST_SPAN:.0%}: {narrow or 'none'}")
    for name in list(ZEROED)[1:]:
        lost = [kernel for kernel in MUST_LOSE if loses(table[kernel]["captures"], name)]
        print(f"{name}: loses on {', '.join(lost) or 'none'} of {', '.join(MUST_LOSE)}")


def loses(captures: Mapping[str, dict], name: str) -> bool:
    """Whether its tau is lower, or its best option set is surely slower in the program than that of the exact one."""
    exact, other = captures["exact"], captures[name]
    return other["tau"] < exact["tau"] or exact["best"] in other["best_is_slower_than"]


if __name__ == "__main__":
    main()
