"""Races search engines on what real compilers make of real kernels; docs/explanation/engines.md says how.

    python bench/race.py run --engines ga,optuna:tpe,random --seeds 5 [--objectives join,crc] [--minutes 60] [--record]
    python bench/race.py report             the tables of the page anew, from the committed races
    python bench/race.py freeze             fixes the engine and the held-out list, before `run --half held-out`

Builds, measurements and races are kept in one file: a run goes on where the last one ended. Seeds are dealt so that any
stop leaves the same seeds of every objective and engine. What is recorded stays: a later run adds its seeds to it. A
peer takes part where it is installed:
pip install optuna cmaes pymoo nevergrad smac kernel_tuner
"""

import argparse
import importlib
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import race_data
import race_report
from race_build import Workshop
from race_freeze import check_frozen, freeze
from race_kept import Kept
from race_objectives import Objective, Opened
from race_peers import ENGINES, installed, version
from race_runs import Race, run

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "engines.md"
SHOWN = (25, 50, 100, 200, 400)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended: a later run goes on from here"))
    asked = arguments()
    if asked.command == "freeze":
        freeze(listed("held-out", ""))
    elif asked.command == "report":
        race_report.write(PAGE, asked.half, race_data.read(race_data.path_of(asked.half)))
    else:
        fix_hashes()
        run_races(asked)


def fix_hashes() -> None:
    """Begin again with hashes that are always the same: SMAC3's proposals depend on the order of sets of texts."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, sys.orig_argv, os.environ | {"PYTHONHASHSEED": "0"})


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="race, and print medians")
    runs.add_argument("--half", choices=("open", "held-out"), default="open")
    runs.add_argument("--engines", help=f"between commas; all that are installed without it: {', '.join(ENGINES)}")
    runs.add_argument("--objectives", default="", help="beginnings of names, between commas; all without it")
    runs.add_argument("--seeds", type=int, default=20)
    runs.add_argument("--first-seed", type=int, default=0)
    runs.add_argument("--evaluations", type=int, default=200)
    runs.add_argument("--minutes", type=float, default=float("inf"), help="after which no race starts")
    runs.add_argument("--share", type=share, default=(0, 1), help="1/2 in one process and 2/2 beside it: half each")
    runs.add_argument("--record", action="store_true", help="write the races to bench/data, for `report`")
    runs.add_argument("--cache", type=Path, default=ROOT / ".compileiq" / "race.sqlite")
    reports = commands.add_parser("report", help="write the page's tables from the committed races")
    reports.add_argument("--half", choices=("open", "held-out"), default="held-out")
    commands.add_parser("freeze", help="fix the engine's code and the held-out list")
    return parser.parse_args()


def share(text: str) -> tuple[int, int]:
    """``2/3``, the second of three shares, as its place from 0 on and how many there are."""
    place, _, shares = text.partition("/")
    if not (place.isdigit() and shares.isdigit() and 1 <= int(place) <= int(shares)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 1/2")
    return int(place) - 1, int(shares)


def listed(half: str, beginnings: str) -> list[Objective]:
    half_of = importlib.import_module(
        f"race_{half.replace('-', '_')}"
    )  # so that nobody reads the other one by accident
    return [each for each in half_of.objectives() if each.name.startswith(tuple(beginnings.split(",")))]


def run_races(asked: argparse.Namespace) -> None:
    engines = asked.engines.split(",") if asked.engines else installed()
    objectives = listed(asked.half, asked.objectives)
    if asked.half == "held-out":
        check_frozen(objectives, engines, asked.first_seed)
    kept = Kept(asked.cache)
    workshop = Workshop(kept)
    opened = [objective.opened(workshop) for objective in objectives]
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    try:
        finished = list(whole_seeds(kept, opened, engines, seeds, asked))
    finally:
        for each in opened:
            each.close()
        workshop.close()
        kept.close()
    races: dict[str, dict[str, dict[int, Race]]] = {
        objective.name: {engine: {} for engine in raced_by(objective, engines)} for objective in objectives
    }
    for seed, by_place in finished:
        for (objective, engine), race in by_place.items():
            races[objective][engine][seed] = race
    if finished:
        print("\n".join(medians(races, asked.evaluations)))
    if finished and asked.record:
        path = race_data.path_of(asked.half)
        try:
            race_data.write(path, race_data.joined(race_data.read(path), races) if path.exists() else races)
        except ValueError as error:
            sys.exit(f"{path.name}: {error}")


def raced_by(objective: Objective, engines: Iterable[str]) -> list[str]:
    """Those of ``engines`` that take as many objectives as there are."""
    return [engine for engine in engines if ENGINES[engine].fronts or len(objective.metrics) == 1]


def whole_seeds(
    kept: Kept, opened: Sequence[Opened], engines: Sequence[str], seeds: range, asked: argparse.Namespace
) -> Iterator[tuple[int, dict[tuple[str, str], Race]]]:
    """Each seed with its races on every objective; one that the time or the other shares did not finish is left out.

    A share has every other objective of a seed, and the others of the next seed.
    """
    ends = time.monotonic() + 60 * asked.minutes
    place, shares = asked.share
    for seed in seeds:
        races: dict[tuple[str, str], Race] = {}
        missing = False
        for number, objective in enumerate(opened):
            for engine in raced_by(objective.objective, engines):
                key = f"{objective.identity} {engine} {version(engine)} {seed} {asked.evaluations}"
                moments = kept.race(key)
                if moments is None and (number + seed) % shares != place:
                    missing = True
                    continue
                if moments is None:
                    if time.monotonic() > ends:
                        return
                    kept.keep_race(key, run(engine, objective, seed, asked.evaluations).as_json())
                    moments = kept.race(key)
                race = races[objective.objective.name, engine] = Race.from_json(moments)
                print(f"{seed:>5} {objective.objective.name:<28}{engine:<24}{ended(race)}", flush=True)
        if not missing:
            yield seed, races


def ended(race: Race) -> str:
    last = race.moments[-1]
    seconds = f"{last.build_s:>7.1f} + {last.measure_s:.1f} + {last.engine_s:.1f} s"
    return f"{last.value:>9.4f}{last.builds:>6} builds{seconds}"


def medians(races: race_data.Races, evaluations: int) -> Iterator[str]:
    """One line an objective and engine: the median of what was held after some evaluations."""
    moments = [*(at for at in SHOWN if at < evaluations), evaluations]
    yield f"{'median log-ratio after':<52}" + "".join(f"{at:>9}" for at in moments)
    for objective, raced in races.items():
        for engine, seeds in raced.items():
            curves = [race_data.by_evaluations(race) for race in seeds.values()]
            middle = (statistics.median(curve.value(at) for curve in curves) for at in moments)
            yield f"{objective:<28}{engine:<24}" + "".join(f"{value:>9.4f}" for value in middle)


if __name__ == "__main__":
    main()
