"""Is a value-safe candidate bit-identical to its baseline wherever no licence is present? Counter-examples are sought.

Random candidates of gcc's default space are built over small kernels (``value_safe_kernels/``, and drivers of other
people's sources where ``--others`` has them), under four baselines: SSE, FMA, contraction off, and AVX2 without FMA.
Every distinct machine code is loaded once, in a process of its own, and called on every input: normal and wide
exponents, denormals, NaN and infinities, zeros, small integers. Outputs must be equal bit by bit, NaN being equal to
NaN, unless a licence was found; how many made use of it is shown. A difference without a licence is shrunk to the
options that make it, and ends the bench with 1; so does a licence that was not expected, or is missing, and a case
that was left out or of whose candidates more than a tenth were not built.

    python bench/value_safe.py [--candidates 10000] [--seed 1] [--kernels dot,constants] [--others DIR]
                               [--jobs 2] [--results FILE]

With ``--results`` what is finished is appended to FILE, and the same command goes on behind it.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from machine import describe
from pytest_compileiq.errors import BuildError, EnvironmentFault
from pytest_compileiq.model import Candidate, Knobs, Licence
from pytest_compileiq.toolchains.base import Builder, Place
from pytest_compileiq.toolchains.cc.marker import Cc, Fortran

KERNELS = Path(__file__).parent / "value_safe_kernels"
_AVX2 = "-march=x86-64-v3"
BASELINES = ("-O2", f"-O3 {_AVX2}", f"-O2 {_AVX2} -ffp-contract=off", f"-O2 {_AVX2} -mno-fma")
FLAGS_OF = {"directive": "-fopenmp-simd"}
# The licences that a kernel has by its source, and whether it multiplies and adds, so that FMA brings another.
LICENSED = {
    "addresses": {"libm folding"},
    "inlined": {"complex constants"},
    "upward": {"rounding mode"},
    "zeros": {"libm folding"},
    "constants": {"libm folding"},
    "directive": {"simd reduction"},
    "logistic": {"libm folding"},
    "bits": {"NaN payloads"},
    "rotations": {"complex constants"},
    "powers": {"libm folding"},
    "kiss_fft_": {"libm folding"},
}
FUSED = frozenset(
    ("dot", "axpy", "matmul", "stencil", "bodies", "horner", "constants", "logistic", "bits", "rotations", "rounded",
     "powers", "kiss_fft_", "addresses", "inlined", "upward")
)  # fmt: skip
# Those of them that subtract too: gcc 12 fuses sums and differences side by side although contraction is off.
FUSED_IN_PAIRS = frozenset(("bodies", "horner", "constants", "rotations", "rounded", "kiss_fft_", "inlined"))
BLOCK = 25  # as many candidates at most are drawn, built and run together
MOST_UNBUILT = 0.1  # of a case's candidates
RUN_S = 120
BUILD_S = 60.0
TYPES = {"f32": np.float32, "f64": np.float64, "u8": np.uint8, "u32": np.uint32, "u64": np.uint64, "i32": np.int32,
         "i64": np.int64}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One kernel under one baseline."""

    source: Path
    flags: str
    takes: str
    gives: str

    @property
    def name(self) -> str:
        return f"{self.source.stem} {self.flags.partition(' -I')[0]}"

    def builder(self) -> Builder:
        toolchain = Fortran if self.source.suffix == ".f90" else Cc
        named = {"compiler": "g++"} if self.source.suffix == ".cpp" else {}
        return toolchain(self.source.name, flags=self.flags, **named).resolve(Place(KERNELS, KERNELS))

    def expected(self) -> set[str]:
        fused = FUSED_IN_PAIRS if "-ffp-contract=off" in self.flags else FUSED
        has_fma = _AVX2 in self.flags and "-mno-fma" not in self.flags
        contraction = {"contraction"} if has_fma and self.source.stem in fused else set()
        return LICENSED.get(self.source.stem, set()) | contraction


@dataclass(frozen=True)
class Difference:
    """Where a candidate's output is not the baseline's."""

    draw: str
    index: int
    baseline: object
    tuned: object
    count: int


def cases(names: Sequence[str], others: Path | None) -> Iterator[Case]:
    for source in sorted(KERNELS.iterdir()):
        header = re.search(r"in: (\w+), out: (\w+)(?:, of: ([\w.]+))?", source.read_text().partition("\n")[0])
        if header is None or (names and source.stem.rstrip("_") not in names):
            continue
        includes = ""
        if header[3]:
            here = sorted(others.rglob(header[3]), key=lambda path: len(path.parts)) if others else []
            if not here:
                print(f"{source.stem}: left out, since no {header[3]} was given by --others")
                continue
            includes = f" -I{here[0].parent.resolve()}"
        for baseline in BASELINES:
            flags = f"{baseline} {FLAGS_OF.get(source.stem, '')}{includes}"
            yield Case(source, " ".join(flags.split()), header[1], header[2])


