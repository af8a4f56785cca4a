"""Does the embedded engine go on finding something in the second half of its budget, and what does it try there?

The objectives are solved by nobody in 100 candidates: what gcc expects kernels of this repository to cost to execute,
over 65 options. Every instruction counts by its kind and by how often gcc believes that its block runs (``-dA``), so
nothing is measured and every run gives the same figures. Equal machine code is equal assembly.

    nice python bench/stall.py [--seeds 5] [--before b97857d]

With ``--before`` the engine of another revision of this repository searches too, and each of its searches is paired
with the one of the same objective and seed. Builds are kept in .compileiq/, what was found in bench/data/stall.csv.
"""

import argparse
import csv
import hashlib
import itertools
import json
import math
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from machine import describe
from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import resolve
from pytest_compileiq.toolchains.cc.marker import Cc

ROOT = Path(__file__).parents[1]
BASELINE = ("-O2", "-march=x86-64-v3")
SOURCES = ("bench/kernels/nearest_centroid.c", "tests/kernels/pair_potential.c", "tests/kernels/stencil.c")
EVALUATIONS = 100
SEEN = (25, 50, 75, 100)
BLOCK = re.compile(r"# BLOCK \d+, count:(\d+)")
# Cycles of an instruction whose name holds the word, and of what reads or writes memory besides.
CYCLES = {"div": 20.0, "sqrt": 18.0, "call": 10.0, "cvt": 4.0, "mul": 3.0}
MEMORY_CYCLES = 1.5

Row = dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--before", metavar="REVISION", help="compare with the engine of this revision")
    parser.add_argument("--found", type=Path, default=ROOT / "bench" / "data" / "stall.csv")
    parser.add_argument("--label", help=argparse.SUPPRESS)  # given to the run with the other revision's engine
    asked = parser.parse_args()
    if asked.label:
        csv.DictWriter(sys.stdout, FIELDS).writerows(searches(asked.label, asked.seeds))
        return
    print(describe())
    rows = [*other_revision(asked.before, asked.seeds), *searches("now", asked.seeds)]
    with asked.found.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    report(rows)


# ── the objective ────────────────────────────────────────────────────────────────────────────────────────────────────


class ExpectedCost:
    """Knobs → what one kernel is expected to cost, and a digest of its assembly; each build is kept."""

    def __init__(self, source: Path, kept: sqlite3.Connection, scratch: Path) -> None:
        self._kept = kept
        self._made = scratch / "made.s"
        self._preprocessed = scratch / f"{source.stem}.i"
        subprocess.run(["gcc", "-E", "-P", source, "-o", self._preprocessed], check=True)
        where = subprocess.run(["gcc", "-print-prog-name=cc1"], check=True, capture_output=True, text=True)
        self._command = [where.stdout.strip(), "-quiet", "-w", "-fpreprocessed", "-dA", *BASELINE]
        version = subprocess.run(["gcc", "--version"], check=True, capture_output=True).stdout
        self._identity = hashlib.sha256(version + self._preprocessed.read_bytes()).hexdigest()[:16]

    def of(self, knobs: Mapping[str, Any]) -> tuple[float, str] | None:
        """Cost and digest; None where gcc refuses the knobs."""
        options = sorted(f"{name}{value}" for name, value in knobs.items())
        key = " ".join([self._identity, *BASELINE, *options])
        row = self._kept.execute("SELECT value FROM kept WHERE key = ?", (key,)).fetchone()
        if row is None:
            row = (json.dumps(self._build(options)),)
            self._kept.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (key, *row))
        value = json.loads(row[0])
        return None if value is None else (value[0], value[1])

    def _build(self, options: Sequence[str]) -> tuple[float, str] | None:
        command = [*self._command, str(self._preprocessed), *options, "-o", str(self._made)]
        done = subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60, check=False)
        return cost_of(self._made.read_text(encoding="utf-8")) if done.returncode == 0 else None


def cost_of(assembly: str) -> tuple[float, str]:
    """Cycles of each instruction times how often its block runs, and a digest of the assembly."""
    cost, often, digest = 0.0, 1.0, hashlib.sha256()
    for line in assembly.splitlines():
        if block := BLOCK.match(line):
            often = int(block[1]) / 1e6 + 0.01
        if line.startswith(("#", "\t.cfi", "\t.file")):
            continue
        digest.update(line.encode())
        if line.startswith("\t") and not line.startswith("\t."):
            cost += often * cycles(line.split()[0], line)
    return cost, digest.hexdigest()[:16]


def cycles(name: str, line: str) -> float:
    memory = MEMORY_CYCLES if "(" in line and not name.startswith("lea") else 0.0
    return memory + next((held for word, held in CYCLES.items() if word in name), 1.0)


def gcc_space() -> Space:
    kernels = ROOT / "tests" / "kernels"
    cc = resolve(Cc("stencil.c", flags=" ".join(BASELINE)), Place(kernels, kernels))
    return replace(cc.space_with("options", cc.option_classes), presets=())


# ── searches ─────────────────────────────────────────────────────────────────────────────────────────────────────────

