"""The embedded engine against Optuna, pymoo, nevergrad and random search, on what real compilers make of real kernels.

Every engine gets the same space with its probabilities, the same seed, the baseline as its first candidate, and is
asked for one candidate at a time, so that it always knows all that has been measured. Builds and finished races are
kept in one file: a second run goes on with more seeds. CompileIQ is not raced: its licence does not allow it.

    OMP_NUM_THREADS=1 nice python bench/engines.py [--minutes 10] [--seeds 20] [--evaluations 200]

writes the table and the plot of docs/explanation/engines.md.
"""

import argparse
import hashlib
import importlib.metadata
import itertools
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest_compileiq
import race_report
from machine import describe
from pytest_compileiq.engines.base import Brief, Engine, Told
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space, choice, literal
from race_objectives import Cache, Objective, log_ratio, objectives
from race_peers import installed, opened

ROOT = Path(__file__).parents[1]
KNOBS = (30, 100, 300)
COST_EVALUATIONS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="of processor time, after which no race starts")
    parser.add_argument("--seeds", type=int, default=20, help="of each objective, at most (default: %(default)s)")
    parser.add_argument("--evaluations", type=int, default=200, help="of each race (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=ROOT / ".compileiq" / "bench-engines.sqlite")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "explanation" / "engines.md")
    asked = parser.parse_args()
    print(describe())
    versions = {name: version(name) for name in installed()}
    cache = Cache(asked.cache)
    with tempfile.TemporaryDirectory() as scratch:
        raced = list(objectives(cache, Path(scratch)))
        finished = race(cache, raced, versions, asked.seeds, asked.evaluations, 60 * asked.minutes)
        costs = {
            name: [cache.get(f"cost {key} {size}", lambda n=name, s=size: cost_ms(n, s)) for size in KNOBS]
            for name, key in versions.items()
        }
        race_report.write(asked.page, finished, {one.name: one.baseline for one in raced}, costs, asked.evaluations)


def race(
    cache: Cache, raced: list[Objective], versions: Mapping[str, str], seeds: int, evaluations: int, limit_s: float
) -> race_report.Races:
    """Seed by seed until the time is spent: objective → engine → for each seed, the best after each evaluation."""
    finished: race_report.Races = {one.name: {name: [] for name in versions} for one in raced}
    for seed, objective in itertools.product(range(seeds), raced):
        keys = {
            name: f"race {key} {objective.identity} {objective.name} {seed} {evaluations}"
            for name, key in versions.items()
        }
        if processor_s() > limit_s and not all(map(cache.known, keys.values())):
            continue
        for name, key in keys.items():
            values = cache.get(key, lambda n=name, o=objective, s=seed: list(bests(n, o, s, evaluations)))
            finished[objective.name][name].append(values)
            print(f"{seed:>3}  {objective.name:<60}{name:<16}{values[-1]:>8g}{processor_s():>8.0f} s", flush=True)
    return finished


def processor_s() -> float:
    """Processor time of this process and its compilers so far."""
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def bests(name: str, objective: Objective, seed: int, evaluations: int) -> Iterator[float]:
    """The best value after each evaluation of one search."""
    brief = Brief(objective.space, seed, budget=evaluations, seeds=[Candidate({})])
    engine = opened(name, brief)
    best, seen = objective.baseline, set()
    for _ in range(evaluations):
        for candidate in engine.ask(1):
            measured = objective.measured(candidate.knobs)
            if measured is None:
                engine.tell([Told(candidate, failure="compile")])
                continue
            value, code = measured
            best = min(best, value)
            engine.tell([Told(candidate, (log_ratio(value, objective.baseline),), duplicate=code in seen)])
            seen.add(code)
        yield best


def cost_ms(name: str, knobs: int) -> float:
    """Mean processor time of one ask and tell, in milliseconds, over a search of an objective that costs nothing."""
    space = Space.from_mapping(
        {f"-f{number}": literal("", 0.5) for number in range(knobs * 2 // 3)}
        | {f"-p{number}=": choice([1, 2, 4, 8], 0.5) for number in range(knobs - knobs * 2 // 3)}
    )
    engine: Engine = opened(name, Brief(space, 1, budget=COST_EVALUATIONS, seeds=[Candidate({})]))
    begun = time.process_time()
    for _ in range(COST_EVALUATIONS):
        for candidate in engine.ask(1):
            score = sum((hash_of(knob) - 0.5) / knobs for knob in candidate.knobs.items())
            engine.tell([Told(candidate, (score,))])
    return (time.process_time() - begun) / COST_EVALUATIONS * 1000


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