def draws(kind: str, seed: int) -> dict[str, np.ndarray]:
    """Inputs by name, of two lengths that no vector divides."""
    rng = np.random.default_rng(seed)
    dtype = TYPES[kind]
    by_name: dict[str, np.ndarray] = {}
    for n in (1003, 13):
        if dtype in (np.float32, np.float64):
            far = 36 if dtype is np.float32 else 300
            tiny = np.finfo(dtype).smallest_subnormal
            special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).max, tiny, 1.0])
            normal = rng.standard_normal(n)
            by_name |= {
                f"normal {n}": normal,
                f"wide {n}": normal * 10.0 ** rng.uniform(-far, far, n),
                f"denormal {n}": rng.integers(-1000, 1000, n) * float(tiny),
                f"special {n}": np.where(rng.random(n) < 0.2, rng.choice(special, n), normal),
                f"zeros {n}": rng.choice([0.0, -0.0], n),
                f"small {n}": rng.integers(-3, 4, n).astype(float),
            }
        else:
            by_name |= {
                f"random {n}": rng.integers(0, np.iinfo(dtype).max, n, endpoint=True, dtype=dtype),
                f"text {n}": np.frombuffer(b"the banana and the ape, " * n, np.uint8)[:n],
                f"small {n}": rng.integers(0, 4, n),
                f"constant {n}": np.full(n, np.iinfo(dtype).max, dtype),
            }
    with np.errstate(over="ignore"):
        return {name: np.ascontiguousarray(values.astype(dtype)) for name, values in by_name.items()}


class Runner:
    """A process that loads a case's libraries, each in a fork of its own."""

    def __init__(self, inputs: Path, gives: str) -> None:
        program = Path(__file__).with_name("run_libraries.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(inputs), np.dtype(TYPES[gives]).name, str(RUN_S)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._turn = threading.Lock()

    def outputs(self, library: Path) -> dict[str, np.ndarray] | str:
        """What a library gives on each input, or why it gives nothing."""
        with self._turn:
            self._process.stdin.write(f"{library}\n")
            self._process.stdin.flush()
            code = self._process.stdout.readline().strip()
        if code != "0":
            return f"did not end within {RUN_S} s" if code == "-14" else f"ended with {code or 'its process'}"
        with np.load(f"{library}.npz") as arrays:
            return {name: arrays[name] for name in arrays.files}

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def compare(baseline: Mapping[str, np.ndarray], tuned: Mapping[str, np.ndarray]) -> Difference | None:
    """The first value that is not the same, bit by bit, NaN being equal to NaN."""
    for name, before in baseline.items():
        after = tuned[name]
        if before.shape != after.shape:
            return Difference(name, -1, before.size, after.size, 1)
        bits = np.dtype(f"u{before.itemsize}")
        differs = before.view(bits) != after.view(bits)
        if before.dtype.kind == "f":
            differs &= ~(np.isnan(before) & np.isnan(after))
        if differs.any():
            index = int(np.argmax(differs))
            return Difference(name, index, before[index].item(), after[index].item(), int(differs.sum()))
    return None


class Bench:
    """One case: its baseline, what its machine codes give, and what was counted."""

    def __init__(self, case: Case, home: Path, seed: int, jobs: int) -> None:
        self.case, self.home, self.jobs = case, home, jobs
        self.builder = case.builder()
        self.space = self.builder.default_space()
        self.licences: tuple[Licence, ...] = self.builder.licences()
        self.inputs = home / "inputs.npz"
        np.savez(self.inputs, **draws(case.takes, seed))
        self.verdicts: dict[str, Difference | str | None] = {}
        built = self.builder.build(None, home / "baseline", timeout_s=BUILD_S)
        self.runner = Runner(self.inputs, case.gives)
        expected = self.runner.outputs(built.path)
        if isinstance(expected, str):
            raise SystemExit(f"{case.name}: the baseline {expected}")
        self.expected = expected
        self.verdicts[built.digest] = None
        self._numbers = itertools.count()

    def judge(self, knobs: Knobs) -> Difference | str | None:
        """None where a candidate gives what the baseline gives; else the difference, or why there is no output."""
        out_dir = self.home / str(next(self._numbers))
        try:
            built = self.builder.build(self.builder.render(Candidate(knobs)), out_dir, timeout_s=BUILD_S)
        except BuildError as error:
            return f"not built: {error}"
        if built.digest not in self.verdicts:
            given = self.runner.outputs(built.path)
            self.verdicts[built.digest] = given if isinstance(given, str) else compare(self.expected, given)
        shutil.rmtree(out_dir)
        return self.verdicts[built.digest]

    def judge_all(self, block: Sequence[Knobs]) -> list[Difference | str | None]:
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(self.judge, block))

    def shrunk(self, knobs: Knobs) -> Knobs:
        """The knobs without those that the difference does not need."""
        left = dict(knobs)
        for name in list(left):
            fewer = {other: value for other, value in left.items() if other != name}
            if isinstance(self.judge(fewer), Difference):
                left = fewer
        return left


