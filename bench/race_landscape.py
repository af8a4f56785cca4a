"""Recorded landscapes: every point of a small space of gcc's options, timed once, and replayed with the noise it had.

    python bench/race_landscape.py        records bench/data anew: some minutes, on a machine with little else to do

For each kernel one file says which machine code each point of the space has, in the space's order (empty where gcc
refuses the options), and one holds the samples of each machine code. A sample is the time of a candidate's calls over
that of the baseline's calls just before them, each the median of five timings: the ratio that a search is told. A
replayed score is the logarithm of the median of three samples drawn, with repetition, from those recorded; what an
engine is judged by is the median of all of them.
"""

import csv
import ctypes
import math
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile

from pytest_compileiq.model import sha256_hex
from pytest_compileiq.space import Point, Space, choice, literal

BENCH = Path(__file__).parent
KERNELS = BENCH.parent / "tests" / "kernels"
DATA = BENCH / "data"
Metrics = dict[str, Any]  # "code" is the digest of the machine code, the others are numbers
SPACE = Space.from_mapping(
    {"-O": choice([1, 3, "s"], 0.4), "-falign-loops=": choice([1, 64], 0.6)}
    | {
        name: literal("", 0.6)
        for name in (
            "-ffast-math", "-funroll-loops", "-fno-ivopts", "-fno-tree-loop-vectorize", "-fschedule-insns",
            "-frename-registers", "-mprefer-vector-width=128", "-mbranch-cost=5",
        )
    }
)  # fmt: skip
BASELINE = ("-O2", "-march=x86-64-v3", "-fPIC", "-shared", "-nostdlib")
ROUNDS, DRAWN = 9, 3
SAMPLE_S = 1e-4

Call = Callable[[], object]


@dataclass(frozen=True)
class Objective:
    """A number to make small.

    Attributes:
        name: what it is, for the table.
        identity: a digest of all that it depends on.
        measured: knobs → metrics, or None when the compiler refuses them.
        value: metrics → the number that an engine is judged by.
        noisy: metrics and a random source → the score that an engine is told; None where the score is the number's own.
    """

    name: str
    identity: str
    space: Space
    measured: Callable[[Mapping[str, Any]], Metrics | None]
    value: Callable[[Metrics], float]
    noisy: Callable[[Metrics, np.random.Generator], float] | None = None

    @property
    def baseline(self) -> float:
        measured = self.measured({})
        assert measured is not None
        return self.value(measured)

    def score(self, metrics: Metrics, rng: np.random.Generator) -> float:
        """What an engine is told: the logarithm of the ratio to the baseline's; lower is better."""
        if self.noisy is not None:
            return self.noisy(metrics, rng)
        return math.log(self.value(metrics) / self.baseline)


def replayed() -> Iterator[Objective]:
    """The landscapes that are recorded."""
    for times in sorted(DATA.glob("*-times.csv")):
        name = times.name.removesuffix("-times.csv")
        points = DATA / f"{name}-points.csv"
        codes = [row["code"] for row in _rows(points)]
        held = {row["code"]: _metrics(row) for row in _rows(times)}
        of_point = {point: held.get(code) for point, code in zip(SPACE.points(), codes, strict=True)}
        identity = sha256_hex(points.read_bytes() + times.read_bytes())
        yield Objective(f"{name}.c, recorded: code bytes", identity, SPACE, _recorded(of_point), _code_bytes)
        yield Objective(
            f"{name}.c, recorded: time over -O2's, with noise", identity, SPACE, _recorded(of_point), _time, _noisy
        )


def _metrics(row: Mapping[str, str]) -> Metrics:
    return {
        "code": row["code"],
        "code_bytes": int(row["code_bytes"]),
        "ratios": [float(ratio) for ratio in row["ratios"].split()],
    }


def _recorded(of_point: Mapping[Point, Metrics | None]) -> Callable[[Mapping[str, Any]], Metrics | None]:
    return lambda knobs: of_point[SPACE.point(knobs)]


