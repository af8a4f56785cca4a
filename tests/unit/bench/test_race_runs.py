"""A race on an objective that nothing is built for: what counts, what is held, what is kept of it."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import dataclass, field
from math import inf

import pytest

import race
import race_data
import race_freeze
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.space import Space, choice, literal
from race_build import Build
from race_kept import Kept
from race_objectives import Measured
from race_runs import Moment, Race, run

SPACE = Space.from_mapping({f"-f{number}": literal("", 0.5) for number in range(12)} | {"-p=": choice([1, 2, 4], 0.5)})


@dataclass
class Target:
    """As much of an ``Objective`` as a race reads."""

    name: str = "imagined"
    space: Space = SPACE
    metrics: tuple[str, ...] = ("code_bytes",)
    is_run: bool = False


@dataclass
class Imagined:
    """Each option that is on is worth something; -f0 does not build, -f1 gives wrong results, -f2 changes no code."""

    objective: Target = field(default_factory=Target)
    identity: str = "imagined"
    built: list[dict] = field(default_factory=list)
    scores: dict[str, tuple[float, bool]] = field(default_factory=dict)

    def build(self, knobs):
        self.built.append(dict(knobs))
        counted = {name: value for name, value in knobs.items() if name != "-f2"}
        code = sha256_hex(repr(sorted(counted.items())).encode())
        self.scores[code] = (-0.01 * len(counted), "-f1" in knobs)
        return Build(None if "-f0" in knobs else code, 100, 0.5)

    def measured(self, build):
        score, is_wrong = self.scores[build.code]
        halves = (score,) * len(self.objective.metrics)
        return "wrong" if is_wrong else Measured(tuple([each] for each in halves), halves, 0.25)


def kept_races(kept, share, minutes=inf):
    asked = argparse.Namespace(evaluations=10, minutes=minutes, share=share)
    opened = [Imagined(Target(name), name) for name in ("left", "right")]
    return dict(race.whole_seeds(kept, opened, ["random"], range(3), asked))


@pytest.fixture
def kept_in(tmp_path):
    """Files that races are kept in, by name."""
    with contextlib.ExitStack() as held:
        yield lambda name: held.enter_context(contextlib.closing(Kept(tmp_path / name)))


def test_two_shares_race_what_a_run_without_shares_races(kept_in):
    kept = kept_in("race.sqlite")
    assert kept_races(kept, (0, 2)) == {}
    shared = kept_races(kept, (1, 2))
    assert shared == kept_races(kept, (0, 1), minutes=0)
    assert list(shared) == [0, 1, 2] and {name for name, _ in shared[0]} == {"left", "right"}
    curves = {seed: [race_data.by_evaluations(each) for each in races.values()] for seed, races in shared.items()}
    alone = kept_races(kept_in("alone.sqlite"), (0, 1))
    assert curves == {
        seed: [race_data.by_evaluations(each) for each in races.values()] for seed, races in alone.items()
    }


def test_a_run_without_time_races_nothing(kept_in):
    assert kept_races(kept_in("race.sqlite"), (0, 1), minutes=-1) == {}


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_a_share_that_is_none_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a share"):
        race.share(text)


def test_a_share_is_counted_from_nought():
    assert race.share("1/2") == (0, 2)
    assert race.share("2/2") == (1, 2)


def test_a_race_is_told_the_mean_of_two_processes_the_same_each_time():
    measured = Measured(([0.0, 1.0, 4.0], [7.0]), (1.0, 7.0), 0.1)
    told = {measured.told("a" * 20, seed) for seed in range(40)}
    assert told == {(0.5, 7.0), (2.0, 7.0), (2.5, 7.0)}
    assert measured.told("a" * 20, 3) == measured.told("a" * 20, 3)


@pytest.mark.parametrize("engine", ["ga", "random"])
def test_a_race_ends_after_its_evaluations_and_is_the_same_again(engine):
    first, again = (run(engine, Imagined(), 3, 40) for _ in range(2))
    assert first.moments[-1].evaluation == 40 == first.moments[-1].builds
    assert first.moments[-1].build_s == 20
    held = [[(moment.evaluation, moment.value) for moment in race.moments] for race in (first, again)]
    assert held[0] == held[1]


def test_the_first_moment_is_the_baseline_and_values_fall():
    race = run("random", Imagined(), 1, 40)
    assert (race.moments[0].evaluation, race.moments[0].value) == (1, 0.0)
    values = [moment.value for moment in race.moments]
    assert values == sorted(values, reverse=True) and values[-1] < 0


def test_machine_code_is_measured_once():
    objective = Imagined()
    race = run("random", objective, 1, 60)
    good = [knobs for knobs in objective.built if "-f0" not in knobs]
    codes = {frozenset(item for item in knobs.items() if item[0] != "-f2") for knobs in good}
    right = [code for code in codes if not any(name == "-f1" for name, _ in code)]
    assert race.moments[-1].measure_s == 0.25 * len(right)


def test_of_two_numbers_a_race_is_judged_by_what_its_front_dominates():
    race = run("random", Imagined(Target(metrics=("code_bytes", "executed"))), 1, 30)
    assert race.moments[0].value == pytest.approx(-(0.22314355**2))
    assert race.moments[-1].value < race.moments[0].value


def test_committed_races_are_read_as_they_were_written(tmp_path):
    moments = [Moment(1, 0.0, 1, 0.5, 0.25, 0.125), Moment(7, -0.25, 9, 4.5, 1.75, 0.5)]
    races = {"join-time": {"ga": {0: Race(moments), 1: Race(moments[:1])}, "random": {0: Race(moments)}}}
    path = tmp_path / "race.csv.gz"
    race_data.write(path, races)
    assert race_data.read(path) == races
    before = path.read_bytes()
    race_data.write(path, race_data.read(path))
    assert path.read_bytes() == before


def test_a_curve_by_seconds_counts_builds_measurements_and_the_engine():
    race = Race([Moment(1, 0.0, 1, 0.5, 0.25, 0.125), Moment(7, -0.25, 9, 4.5, 1.75, 0.5)])
    assert race_data.by_seconds(race).at == (0.875, 6.75)
    assert race_data.by_evaluations(race).value(6) == 0.0


@dataclass
class Listed:
    name: str = "held"
    digest: str = "d"


def test_the_held_out_half_is_refused_unless_it_is_what_was_frozen(tmp_path, monkeypatch):
    monkeypatch.setattr(race_freeze, "FROZEN", tmp_path / "frozen.json")
    monkeypatch.setattr(race_freeze, "_git", lambda *arguments: "abc" if arguments[0] == "rev-parse" else "")
    with pytest.raises(SystemExit, match=r"race\.py freeze"):
        race_freeze.check_frozen([Listed()], ["ga"], 0)
    race_freeze.freeze([Listed()])
    race_freeze.check_frozen([Listed()], ["ga"], 0)
    with pytest.raises(SystemExit, match="not the one that is frozen"):
        race_freeze.check_frozen([Listed(digest="other")], ["ga"], 0)
    monkeypatch.setattr(race_freeze, "engine_digest", lambda: "changed")
    with pytest.raises(SystemExit, match="the engine's code differs"):
        race_freeze.check_frozen([Listed()], ["ga"], 0)


def test_random_search_on_free_seeds_needs_no_freeze(tmp_path, monkeypatch):
    monkeypatch.setattr(race_freeze, "FROZEN", tmp_path / "frozen.json")
    race_freeze.check_frozen([Listed()], ["random"], 1000)
    with pytest.raises(SystemExit):
        race_freeze.check_frozen([Listed()], ["random"], 0)
    with pytest.raises(SystemExit):
        race_freeze.check_frozen([Listed()], ["random", "ga"], 1000)


def test_nothing_is_frozen_that_is_not_committed(monkeypatch):
    monkeypatch.setattr(race_freeze, "_git", lambda *arguments: " M engines/ga/engine.py")
    with pytest.raises(SystemExit, match="not committed"):
        race_freeze.freeze([Listed()])