def block_of(bench: Bench, seed: int, number: int, size: int) -> list[Knobs]:
    rng = np.random.default_rng([seed, number, len(bench.case.name), *bench.case.name.encode()])
    return [bench.space.knobs(bench.space.sample(rng)) for _ in range(size)]


def judged(case: Case, blocks: Sequence[int], size: int, seed: int, jobs: int) -> Iterator[dict[str, object]]:
    """A row for the case's licences and one for every block of candidates."""
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(case, Path(home), seed, jobs)
        names = sorted({licence.name for licence in bench.licences})
        explained: set[str] = set()
        for number in blocks:
            started = time.monotonic()
            known = len(bench.verdicts)
            block = block_of(bench, seed, number, size)
            verdicts = bench.judge_all(block)
            rows = []
            for knobs, verdict in zip(block, verdicts, strict=True):
                if isinstance(verdict, Difference) and not names:
                    smallest = bench.shrunk(knobs)
                    text = f"{' '.join(f'{name}{value}' for name, value in smallest.items())}: {verdict}"
                    if text not in explained:
                        rows.append(text)
                    explained.add(text)
                if isinstance(verdict, str) and not verdict.startswith("not built"):
                    rows.append(f"{knobs}: {verdict}")
            yield {
                "case": case.name, "block": number, "licences": names,
                "expected": sorted(case.expected()), "candidates": len(block),
                "codes": len(bench.verdicts) - known,
                "differ": sum(isinstance(verdict, Difference) for verdict in verdicts),
                "unbuilt": sum(isinstance(verdict, str) and verdict.startswith("not built") for verdict in verdicts),
                "unexplained": rows, "seconds": round(time.monotonic() - started, 1),
            }  # fmt: skip
        bench.runner.end()


def summary(names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> int:
    """Print what was found case by case; 1 if anything is unexplained, or was hardly tried, else 0."""
    by_case = collections.defaultdict(list)
    for row in rows:
        by_case[row["case"]].append(row)
    failures = [f"{name}: left out" for name in names if name not in by_case]
    print(f"{'kernel and baseline':62}{'candidates':>11}{'codes':>7}{'differ':>8}  licences")
    for name, each in by_case.items():
        total = {key: sum(row[key] for row in each) for key in ("candidates", "codes", "differ", "unbuilt")}
        licences = ", ".join(each[0]["licences"]) or "-"
        print(f"{name[:60]:62}{total['candidates']:11}{total['codes']:7}{total['differ']:8}  {licences}")
        failures += [f"{name}: {text}" for row in each for text in row["unexplained"]]
        if each[0]["licences"] != each[0]["expected"]:
            failures.append(f"{name}: expected the licences {each[0]['expected']}, found {each[0]['licences']}")
        if total["unbuilt"]:
            print(f"{'':4}{total['unbuilt']} not built")
        if total["unbuilt"] > MOST_UNBUILT * total["candidates"]:
            failures.append(f"{name}: {total['unbuilt']} of {total['candidates']} candidates were not built")
    candidates = sum(row["candidates"] for row in rows)
    seconds = sum(row["seconds"] for row in rows)
    print(f"{candidates} candidates, {sum(row['codes'] for row in rows)} machine codes that were run, "
          f"{sum(row['differ'] for row in rows)} that differ, under a licence or without; "
          f"{seconds / 60:.1f} min, {60 * candidates / max(seconds, 1):.0f} a minute")  # fmt: skip
    print("\n".join(["unexplained:", *failures]) if failures else "nothing unexplained")
    return bool(failures)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernels", default="", help="names, with commas between them")
    parser.add_argument("--others", type=Path, help="a directory that holds lz4, xxHash and kissfft")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    print(describe())
    chosen = list(cases([name for name in arguments.kernels.split(",") if name], arguments.others))
    if not chosen:
        parser.error(f"no kernel is called {arguments.kernels!r}")
    rows = []
    if arguments.results and arguments.results.exists():
        rows = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    done = {(row["case"], row["block"]) for row in rows}
    each = -(-arguments.candidates // len(chosen))
    size = min(BLOCK, each)
    blocks = -(-each // size)
    for case in chosen:
        left = [number for number in range(blocks) if (case.name, number) not in done]
        try:
            for row in judged(case, left, size, arguments.seed, arguments.jobs) if left else ():
                rows.append(row)
                if arguments.results:
                    with arguments.results.open("a") as file:
                        file.write(json.dumps(row) + "\n")
        except EnvironmentFault as fault:
            print(f"{case.name}: left out: {fault}")
            continue
        counted = [row for row in rows if row["case"] == case.name]
        licences = ", ".join(counted[0]["licences"]) or "no licence"
        print(f"{case.name}: {sum(row['differ'] for row in counted)} differ; {licences}", flush=True)
    names = [case.name for case in chosen]
    return summary(names, [row for row in rows if row["case"] in names])


if __name__ == "__main__":
    sys.exit(main())