def _code_bytes(metrics: Metrics) -> float:
    return float(metrics["code_bytes"])


def _time(metrics: Metrics) -> float:
    return statistics.median(metrics["ratios"])


def _noisy(metrics: Metrics, rng: np.random.Generator) -> float:
    return math.log(statistics.median(rng.choice(metrics["ratios"], size=DRAWN)))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


# ── recording ────────────────────────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for source in (BENCH / "kernels" / "nearest_centroid.c", KERNELS / "histogram.c"):
            record(source, Path(scratch))


def record(source: Path, scratch: Path) -> None:
    """Compile every point, time every machine code that came out, in shuffled rounds."""
    numbers: dict[str, int] = {}
    sizes: list[int] = []
    libraries: list[Path] = []
    codes: list[int | str] = []
    for point in SPACE.points():
        library = scratch / f"{source.stem}-{len(libraries)}.so"
        code, code_bytes = _compile(source, SPACE.knobs(point), library)
        if code and code not in numbers:
            numbers[code] = len(numbers)
            sizes.append(code_bytes)
            libraries.append(library)
        codes.append(numbers[code] if code else "")
    ratios = _timed([_call(source.stem, library) for library in libraries], codes[0])
    _write(DATA / f"{source.stem}-points.csv", ["code"], ([code] for code in codes))
    lines = (" ".join(f"{ratio:.3f}" for ratio in each) for each in ratios)
    rows = zip(range(len(sizes)), sizes, lines, strict=True)
    _write(DATA / f"{source.stem}-times.csv", ["code", "code_bytes", "ratios"], rows)
    print(f"{source.name}: {len(codes)} points, {len(ratios)} machine codes, {ROUNDS} samples each")


def _timed(calls: Sequence[Call], baseline: int) -> list[list[float]]:
    """For each of ``calls`` its samples: time over the time of the baseline's calls just before."""
    repeats = max(1, round(SAMPLE_S / _seconds(calls[baseline], 100)))
    ratios: list[list[float]] = [[] for _ in calls]
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS):
        for number in rng.permutation(len(calls)):
            before = _median_s(calls[baseline], repeats)
            ratios[number].append(_median_s(calls[number], repeats) / before)
    return ratios


def _compile(source: Path, knobs: Mapping[str, Any], library: Path) -> tuple[str, int]:
    """The digest of its machine code and the bytes of it; nothing where gcc refuses the options."""
    options = [f"{name}{value}" for name, value in knobs.items()]
    done = subprocess.run(["gcc", *BASELINE, *options, source, "-o", library, "-lm"], check=False)
    if done.returncode != 0:
        return "", 0
    with library.open("rb") as stream:
        loaded = [each for each in ELFFile(stream).iter_sections() if each.name.startswith((".text", ".rodata"))]
        code_bytes = sum(each.data_size for each in loaded if each.name.startswith(".text"))
        return sha256_hex(b"".join(each.data() for each in loaded)), code_bytes


def _median_s(call: Call, repeats: int) -> float:
    """Of five timings, after one call that is not timed."""
    call()
    return statistics.median(_seconds(call, repeats) for _ in range(5))


def _seconds(call: Call, repeats: int) -> float:
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats


def _call(name: str, library: Path) -> Call:
    rng = np.random.default_rng(2)
    if name == "histogram":
        values, counts = rng.normal(size=9000).astype(np.float32), np.zeros(64, np.int32)
        arguments = (values, 9000, ctypes.c_float(-3), ctypes.c_float(3), counts)
    else:
        points, centroids = (rng.normal(size=size).astype(np.float32) for size in (300 * 19, 12 * 19))
        arguments = (points, centroids, np.zeros(300, np.int32), 300, 12, 19)
    function = ctypes.CDLL(str(library))[name]
    given = [each.ctypes.data_as(ctypes.c_void_p) if isinstance(each, np.ndarray) else each for each in arguments]

    def call(keep: object = arguments) -> None:  # keeps the arrays alive
        function(*given)

    return call


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    main()
