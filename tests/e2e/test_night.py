"""``--tune-total``: one budget over many benchmarks, watched, killed, interrupted, refused, gone on with."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tomllib

import pytest

from pytest_compileiq.system.watchdog import of_each_process
from tests.examples import SUM_C
from tests.projects import NOT_NEEDED, Project
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

NIGHT_PY = """\
import os
import time

import pytest
from pytest_compileiq import Cc, literal, minimize

SIZE = [minimize("code_bytes")]


def body(acf):
    acf.build()
    while not acf.is_baseline and os.path.exists("wait"):
        time.sleep(0.02)


@pytest.mark.tune(Cc("sum.c", flags="-O1 -fstrict-aliasing"), objectives=SIZE)
def test_long(acf):
    body(acf)


@pytest.mark.tune(Cc("sum.c", flags="-O3"), objectives=SIZE, weight=3)
def test_heavy(acf):
    body(acf)


@pytest.mark.tune(Cc("sum.c", flags="-O2"), objectives=SIZE, space={"-fno-ivopts": literal("", knockout_prob=0.5)})
def test_short(acf):
    body(acf)


@pytest.mark.tune(Cc("broken.c", flags="-O2"), objectives=SIZE)
def test_broken(acf):
    body(acf)
"""
OWNER = "NIGHT_OF_A_TEST"
HEALTHY = ("long", "heavy", "short")


@pytest.fixture
def made(project):
    return project({"sum.c": SUM_C, "broken.c": "no C", "test_night.py": NIGHT_PY})


def start(made: Project, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment[OWNER] = str(made.root)
    argv = [sys.executable, "-m", "pytest", *(f"-pno:{name}" for name in NOT_NEEDED), "--tune", *arguments]
    return subprocess.Popen(argv, cwd=made.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def journaled(made: Project) -> list[tuple]:
    """(benchmark, number, batch, place, scores) of every evaluation of the searches under way."""
    path = made.root / ".compileiq" / "journal.sqlite3"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as journal:
            query = "SELECT benchmark, number, batch, place, scores FROM evaluation ORDER BY benchmark, number"
            return journal.execute(query).fetchall()
    except sqlite3.OperationalError:  # not made yet
        return []


def wait_for(happened, process: subprocess.Popen[bytes]) -> None:
    assert wait_until(lambda: happened() or process.poll() is not None, 120)


def kill(made: Project, process: subprocess.Popen[bytes]) -> None:
    """Kill the night, after which nothing of it is left running."""
    process.kill()
    process.communicate()
    mark = f"{OWNER}={made.root}".encode()
    assert wait_until(lambda: not any(mark in environ for _, environ in of_each_process("environ")))


def stored(made: Project) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in made.root.glob("acf/*/*.toml")}


def test_one_budget_is_shared_out_shown_and_reported(made):
    output = made.pytest("--tune", "--tune-total=60", "--acf-report=report.json", code=1)
    assert "broken: failed: " in output  # as soon as it is known
    assert re.search(r"night: (5[7-9]|60) of 60 evaluations; 3 closed, 1 failed; done", output), output
    assert re.search(r"\nshort +2 .* closed: (TUNED|BASELINE): its engine had nothing left to try", output)
    assert "3 passed" in output
    assert "1 failed" in output
    night = json.loads((made.root / "report.json").read_text())["night"]
    rows = {row["name"]: row for row in night["rows"]}
    assert [row["name"] for row in night["rows"]] == ["long", "heavy", "short", "broken"]  # in the order of the tests
    assert rows["heavy"]["weight"] == 3
    assert rows["broken"]["evaluations"] == 0
    assert "does not build" in rows["broken"]["why"]
    assert min(rows["long"]["evaluations"], rows["heavy"]["evaluations"]) >= 8  # nobody starves
    assert sum(row["evaluations"] for row in rows.values()) == night["spent"]
    assert sum(row["share"] for row in rows.values()) == pytest.approx(night["spent"] / 60)
    for name in HEALTHY:
        assert (
            tomllib.loads(made.one(f"acf/{name}/*.toml").read_text())["search"]["evaluations"]
            == (rows[name]["evaluations"])
        )
    assert not (made.root / ".compileiq" / "night.json").exists()
    assert journaled(made) == []


def test_a_killed_night_repeats_nothing_that_is_finished(made):
    arguments = "--tune-total=48", "--tune-tracker=csv:told.csv"
    before: list[tuple] = []
    closed: dict[str, bytes] = {}
    for evaluations in (6, 20):
        process = start(made, *arguments)
        wait_for(lambda least=evaluations: len(journaled(made)) >= least, process)
        kill(made, process)
        now = journaled(made)
        names = {row[0] for row in now}
        assert [row for row in before if row[0] in names] == [row for row in now if row in before]
        assert closed.items() <= stored(made).items()
        before, closed = now, stored(made)
    output = made.pytest("--tune", *arguments, code=1)
    assert "resuming: " in output
    assert closed.items() <= stored(made).items()
    assert stored(made).keys() == set(HEALTHY)
    with (made.root / "told.csv").open() as stream:
        told = [(row["benchmark"], row["number"]) for row in csv.DictReader(stream)]
    assert len(told) == len(set(told))
    assert len(told) <= 48
    assert re.search(r"of 48 evaluations; 3 closed, 1 failed; done", output)


def test_what_was_closed_before_a_kill_is_reported_and_not_opened_again(made):
    (made.root / "broken.c").write_text(SUM_C)
    process = start(made, "--tune-total=2000")
    state = made.root / ".compileiq" / "night.json"
    wait_for(lambda: state.exists() and json.loads(state.read_text())["closed"], process)
    kill(made, process)
    short = stored(made)["short"]
    made.edit("test_night.py", "weight=3", "weight=2")
    spent = json.loads(state.read_text())["evaluations"]
    output = made.pytest("--tune", f"--tune-total={spent + 20}", code=0)
    assert "going on with an earlier night, which closed 1 benchmark" in output
    assert re.search(r"\nshort .* an earlier run of this night", output), output
    assert stored(made)["short"] == short
    assert "4 passed" in output


def test_ctrl_c_proves_what_is_promising_and_the_same_command_goes_on(made):
    process = start(made, "--tune-total=5000")
    wait_for(lambda: len(journaled(made)) >= 24, process)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 2, output
    assert "the same command goes on with the night" in output
    assert stored(made).keys() >= {"heavy"}
    assert re.search(r"\nheavy .* closed: TUNED: interrupted", output)
    heavy = stored(made)["heavy"]
    assert re.search(r"\nheavy .* closed by an earlier run", made.pytest("--tune", "--tune-total=30", code=1))
    assert stored(made)["heavy"] == heavy


def test_two_nights_on_one_project_are_refused_as_two_tunes_are(made):
    process = start(made, "--tune-total=2000")
    wait_for(lambda: any("heavy" in row[0] for row in journaled(made)), process)  # it holds its search
    (made.root / "wait").touch()  # it cannot end
    output = made.pytest("--tune", "--tune-total=2000", code=1)
    assert output.count("another pytest --tune-total is under way") >= 4
    assert "is being searched by another pytest --tune" in made.pytest("--tune", "-k", "heavy", code=1)
    kill(made, process)


def test_what_has_no_room_is_not_reached_and_comes_next(made):
    output = made.pytest("--tune", "--tune-total=9", "-k", "long or heavy or short", code=0)
    assert "no room for it: the same command goes on with it" in output
    assert "1 skipped" in output
    closed = stored(made)
    assert len(closed) == 2
    output = made.pytest("--tune", "--tune-total=9", "-k", "long or heavy or short", code=0)
    assert "3 closed" in output
    assert closed.items() <= stored(made).items()


def test_x_stops_a_night_at_the_first_benchmark_that_cannot_be_tuned(made):
    made.edit("test_night.py", "def test_long", "def test_last")
    made.edit("test_night.py", "def test_broken", "def test_a")
    output = made.pytest("--tune", "--tune-total=5000", "-x", code=1)
    assert "stopped after 1 failure" in output
    assert stored(made) == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tune-total=8h"], "--tune-total requires --tune"),
        (["--tune", "--tune-total=0"], "leaves nothing to search with"),
        (["--tune", "--tune-total=3"], "give 4 or more"),
        (["--tune", "--tune-total=99999h"], "more than anyone can spend: at most 8760h"),
        (["--tune", "--tune-total=long"], "--tune-total='long': expected a number of evaluations (4000) or a time"),
        (["--tune", "--tune-total=8h", "--tune-budget=20"], "exclude each other"),
    ],
)
def test_a_total_that_says_nothing_is_wrong_usage(made, arguments, said):
    assert said in made.pytest(*arguments, code=4)
