"""The journal: what was finished before a kill is there after it, and no other search takes it for its own."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace

import pytest

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import Candidate, Lesson
from pytest_compileiq.search.journal import Batch, Earlier, Evaluated, open_journal

BENCHMARK, TARGET = "test_k.py::test_k", "x86-64-gcc12"
IDENTITY = {"space": "a" * 64, "seed": "0", "engine": "ga 1"}
SEEDS = (Candidate({"-O": 3, "-fast": ""}, origin="incumbent"), Candidate({}, b"\x00acf\xff"))
ASKED = (Candidate({"-O": 2}), Candidate({"ratio": 0.5, "name": "é"}, b"blob", "pack"))
GOOD = Evaluated((-0.5, 0.25), None, "", False, "d" * 64, [[0, 1, 2.5e-3]], 1.5)
BAD = Evaluated((), "crash", "signal 11", False, "", [], 2.5)


@pytest.fixture
def opened(tmp_path):
    return lambda benchmark=BENCHMARK, target=TARGET: open_journal(tmp_path, benchmark, target)


def write(journal, *evaluated: Evaluated, candidates=ASKED, state: bytes | None = None) -> None:
    number = journal.asked(4, candidates, state)
    for place, evaluation in enumerate(evaluated):
        journal.finished(number, place, evaluation)


def test_a_search_that_begins_has_its_seeds_and_nothing_else(opened):
    with opened() as journal:
        assert journal.begin(IDENTITY, SEEDS) == Earlier(SEEDS)


def test_what_was_asked_and_finished_is_there_for_whoever_goes_on(opened):
    with opened() as journal:
        journal.begin(IDENTITY, SEEDS)
        write(journal, GOOD, BAD, state=b"\x00checkpoint")
        write(journal, replace(GOOD, duplicate=True))  # killed within this one
    with opened() as journal:
        earlier = journal.begin(dict(reversed(IDENTITY.items())), ())
    assert earlier == Earlier(
        SEEDS,
        (
            Batch(4, ASKED, {0: GOOD, 1: BAD}, b"\x00checkpoint"),
            Batch(4, ASKED, {0: replace(GOOD, duplicate=True)}, None),
        ),
    )


def test_what_was_taught_when_it_began_is_there_for_whoever_goes_on(opened):
    taught = (Lesson("lz4/t", "a" * 64, {"-O": 3, "-x": ""}, 0.5), Lesson("xxh/t", "b" * 64, {"-p=": 2.5}, 0.25))
    with opened() as journal:
        assert journal.begin(IDENTITY, SEEDS, taught).lessons == taught
    with opened() as journal:
        assert journal.begin(IDENTITY, SEEDS, taught[1:]).lessons == taught
    with opened() as journal:
        assert journal.begin({**IDENTITY, "seed": "1"}, SEEDS, taught[1:]).lessons == taught[1:]
        journal.clear()
        assert journal.begin(IDENTITY, SEEDS).lessons == ()


def test_a_search_that_goes_on_writes_behind_what_is_there(opened):
    with opened() as journal:
        journal.begin(IDENTITY, SEEDS)
        write(journal, GOOD)
    with opened() as journal:
        (batch,) = journal.begin(IDENTITY, ()).batches
        assert journal.taken_up(batch) == 0
        journal.finished(0, 1, BAD)
        write(journal, GOOD)
    with opened() as journal:
        assert [batch.done for batch in journal.begin(IDENTITY, ()).batches] == [{0: GOOD, 1: BAD}, {0: GOOD}]


@pytest.mark.parametrize(
    ("identity", "changed"),
    [
        (IDENTITY | {"seed": "1"}, "seed"),
        (IDENTITY | {"space": "b" * 64, "engine": "ga 2"}, "engine, space"),
        (IDENTITY | {"compiler": "13"}, "compiler"),
        ({"space": "a" * 64, "seed": "0"}, "engine"),
    ],
)
def test_another_search_begins_anew_and_says_what_changed(opened, identity, changed):
    with opened() as journal:
        journal.begin(IDENTITY, SEEDS)
        write(journal, GOOD)
        other = (Candidate({"-O": 1}),)
        assert journal.begin(identity, other) == Earlier(other, (), changed)
        write(journal, BAD)  # counts from nothing
        assert journal.begin(identity, ()).batches == (Batch(4, ASKED, {0: BAD}, None),)


def test_a_search_that_ended_is_forgotten_and_no_other_is(opened):
    with opened() as journal, opened(target="sm-90a-ptxas13.3") as of_another:
        for each in (journal, of_another):
            each.begin(IDENTITY, SEEDS)
            write(each, GOOD)
        journal.clear()
        assert journal.begin(IDENTITY, ()) == Earlier((), (), None)
        assert of_another.begin(IDENTITY, ()).batches[0].done == {0: GOOD}


def test_what_is_finished_survives_without_a_proper_end(opened, tmp_path):
    """Another connection sees it at once, as a process does that runs after a kill."""
    with opened() as journal:
        journal.begin(IDENTITY, SEEDS)
        write(journal, GOOD)
        beside = sqlite3.connect(next(tmp_path.rglob("journal.sqlite3")))
        assert beside.execute("SELECT COUNT(*) FROM evaluation").fetchone() == (1,)
        beside.close()


def test_losses_outlive_a_kill_and_go_with_their_search(opened):
    with opened() as journal:
        journal.begin(IDENTITY, SEEDS)
        write(journal, GOOD)
        journal.lost(0, 1, journal.begun(0, 1), "node 7 went down")
    with opened() as journal:
        journal.begin(IDENTITY, ())
        assert journal.losses(0, 1) == ("node 7 went down",)
        journal.clear()
        assert journal.losses(0, 1) == ()


def test_the_three_hundredth_evaluation_asks_no_more_of_the_file_than_the_first_ones(opened):
    def hundreds_of_instructions(journal) -> int:
        """Of SQLite's virtual machine, for one evaluation."""
        number, passed = journal.asked(1, ASKED[:1], None), []
        journal._connection.set_progress_handler(lambda: passed.append(1), 100)
        assert journal.finished(number, 0, GOOD, journal.begun(number, 0))
        return len(passed)

    with opened() as journal:
        journal.begin(IDENTITY, SEEDS)
        of_each = [hundreds_of_instructions(journal) for _ in range(300)]
    assert max(of_each[-10:]) < 2 * max(of_each[:10]) + 5


