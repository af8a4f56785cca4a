"""Finished races as committed data: for each race the moments at which what it held changed, and its end."""

import csv
import gzip
import io
from collections.abc import Mapping
from dataclasses import astuple, fields
from pathlib import Path

from race_figures import Curve
from race_runs import Moment, Race

DATA = Path(__file__).parent / "data"
Races = Mapping[str, Mapping[str, dict[int, Race]]]  # objective → engine → seed → race
_COLUMNS = [field.name for field in fields(Moment)]
_KEY = ["objective", "engine", "seed"]


def path_of(half: str) -> Path:
    return DATA / f"race-{half}.csv.gz"


def write(path: Path, races: Races) -> None:
    """Write ``races``, the same bytes for the same races."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*_KEY, *_COLUMNS])
    for objective, engines in sorted(races.items()):
        for engine, seeds in sorted(engines.items()):
            for seed, race in sorted(seeds.items()):
                rows.writerows([objective, engine, seed, *map(_short, astuple(moment))] for moment in race.moments)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def read(path: Path) -> Races:
    """What ``write`` has written."""
    races: dict[str, dict[str, dict[int, Race]]] = {}
    for row in csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode())):
        race = races.setdefault(row["objective"], {}).setdefault(row["engine"], {}).setdefault(int(row["seed"]), Race())
        numbers = {name: float(row[name]) for name in _COLUMNS}
        race.moments.append(Moment(**numbers | {"evaluation": int(row["evaluation"]), "builds": int(row["builds"])}))
    return races


def joined(recorded: Races, more: Races) -> Races:
    """``recorded`` with the seeds of ``more`` that it lacks: of one seed the first run counts.

    Raises:
        ValueError: they are not of the same objectives and engines.
    """
    if _names(recorded) != _names(more):
        raise ValueError("the recorded races are of other objectives or engines than these: race all of them")
    return {
        objective: {engine: more[objective][engine] | recorded[objective][engine] for engine in recorded[objective]}
        for objective in recorded
    }


def by_evaluations(race: Race) -> Curve:
    """What the race held after each evaluation."""
    return Curve(tuple(moment.evaluation for moment in race.moments), tuple(moment.value for moment in race.moments))


def by_seconds(race: Race) -> Curve:
    """What the race held by the seconds of its builds and measurements and the engine's own."""
    seconds = (moment.build_s + moment.measure_s + moment.engine_s for moment in race.moments)
    return Curve(tuple(seconds), tuple(moment.value for moment in race.moments))


def _names(races: Races) -> set[tuple[str, str]]:
    return {(objective, engine) for objective, engines in races.items() for engine in engines}


def _short(number: float) -> str:
    return f"{number:.5g}" if isinstance(number, float) else str(number)
