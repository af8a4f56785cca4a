"""The corpus that options are learned from: sources over gcc's options, sized, timed, and their instructions counted.

Half of a source's candidates are drawn by the space's probabilities. The other half are variations of the best so far,
by each metric in turn, since what a search has to know is what options do to code that is good already.
"""

import csv
import gzip
import io
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import learned_sources
import race_open
from pytest_compileiq.engines.ga.points import PointSpace, crossover, mutate
from pytest_compileiq.model import Knobs
from pytest_compileiq.space import OFF, Point
from race_build import BENCH, Build, Kernel, Source, Workshop
from race_kept import Kept
from race_objectives import SAMPLES, batched, gcc_space

METRICS = ("code_bytes", "executed", "time")
RECORDED = BENCH / "data" / "corpus.csv.gz"
KEPT = BENCH.parent / ".compileiq" / "corpus.sqlite"
CANDIDATES = 200
PROCESSES = 3  # that time each machine code
PARENTS = 12
COUNTED_S = 0.06  # a small call that takes longer while each instruction is trapped is not counted


@dataclass(frozen=True)
class Measured:
    """One source.

    Attributes:
        points: of ``gcc_space``, the first half of them random, shape (n, genes).
        scores: log-ratios to the baseline by ``METRICS``, NaN where there is none, shape (n, 3).
    """

    name: str
    points: NDArray[np.int64]
    scores: NDArray[np.float64]


def sources() -> Iterator[Source]:
    """Every source once."""
    raced = {objective.source.name: objective.source for objective in race_open.objectives()}
    yield from raced.values()
    yield from learned_sources.sources()
    yield from learned_sources.unrun()


def record(place: int, shares: int) -> None:
    """Measure this share of the sources, and write the corpus when all are there."""
    kept = Kept(KEPT)
    workshop = Workshop(kept)
    try:
        everything = [
            _measured(workshop, source) for number, source in enumerate(sources()) if number % shares == place
        ]
    finally:
        workshop.close()
        kept.close()
    if shares == 1:
        write(everything)


def write(measured: Sequence[Measured]) -> None:
    """Write ``bench/data``: one row a candidate, its point as one number a gene."""
    write_table(
        RECORDED,
        ["source", "point", *METRICS],
        (
            [source.name, text_of(point), *map(shown, scores)]
            for source in measured
            for point, scores in zip(source.points.tolist(), source.scores.tolist(), strict=True)
        ),
    )


def read() -> Iterator[Measured]:
    """What ``write`` has written."""
    by_source: dict[str, list[dict[str, str]]] = {}
    for row in read_table(RECORDED):
        by_source.setdefault(row["source"], []).append(row)
    for name, rows in by_source.items():
        points = [point_of(row["point"]) for row in rows]
        scores = [[float(row[metric] or "nan") for metric in METRICS] for row in rows]
        yield Measured(name, np.array(points, dtype=np.int64), np.array(scores))


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A compressed table, the same bytes for the same rows."""
    text = io.StringIO()
    written = csv.writer(text, lineterminator="\n")
    written.writerow(columns)
    written.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def read_table(path: Path) -> Iterator[dict[str, str]]:
    """The rows that ``write_table`` has written."""
    yield from csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode()))


def text_of(point: Sequence[int]) -> str:
    """A point as one digit a gene, 0 where it is off."""
    return "".join(str(index + 1) for index in point)


def point_of(text: str) -> Point:
    """The inverse of ``text_of``."""
    return tuple(int(digit) - 1 for digit in text)


def shown(score: float) -> str:
    """A score as a table has it: empty where there is none."""
    return "" if math.isnan(score) else f"{score:.4g}"


def _measured(workshop: Workshop, source: Source) -> Measured:
    meter = Meter(Kernel(workshop, source))
    space, rng = gcc_space(), np.random.default_rng(1)
    points: dict[Point, Sequence[float]] = {}
    points[(OFF,) * len(space.genes)] = meter.scores({})
    while len(points) < CANDIDATES // 2:
        point = space.sample(rng)
        points.setdefault(point, meter.scores(space.knobs(point)))
    operators = PointSpace(space)
    while len(points) < CANDIDATES:
        parents = _best(points, int(rng.choice(meter.metrics)))
        varied = operators.canonical(mutate(crossover(parents, rng, 4), operators.counts, rng), rng)
        point = tuple(varied[0].tolist())
        points.setdefault(point, meter.scores(space.knobs(point)))
    meter.close()
    print(f"{source.name:<32}{len(points)} candidates", flush=True)
    return Measured(source.name, np.array(list(points), dtype=np.int64), np.array(list(points.values())))


def _best(points: dict[Point, Sequence[float]], metric: int) -> NDArray[np.int64]:
    scores = np.nan_to_num([scores[metric] for scores in points.values()], nan=np.inf)
    return np.array(list(points), dtype=np.int64)[np.argsort(scores, kind="stable")[:PARENTS]]


class Meter:
    """Measures candidates of one kernel, by ``only`` these metrics; equal machine code has equal numbers."""

    def __init__(self, kernel: Kernel, only: Collection[str] = METRICS) -> None:
        self._kernel = kernel
        self._known: dict[str | None, Sequence[float]] = {None: [math.nan] * len(METRICS)}
        self._baseline = kernel.build({})
        if self._baseline.code is None:
            raise SystemExit(f"{kernel.source.name}: its baseline does not build")
        counts = "executed" in only and kernel.source.driver is not None
        self._counted = self._count(self._baseline, at_most_s=COUNTED_S) if counts else math.nan
        times = [2] if "time" in only and kernel.source.driver is not None else []
        self.metrics = [0, *([] if math.isnan(self._counted) else [1]), *times]

    def scores(self, knobs: Knobs) -> Sequence[float]:
        build = self._kernel.build(knobs)
        if build.code not in self._known:
            self._known[build.code] = [
                math.log(build.code_bytes / self._baseline.code_bytes),
                math.log(self._count(build) / self._counted) if 1 in self.metrics else math.nan,
                self._time(build) if 2 in self.metrics else math.nan,
            ]
        return self._known[build.code]

    def close(self) -> None:
        self._kernel.close()

    def _count(self, build: Build, at_most_s: float = math.inf) -> float:
        numbers, seconds = self._answered(build, 1, 0)
        return numbers[0] if numbers and seconds <= at_most_s else math.nan

    def _time(self, build: Build) -> float:
        numbers, _ = self._answered(build, PROCESSES, SAMPLES)
        each = [statistics.median(map(math.log, taken)) for taken in batched(numbers, SAMPLES)]
        return statistics.median(each) if each else math.nan

    def _answered(self, build: Build, processes: int, samples: int) -> tuple[Sequence[float], float]:
        assert build.code is not None
        said, seconds = self._kernel.answer(build.code, processes, samples)
        verdict, *numbers = said.split()
        return [float(number) for number in numbers] if verdict == "ok" else [], seconds
