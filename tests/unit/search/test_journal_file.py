"""The file of journals: shared by benchmarks, one search of each at a time, and no later version's is misread."""

from __future__ import annotations

import contextlib
import os
import sqlite3

import pytest

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import Candidate
from pytest_compileiq.search.journal import Evaluated, open_journal

IDENTITY = {"space": "a" * 64, "seed": "0", "engine": "ga 1"}
ASKED = (Candidate({"-O": 2}), Candidate({"ratio": 0.5}))
GOOD = Evaluated((-0.5,), None, "", False, "d" * 64, [[0, 1, 2.5e-3]], 1.5)
BAD = Evaluated((), "crash", "signal 11", False, "", [], 2.5)


@pytest.fixture
def opened(tmp_path):
    return lambda benchmark="test_k.py::test_k": open_journal(tmp_path, benchmark, "x86-64-gcc12")


def test_two_searches_of_one_benchmark_exclude_each_other_and_of_two_do_not(opened):
    with opened():
        with pytest.raises(StoreError, match="is being searched by another pytest --tune: wait for it, or stop it"):
            opened().__enter__()
        with opened("test_k.py::test_other"):
            pass
    with opened():
        pass


def test_a_file_that_is_no_journal_is_named_with_the_remedy(opened, tmp_path):
    with opened():
        path = next(tmp_path.rglob("journal.sqlite3"))
    path.write_bytes(b"no database " * 100)
    with pytest.raises(
        StoreError, match=r"journal\.sqlite3 cannot be used \(.*\): remove it, and the search starts anew"
    ):
        opened().__enter__()


def test_journal_path_beyond_sqlite_says_how_long(tmp_path):
    home = tmp_path / "/".join(["d" * 100] * 5)
    home.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"the path has \d+ bytes, SQLite opens at most 504; move the project"):
        open_journal(home, "test_k.py::test_k", "x86-64").__enter__()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everything")
def test_a_journal_that_cannot_be_written_is_named(opened, tmp_path):
    with opened():
        path = next(tmp_path.rglob("journal.sqlite3"))
    path.chmod(0o400)
    with pytest.raises(StoreError, match="make it writable"), opened() as journal:
        journal.begin(IDENTITY, ())


def test_a_journal_of_before_it_had_a_version_is_gone_on_with(opened, tmp_path):
    with opened() as journal:
        journal.begin(IDENTITY, ())
        journal.finished(journal.asked(4, ASKED, None), 0, GOOD)
    with contextlib.closing(sqlite3.connect(next(tmp_path.rglob("journal.sqlite3")))) as before:
        before.executescript("DROP TABLE attempt; PRAGMA user_version = 0;")
    with opened() as journal:
        (batch,) = journal.begin(IDENTITY, ()).batches
        assert batch.done == {0: GOOD}
        assert journal.finished(journal.taken_up(batch), 1, BAD, journal.begun(0, 1))


def test_a_journal_of_a_later_version_is_refused_and_kept(opened, tmp_path):
    with opened() as journal:
        journal.begin(IDENTITY, ())
    path = next(tmp_path.rglob("journal.sqlite3"))
    with contextlib.closing(sqlite3.connect(path)) as later:
        later.execute("PRAGMA user_version = 9")
    content = path.read_bytes()
    with pytest.raises(StoreError, match=r"journal\.sqlite3 was written by a later pytest-compileiq .*9.*--upgrade"):
        opened().__enter__()
    assert path.read_bytes() == content
