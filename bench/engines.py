"""The embedded engine against Optuna, pymoo, nevergrad and random search, on what real compilers make of real kernels.

Every engine gets the same space with its probabilities, the same seed, the baseline as its first candidate, and is
asked for one candidate at a time, so that it always knows all that has been measured. Builds and finished races are
kept in one file: a second run goes on with more seeds. CompileIQ is not raced: its licence does not allow it.

    OMP_NUM_THREADS=1 nice python bench/engines.py [--minutes 10] [--seeds 20] [--evaluations 400]

writes the table and the plot of docs/explanation/engines.md.
"""

import argparse
import hashlib
import importlib.metadata
import itertools
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np

import pytest_compileiq
import race_landscape
import race_report
from machine import describe
from pytest_compileiq.engines.base import Brief, Engine, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space, choice, literal
from race_objectives import Cache, Objective, compiled_objectives
from race_peers import installed, opened

ROOT = Path(__file__).parents[1]
KNOBS = (30, 100, 300)
COST_EVALUATIONS = 200
LONG_EVALUATIONS = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="of processor time, after which no race starts")
    parser.add_argument("--seeds", type=int, default=20, help="of each objective, at most (default: %(default)s)")
    parser.add_argument("--evaluations", type=int, default=400, help="of each race (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=ROOT / ".compileiq" / "bench-engines.sqlite")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "explanation" / "engines.md")
    asked = parser.parse_args()
    print(describe())
    versions = {name: version(name) for name in installed()}
    kept = Cache(asked.cache)
    with tempfile.TemporaryDirectory() as scratch:
        raced = [*compiled_objectives(kept, Path(scratch)), *race_landscape.replayed()]
        finished = race(kept, raced, versions, asked.seeds, asked.evaluations, 60 * asked.minutes)
    costs = {
        name: [kept.get(f"cost {key} {size}", lambda n=name, s=size: cost_ms(n, s)) for size in KNOBS]
        for name, key in versions.items()
    }
    long = kept.get(f"long {versions[race_report.OURS]} {LONG_EVALUATIONS}", long_search)
    baselines = {one.name: one.baseline for one in raced}
    race_report.write(asked.page, finished, baselines, costs, long, asked.evaluations)


def race(
    kept: Cache, raced: list[Objective], versions: Mapping[str, str], seeds: int, evaluations: int, limit_s: float
) -> race_report.Races:
    """Seed by seed until the time is spent: objective → engine → for each seed, the best after each evaluation."""
    finished: race_report.Races = {one.name: {name: [] for name in versions} for one in raced}
    for seed, objective in itertools.product(range(seeds), raced):
        keys = {
            name: f"race {key} {objective.identity} {objective.space.digest} {objective.name} {seed} {evaluations}"
            for name, key in versions.items()
        }
        if processor_s() > limit_s and not all(map(kept.known, keys.values())):
            continue
        for name, key in keys.items():
            values = kept.get(key, lambda n=name, o=objective, s=seed: list(bests(n, o, s, evaluations)))
            finished[objective.name][name].append(values)
            print(f"{seed:>3}  {objective.name:<60}{name:<16}{values[-1]:>8g}{processor_s():>8.0f} s", flush=True)
    return finished


def processor_s() -> float:
    """Processor time of this process and its compilers so far."""
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def bests(name: str, objective: Objective, seed: int, evaluations: int) -> Iterator[float]:
    """After each evaluation of one search, the value of what has the best score so far."""
    brief = Brief(objective.space, seed, budget=evaluations, seeds=[Candidate({})])
    engine = opened(name, brief)
    noise = np.random.default_rng([seed, 1])
    least, best = 0.0, objective.baseline
    score_of: dict[str, float] = {}  # equal machine code is measured once, as in a real search
    for _ in range(evaluations):
        for candidate in engine.ask(1):
            metrics = objective.measured(candidate.knobs)
            if metrics is None:
                engine.tell([Told(candidate, failure="compile")])
                continue
            duplicate = metrics["code"] in score_of
            score = score_of.setdefault(metrics["code"], objective.score(metrics, noise))
            if score < least:
                least, best = score, objective.value(metrics)
            engine.tell([Told(candidate, (score,), duplicate=duplicate)])
        yield best


def cost_ms(name: str, knobs: int) -> float:
    """Mean processor time of one ask and tell, in milliseconds, over a search of an objective that costs nothing."""
    engine: Engine = opened(name, Brief(costless_space(knobs), 1, budget=COST_EVALUATIONS, seeds=[Candidate({})]))
    return statistics.mean(asks_s(engine, 1, COST_EVALUATIONS)) * 1000


def long_search() -> dict[str, float]:
    """Our engine over 10,000 evaluations at 100 knobs, asked for four at a time: does an ask grow dear, does memory?"""
    engine = make(race_report.OURS, Brief(costless_space(100), 1, budget=LONG_EVALUATIONS))
    early = list(asks_s(engine, 4, 440))
    memory = resident_mb()
    later = list(asks_s(engine, 4, LONG_EVALUATIONS - 440))
    return {
        "evaluations": LONG_EVALUATIONS,
        "at_400_ms": statistics.median(early[-20:]) * 1000,
        "later_ms": statistics.median(later) * 1000,
        "slowest_ms": max(later) * 1000,
        "memory_mb": memory,
        "memory_grown_mb": resident_mb() - memory,
    }


def asks_s(engine: Engine, n: int, evaluations: int) -> Iterator[float]:
    """Processor time, in seconds, of each ask for ``n`` and the tell of what it gave."""
    for _ in range(evaluations // n):
        begun = time.process_time()
        asked = engine.ask(n)
        told = [Told(one, (sum(hash_of(knob) - 0.5 for knob in one.knobs.items()),)) for one in asked]
        engine.tell(told)
        yield time.process_time() - begun


def costless_space(knobs: int) -> Space:
    """On/off knobs, and one knob of four values to every two of them."""
    return Space.from_mapping(
        {f"-f{number}": literal("", 0.5) for number in range(knobs * 2 // 3)}
        | {f"-p{number}=": choice([1, 2, 4, 8], 0.5) for number in range(knobs - knobs * 2 // 3)}
    )


def resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 1e6


@cache
def hash_of(value: object) -> float:
    """A number from 0 to 1 that depends on ``value`` alone."""
    return int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:4], "big") / 2**32


def version(name: str) -> str:
    """What a race of this engine depends on: its code here, or the package's version."""
    package = name.partition(":")[0]
    home = Path(pytest_compileiq.__file__).parent / "engines"
    ours = sorted(home.glob(f"{package}.py")) + sorted((home / package).glob("*.py"))
    ours = ours or [Path(__file__).with_name("race_peers.py")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in ours)).hexdigest()[:16]
    return f"{name} {digest} {importlib.metadata.version(package) if package not in ('ga', 'random') else ''}"


if __name__ == "__main__":
    main()