FIELDS = [
    "engine", "kernel", "seed", *(f"best_{count}" for count in SEEN), "late_improvement", "late_improvement_known",
    "late_marginals", "late_marginals_known",
]  # fmt: skip


def searches(label: str, seeds: int) -> Iterator[dict[str, Any]]:
    """One row a search: the best log-ratio so far, and of the last 50 how many each slot chose, and were known code."""
    kept = sqlite3.connect(ROOT / ".compileiq" / "bench-stall.sqlite", isolation_level=None)
    kept.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT)")
    with tempfile.TemporaryDirectory() as scratch:
        objectives = {Path(name).stem: ExpectedCost(ROOT / name, kept, Path(scratch)) for name in SOURCES}
        for seed, (kernel, objective) in itertools.product(range(seeds), objectives.items()):
            bests, slots = search(objective, seed)
            late = slots[EVALUATIONS // 2 :]
            row: dict[str, Any] = {"engine": label, "kernel": kernel, "seed": seed}
            row |= {f"best_{count}": round(bests[count - 1], 5) for count in SEEN}
            for slot in ("improvement", "marginals"):
                known = [duplicate for origin, duplicate in late if origin == slot]
                row |= {f"late_{slot}": len(known), f"late_{slot}_known": sum(known)}
            yield row


def search(objective: ExpectedCost, seed: int) -> tuple[list[float], list[tuple[str, bool]]]:
    """The best score so far, and who chose each candidate and whether its code was known, after each evaluation."""
    baseline = objective.of({})
    assert baseline is not None
    engine = make("ga", Brief(gcc_space(), seed, budget=EVALUATIONS, seeds=[Candidate({})]))
    codes: set[str] = set()
    bests, slots = [0.0], []
    for _ in range(EVALUATIONS):
        [candidate] = engine.ask(1)
        built = objective.of(candidate.knobs)
        if built is None:
            engine.tell([Told(candidate, failure="compile")])
            score, duplicate = 0.0, False
        else:
            score, duplicate = math.log(built[0] / baseline[0]), built[1] in codes
            engine.tell([Told(candidate, (score,), duplicate=duplicate, code=built[1])])
            codes.add(built[1])
        bests.append(min(bests[-1], score))
        slots.append((candidate.origin, duplicate))
    return bests[1:], slots


def other_revision(revision: str | None, seeds: int) -> list[Row]:
    """What the engine of ``revision`` finds, in a process of its own."""
    if revision is None:
        return []
    with tempfile.TemporaryDirectory() as tree:
        packed = subprocess.run(
            ["git", "archive", revision, "pytest_compileiq"], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "x", "-C", tree], input=packed.stdout, check=True)
        paths = {**os.environ, "PYTHONPATH": tree}
        command = [sys.executable, __file__, "--label", revision, "--seeds", str(seeds)]
        told = subprocess.run(command, env=paths, check=True, stdout=subprocess.PIPE, text=True).stdout
    return list(csv.DictReader(told.splitlines(), FIELDS))


# ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(rows: Sequence[Mapping[str, Any]]) -> None:
    """Medians as shares of the way to the best that any of these searches found, and what the late slots chose."""
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    goal = {kernel: min(float(row["best_100"]) for row in rows if row["kernel"] == kernel) for kernel in kernels}
    print(
        f"{'kernel':<20}{'engine':<12}searches   % of the way at "
        + " / ".join(map(str, SEEN))
        + "   known of the last 50"
    )
    for kernel, engine in itertools.product(kernels, engines):
        of = [row for row in rows if row["kernel"] == kernel and row["engine"] == engine]
        shares = [statistics.median(100 * float(row[f"best_{count}"]) / goal[kernel] for row in of) for count in SEEN]
        known = " ".join(f"{slot} {known_share(of, slot):.0%}" for slot in ("improvement", "marginals"))
        print(
            f"{kernel:<20}{engine:<12}{len(of):>8}   " + " / ".join(f"{share:.0f}" for share in shares) + f"   {known}"
        )
    if len(engines) == 2:
        for count in SEEN[1:]:
            print(paired(rows, engines, goal, f"best_{count}"))


def known_share(rows: Sequence[Mapping[str, Any]], slot: str) -> float:
    asked = sum(int(row[f"late_{slot}"]) for row in rows)
    return sum(int(row[f"late_{slot}_known"]) for row in rows) / max(asked, 1)


def paired(rows: Sequence[Mapping[str, Any]], engines: Sequence[str], goal: Mapping[str, float], field: str) -> str:
    """How much smaller the gap to the best is now, over all objectives and seeds: Wilcoxon's signed ranks."""
    gaps = [
        {(row["kernel"], str(row["seed"])): math.log(1.01 - float(row[field]) / goal[row["kernel"]])
         for row in rows if row["engine"] == engine}
        for engine in engines
    ]  # fmt: skip
    moved = np.array([gaps[1][key] - gaps[0][key] for key in gaps[0].keys() & gaps[1].keys()])
    p = wilcoxon(moved).pvalue if moved.any() else 1.0
    ratio = math.exp(moved.mean())
    return f"{field}: the gap of {engines[1]} is {ratio:.2f} of that of {engines[0]}, p = {p:.3f}, n = {len(moved)}"


if __name__ == "__main__":
    main()