@pytest.mark.parametrize(
    "damage",
    [
        """UPDATE evaluation SET scores = '["fast", null]'""",
        "UPDATE evaluation SET scores = '-0.5'",
        "UPDATE evaluation SET scores = '[NaN'",
        "UPDATE evaluation SET scores = NULL",
        "UPDATE evaluation SET failure = 'odd'",
        "UPDATE evaluation SET samples = '{}'",
        "UPDATE evaluation SET seconds = 'long'",
        "UPDATE evaluation SET place = -1",
        "UPDATE evaluation SET place = 9",
        "UPDATE batch SET wanted = 'all'",
        "UPDATE batch SET candidates = '[[1]]'",
        "UPDATE search SET identity = '[]'",
        "UPDATE search SET seeds = x'ff'",
        "UPDATE attempt SET attempt = 'first'",
        "UPDATE lesson SET weight = 'much'",
    ],
)
def test_journal_damaged_row_is_refused_until_fresh(opened, tmp_path, damage):
    taught = (Lesson("lz4/t", "a" * 64, {"-O": 3}, 0.5),)
    with opened() as journal:
        journal.begin(IDENTITY, SEEDS, taught)
        write(journal, GOOD)
        journal.begun(0, 1)
    with contextlib.closing(sqlite3.connect(tmp_path / ".compileiq" / "journal.sqlite3")) as file, file:
        file.execute(damage)
    with opened() as journal:
        with pytest.raises(StoreError, match=r"journal of test_k.py::test_k .*; pytest --tune --tune-fresh"):
            journal.begin(IDENTITY, SEEDS, taught)
        journal.clear()
        assert journal.begin(IDENTITY, SEEDS, taught) == Earlier(SEEDS, lessons=taught)
