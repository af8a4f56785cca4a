"""Races search engines on what real compilers make of real kernels; docs/explanation/engines.md says how.

    python bench/race.py run --half open --engines ga,optuna:tpe,random --seeds 5 [--objectives join-time,crc]

Builds, measurements and races are kept in one file, so that a run goes on where the last one ended. Seeds are dealt so
that any stop leaves the same seeds of every objective and engine.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from race_build import Workshop
from race_kept import Kept
from race_objectives import Objective, Opened
from race_peers import ENGINES, version
from race_runs import Race, run

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="race, and print medians")
    runs.add_argument("--half", choices=("open", "held-out"), default="open")
    runs.add_argument("--engines", default="ga,optuna:tpe,random", help=f"of {', '.join(ENGINES)}")
    runs.add_argument("--objectives", help="beginnings of names, between commas; all of the half without it")
    runs.add_argument("--seeds", type=int, default=5)
    runs.add_argument("--first-seed", type=int, default=0)
    runs.add_argument("--evaluations", type=int, default=200)
    runs.add_argument("--minutes", type=float, default=1e9, help="after which no race starts")
    runs.add_argument("--cache", type=Path, default=ROOT / ".compileiq" / "race.sqlite")
    runs.set_defaults(do=race)
    asked = parser.parse_args()
    asked.do(asked)


def race(asked: argparse.Namespace) -> None:
    kept = Kept(asked.cache)
    workshop = Workshop(kept)
    objectives = [objective.opened(workshop) for objective in chosen(asked.half, asked.objectives)]
    engines = asked.engines.split(",")
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    ends = time.monotonic() + 60 * asked.minutes
    races: dict[tuple[str, str], list[Race]] = {}
    for seed, objective in itertools.product(seeds, objectives):
        for engine in engines:
            if len(objective.objective.metrics) > 1 and not ENGINES[engine].fronts:
                continue
            key = f"{objective.identity} {engine} {version(engine)} {seed} {asked.evaluations}"
            found = kept.race(key)
            if found is None:
                if time.monotonic() > ends:
                    break
                found = run(engine, objective, seed, asked.evaluations).as_json()
                kept.keep_race(key, found)
            raced = Race.from_json(found)
            races.setdefault((objective.objective.name, engine), []).append(raced)
            last = raced.moments[-1]
            print(
                f"{seed:>5} {objective.objective.name:<28}{engine:<14}{last.value:>9.4f}{last.builds:>6} builds"
                f"{last.build_s:>7.1f} + {last.measure_s:.1f} + {last.engine_s:.1f} s",
                flush=True,
            )
    for line in medians(objectives, engines, races, asked.evaluations):
        print(line)
    for objective in objectives:
        objective.close()
    workshop.close()


def chosen(half: str, beginnings: str | None) -> Iterator[Objective]:
    if half == "open":
        import race_open as listed
    else:
        import race_held_out as listed
    for objective in listed.objectives():
        if beginnings is None or objective.name.startswith(tuple(beginnings.split(","))):
            yield objective


def medians(
    objectives: Sequence[Opened], engines: Sequence[str], races: dict[tuple[str, str], list[Race]], evaluations: int
) -> Iterator[str]:
    """One line an objective and engine: the median value after 50, 100, 200 evaluations."""
    moments = [at for at in (25, 50, 100, 200, 400) if at <= evaluations]
    yield f"{'median log-ratio after':<42}" + "".join(f"{at:>9}" for at in moments)
    for objective, engine in itertools.product(objectives, engines):
        raced = races.get((objective.objective.name, engine), [])
        if raced:
            values = "".join(f"{statistics.median(value_at(race, at) for race in raced):>9.4f}" for at in moments)
            yield f"{objective.objective.name:<28}{engine:<14}{values}  ({len(raced)} seeds)"


def value_at(race: Race, evaluation: int) -> float:
    """What the race held after ``evaluation`` evaluations."""
    return [moment.value for moment in race.moments if moment.evaluation <= evaluation][-1]


if __name__ == "__main__":
    main()
