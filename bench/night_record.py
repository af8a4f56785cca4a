"""Searches of 20 benchmarks by the default engine, recorded, for ``bench/night.py`` to spend a night's budget on.

    python bench/night_record.py [--seeds 3] [--evaluations 320]      about half an hour of one core

Thirteen are the code size of a C kernel over -O2, and two the recorded times of ``race_landscape``, with their noise.
In five there is nothing to find: three are timed, so that luck looks like a find, in two every score is the baseline's.

One line of ``bench/data/night-searches.csv`` is one search: the evaluations after which the best score fell, with the
score as it was told and as it is, and after each batch of four what the engine expected of the next candidate.
"""

import argparse
import csv
import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import race_landscape
from machine import describe
from pytest_compileiq.engines.base import Brief, Foreseeing, Outlook, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import Candidate, sha256_hex
from pytest_compileiq.space import Space, literal
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import resolve
from pytest_compileiq.toolchains.cc.marker import Cc
from race_landscape import Metrics, Objective

BENCH = Path(__file__).parent
FILE = BENCH / "data" / "night-searches.csv"
COLUMNS = ["benchmark", "kind", "seed", "evaluations", "found", "outlooks"]
BATCH = 4
TIMEOUT_S = 20.0
SOURCES = [
    *(BENCH.parent / "tests" / "kernels" / f"{name}.c" for name in
      ("histogram", "matmul", "pair_potential", "stencil", "wire")),
    BENCH / "kernels" / "nearest_centroid.c", BENCH / "kernels_later" / "rational_softmax.c",
    *(BENCH / "value_safe_kernels" / f"{name}.c" for name in
      ("calls", "inlined", "machine", "sorted", "strings", "structs")),
]  # fmt: skip
LABELS = Space.from_mapping({f"label{number}": literal("", 0.5) for number in range(12)})
NO_GAIN = 3, 2  # timed, counted


@dataclass(frozen=True)
class Find:
    """The best score fell: after which evaluation, as it was told, and what it is without noise; log-ratios."""

    evaluation: int
    told: float
    real: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="searches of each (default: %(default)s)")
    parser.add_argument("--evaluations", type=int, default=320, help="of each search (default: %(default)s)")
    asked = parser.parse_args()
    print(describe())
    FILE.parent.mkdir(exist_ok=True)
    with FILE.open("w", newline="", encoding="utf-8") as stream, tempfile.TemporaryDirectory() as scratch:
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(COLUMNS)
        for kind, objective in objectives(Path(scratch)):
            for seed in range(asked.seeds):
                finds, outlooks = search(objective, seed, asked.evaluations)
                found = " ".join(f"{find.evaluation}:{find.told:.5g}:{find.real:.5g}" for find in finds)
                expected = " ".join(f"{each.improvement:.3g}:{each.spread:.3g}" if each else "" for each in outlooks)
                lines.writerow([objective.name, kind, seed, asked.evaluations, found, expected.replace("  ", " - ")])
                stream.flush()
                print(
                    f"{objective.name:<60}{kind:<10}{seed:>3}  {math.exp(-finds[-1].real if finds else 0):.3f}",
                    flush=True,
                )


def search(objective: Objective, seed: int, evaluations: int) -> tuple[list[Find], list[Outlook | None]]:
    """What one search finds, and after each batch what its engine expects."""
    engine = make("ga", Brief(objective.space, seed))
    noise = np.random.default_rng([seed, *objective.name.encode()])
    least, done = 0.0, 0
    finds, outlooks = [], []
    score_of: dict[str, float] = {}  # equal machine code is measured once, as in a real search
    while done < evaluations and (asked := engine.ask(BATCH)):
        told = []
        for candidate in asked:
            done += 1
            metrics = objective.measured(candidate.knobs)
            if metrics is None:
                told.append(Told(candidate, failure="compile"))
                continue
            duplicate = metrics["code"] in score_of
            score = score_of.setdefault(metrics["code"], objective.score(metrics, noise))
            if score < least:
                least = score
                finds.append(Find(done, score, math.log(objective.value(metrics) / objective.baseline)))
            told.append(Told(candidate, (score,), duplicate=duplicate, code=str(metrics["code"])))
        engine.tell(told)
        outlooks.append(engine.outlook() if isinstance(engine, Foreseeing) else None)
    return finds, outlooks


def objectives(scratch: Path) -> Iterator[tuple[str, Objective]]:
    """Kind (``counted``, ``timed``, ``no gain``) and objective."""
    timed = [one for one in race_landscape.replayed() if one.noisy is not None]
    yield from (("timed", one) for one in timed)
    ratios = _baseline_ratios()
    for number in range(NO_GAIN[0]):
        yield "no gain", _of_labels(f"labels {number}: time over -O2's, with noise", ratios)
    for number in range(NO_GAIN[1]):
        yield "no gain", _of_labels(f"labels {NO_GAIN[0] + number}: code bytes", [])
    for source in SOURCES:
        yield "counted", _of_c(source, scratch)


def _baseline_ratios() -> list[float]:
    """Of every recorded machine code, the samples over their own median: how much equal code differs."""
    rows = [row for times in sorted(race_landscape.DATA.glob("*-times.csv")) for row in race_landscape._rows(times)]
    held = [[float(ratio) for ratio in row["ratios"].split()] for row in rows]
    return [ratio / float(np.median(ratios)) for ratios in held for ratio in ratios]


def _of_labels(name: str, ratios: list[float]) -> Objective:
    def measured(knobs: Mapping[str, Any]) -> Metrics:
        return {"code": str(sorted(knobs)), "ratios": ratios}

    def noisy(metrics: Metrics, rng: np.random.Generator) -> float:
        return math.log(float(np.median(rng.choice(metrics["ratios"], size=3))))

    return Objective(name, name, LABELS, measured, lambda metrics: 1.0, noisy if ratios else None)


def _of_c(source: Path, scratch: Path) -> Objective:
    cc = resolve(Cc(source.name, flags="-O2"), Place(source.parent, source.parent))
    built: dict[str, Metrics | None] = {}

    def measured(knobs: Mapping[str, Any]) -> Metrics | None:
        controls = cc.render(Candidate(knobs))
        if controls.key not in built:
            try:
                made = cc.build(controls if knobs else None, scratch / controls.key[:16], timeout_s=TIMEOUT_S)
                built[controls.key] = {"code": made.digest, **made.metrics}
            except BuildError:
                built[controls.key] = None
        return built[controls.key]

    name = f"{source.parent.name}/{source.name}: code bytes"
    every_class = cc.space_with("options", cc.option_classes)  # nothing is run, so nothing can be wrong
    space = replace(every_class, presets=())  # as in the races: what an expert would try first ends most searches
    return Objective(name, sha256_hex(name.encode()), space, measured, lambda metrics: float(metrics["code_bytes"]))


def read() -> Iterator[tuple[str, str, list[Find], list[Outlook | None], int]]:
    """(benchmark, kind, finds, outlooks, evaluations) of every recorded search."""
    with FILE.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            finds = [Find(int(number), float(told), float(real)) for number, told, real in
                     (each.split(":") for each in row["found"].split())]  # fmt: skip
            outlooks = [
                Outlook(*map(float, each.split(":"))) if ":" in each else None for each in row["outlooks"].split(" ")
            ]
            yield row["benchmark"], row["kind"], finds, outlooks, int(row["evaluations"])


if __name__ == "__main__":
    main()
