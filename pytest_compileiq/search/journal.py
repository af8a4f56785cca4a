"""The journal of a search under way: every evaluation is on disk before the next, so that a killed search can go on.

A search is identified by all that it depends on: with another benchmark, space, engine, seed or compiler it is another
search. Journals lie in one SQLite file in ``.compileiq/``, in write-ahead mode, so that several searches share it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from pytest_compileiq.errors import LARGER_FILES, WRITABLE, StoreError, contained, fault_of
from pytest_compileiq.model import Candidate, FailureKind, KnobValue, Lesson, sha256_hex
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.store.local import local_directory
from pytest_compileiq.system.files import locked

_CLOCKS = [field.name for field in fields(SampleRow)].index("clocks")


@dataclass(frozen=True)
class Evaluated:
    """One finished evaluation."""

    scores: tuple[float, ...]  # a log-ratio for each objective; empty when it failed
    failure: FailureKind | None
    reason: str  # why it failed, in words
    duplicate: bool
    digest: str  # of the machine code, or "" where nothing was built
    samples: Sequence[Any]  # the raw samples behind the scores, as JSON-able rows
    seconds: float  # since the search began, earlier runs included
    errors: tuple[float, ...] = ()  # as in ``Told``; not written, since they follow from all samples

    @property
    def rows(self) -> tuple[SampleRow, ...]:
        return tuple(SampleRow(*sample[:_CLOCKS]) for sample in self.samples)


@dataclass(frozen=True)
class Batch:
    """What one ask gave and what became of it."""

    wanted: int  # how many were asked for
    candidates: tuple[Candidate, ...]
    done: Mapping[int, Evaluated]  # by place among ``candidates``, as they finished; some lack when it was killed
    state: bytes | None  # the engine's checkpoint from before the ask, or None where the engine is replayed


@dataclass(frozen=True)
class Earlier:
    """What a search begins with."""

    seeds: tuple[Candidate, ...]  # the candidates to try first: those of the run that began the search
    batches: tuple[Batch, ...] = ()  # what that run and those after it left; empty for a search that begins now
    changed: str | None = None  # of all that an earlier search depended on, so that it cannot go on
    lessons: tuple[Lesson, ...] = ()  # what had been taught when it began, whatever has become of those artifacts


# The columns, as they are read: SQLite holds whatever type was written.
_Knobs = dict[str, KnobValue]
_Candidate = tuple[_Knobs, str | None, str]
_Taught = tuple[str, str, _Knobs, float]
_Attempt = tuple[int, int, int, str | None]
_Evaluation = tuple[tuple[float, ...], FailureKind | None, str, bool, str, list[Any], float]


class Journal:
    """The journal of one search; made by ``open_journal``."""

    def __init__(self, connection: sqlite3.Connection, key: tuple[str, str]) -> None:
        self._connection = connection
        self._key = key
        self._batch = -1
        self._number = 0

    def begin(self, identity: Mapping[str, str], seeds: Sequence[Candidate], lessons: Sequence[Lesson] = ()) -> Earlier:
        """Go on with the search of ``identity``, or begin it anew with ``seeds`` and ``lessons``.

        Raises:
            StoreError: what an earlier run left is not what this writes.
        """
        row = self._connection.execute(
            "SELECT identity, seeds FROM search WHERE benchmark = ? AND target = ?", self._key
        ).fetchone()
        with self.reading():
            before = msgspec.convert(json.loads(row[0]) if row else {}, dict[str, str])
        if row and before == dict(identity):
            return self._earlier(row[1])
        self.clear()
        packed = json.dumps([_packed(seed) for seed in seeds])
        with self._connection:
            values = (*self._key, json.dumps(dict(identity)), packed)
            self._connection.execute("INSERT INTO search VALUES (?, ?, ?, ?)", values)
            for place, lesson in enumerate(lessons):
                taught = (place, lesson.artifact, lesson.digest, json.dumps(dict(lesson.knobs)), lesson.weight)
                self._connection.execute("INSERT INTO lesson VALUES (?, ?, ?, ?, ?, ?, ?)", (*self._key, *taught))
        changed = sorted(name for name in {*identity, *before} if before.get(name) != identity.get(name))
        return Earlier(tuple(seeds), changed=", ".join(changed) if row else None, lessons=tuple(lessons))

    def reading(self) -> AbstractContextManager[None]:
        """Whatever cannot be understood of what an earlier run left is a ``StoreError`` with its remedy."""
        return contained(f"the journal of {self._key[0]}", "pytest --tune --tune-fresh starts its search anew")

    def asked(self, wanted: int, candidates: Sequence[Candidate], state: bytes | None) -> int:
        self._batch += 1
        packed = json.dumps([_packed(candidate) for candidate in candidates])
        self._write("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)", *self._key, self._batch, wanted, packed, state)
        return self._batch

    def begun(self, batch: int, place: int) -> int:
        """Record that a worker is asked for the candidate at ``place`` of a batch; returns the attempt's number."""
        (before,) = self._of_place("SELECT MAX(attempt) FROM attempt", batch, place)
        attempt = int(before or 0) + 1
        self._write("INSERT INTO attempt VALUES (?, ?, ?, ?, ?, NULL)", *self._key, batch, place, attempt)
        return attempt

    def lost(self, batch: int, place: int, attempt: int, reason: str) -> None:
        where = "benchmark = ? AND target = ? AND batch = ? AND place = ? AND attempt = ?"
        self._write(f"UPDATE attempt SET loss = ? WHERE {where}", reason, *self._key, batch, place, attempt)

    def losses(self, batch: int, place: int) -> tuple[str, ...]:
        """Why the workers were lost that were asked for a candidate, in earlier runs too, in the order of attempts."""
        rows = self._connection.execute(
            "SELECT loss FROM attempt WHERE benchmark = ? AND target = ? AND batch = ? AND place = ? "
            "AND loss IS NOT NULL ORDER BY attempt", (*self._key, batch, place),
        )  # fmt: skip
        return tuple(loss for (loss,) in rows)

    def finished(self, batch: int, place: int, evaluated: Evaluated, attempt: int | None = None) -> bool:
        """Record one evaluation, unless it is finished or another attempt began since; returns whether it was.

        Args:
            attempt: whose answer it is; None where no worker was asked.
        """
        (done,) = self._of_place("SELECT COUNT(*) FROM evaluation", batch, place)
        (newest,) = self._of_place("SELECT MAX(attempt) FROM attempt", batch, place)
        if done or attempt not in (None, newest):
            return False
        self._write(
            "INSERT INTO evaluation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *self._key, self._number, batch, place, json.dumps(evaluated.scores), evaluated.failure,
            evaluated.reason, int(evaluated.duplicate), evaluated.digest, json.dumps(evaluated.samples),
            evaluated.seconds,
        )  # fmt: skip
        self._number += 1
        return True

    def taken_up(self, batch: Batch) -> int:
        """Count a batch of the earlier run as this run's, so that later ones come after it; returns its number."""
        self._batch += 1
        self._number += len(batch.done)
        return self._batch

    def clear(self) -> None:
        """Forget the search: it ended, or cannot go on."""
        with self._connection:
            for table in ("search", "batch", "evaluation", "attempt", "lesson"):
                self._connection.execute(f"DELETE FROM {table} WHERE benchmark = ? AND target = ?", self._key)
        self._batch, self._number = -1, 0

    def _write(self, statement: str, *values: object) -> None:
        with self._connection:
            self._connection.execute(statement, values)

    def _of_place(self, selection: str, batch: int, place: int) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._connection.execute(
            f"{selection} WHERE benchmark = ? AND target = ? AND batch = ? AND place = ?", (*self._key, batch, place)
        ).fetchone()
        return row

    def _rows(self, columns: str, table: str, order: str) -> list[tuple[Any, ...]]:
        selection = f"SELECT {columns} FROM {table} WHERE benchmark = ? AND target = ? ORDER BY {order}"
        return self._connection.execute(selection, self._key).fetchall()

    def _earlier(self, seeds: str) -> Earlier:
        attempts = self._rows("batch, place, attempt, loss", "attempt", "attempt")
        lessons = self._rows("artifact, digest, knobs, weight", "lesson", "place")
        evaluations = self._rows(
            "batch, place, scores, failure, reason, duplicate, digest, samples, seconds", "evaluation", "number"
        )
        batches = self._rows("number, wanted, candidates, state", "batch", "number")
        with self.reading():
            msgspec.convert(attempts, list[_Attempt])
            done: dict[int, dict[int, Evaluated]] = {}
            for batch, place, scores, failure, reason, duplicate, digest, samples, seconds in evaluations:
                row = json.loads(scores), failure, reason, bool(duplicate), digest, json.loads(samples), seconds
                done.setdefault(batch, {})[place] = Evaluated(*msgspec.convert(row, _Evaluation))
            return Earlier(
                _candidates(seeds),
                tuple(_batch(done.get(number, {}), *columns) for number, *columns in batches),
                lessons=tuple(
                    Lesson(*msgspec.convert((artifact, digest, json.loads(knobs), weight), _Taught))
                    for artifact, digest, knobs, weight in lessons
                ),
            )


def _batch(done: Mapping[int, Evaluated], wanted: Any, candidates: str, state: Any) -> Batch:
    wanted, state = msgspec.convert((wanted, state), tuple[int, bytes | None])
    asked = _candidates(candidates)
    if not set(range(len(asked))).issuperset(done):
        raise ValueError(f"{len(asked)} candidates, and evaluations of {sorted(done)}")
    return Batch(wanted, asked, done, state)


def _packed(candidate: Candidate) -> list[Any]:
    blob = None if candidate.blob is None else base64.b64encode(candidate.blob).decode()
    return [dict(candidate.knobs), blob, candidate.origin]


def _candidates(text: str) -> tuple[Candidate, ...]:
    return tuple(map(_unpacked, msgspec.convert(json.loads(text), list[_Candidate])))


def _unpacked(packed: _Candidate) -> Candidate:
    knobs, blob, origin = packed
    return Candidate(knobs, None if blob is None else base64.b64decode(blob), origin)


_BUSY_S = 30.0
_LONGEST_PATH = 512 - len("-journal")  # MAX_PATHNAME of SQLite's os_unix.c, in bytes
_PRIMARY = 0xFF  # of an extended result code
_FILES = 8  # that SQLite may open at once: the database, its log and index, a journal, their directory
# Of the tables. Older files hold the same, the first ones without lessons or attempts; what else they hold is not read.
_VERSION = 4
_TABLES = """
CREATE TABLE IF NOT EXISTS search (
    benchmark TEXT, target TEXT, identity TEXT, seeds TEXT, PRIMARY KEY (benchmark, target));
CREATE TABLE IF NOT EXISTS batch (
    benchmark TEXT, target TEXT, number INTEGER, wanted INTEGER, candidates TEXT, state BLOB,
    PRIMARY KEY (benchmark, target, number));
CREATE TABLE IF NOT EXISTS evaluation (
    benchmark TEXT, target TEXT, number INTEGER, batch INTEGER, place INTEGER, scores TEXT, failure TEXT, reason TEXT,
    duplicate INTEGER, digest TEXT, samples TEXT, seconds REAL, PRIMARY KEY (benchmark, target, number));
CREATE INDEX IF NOT EXISTS evaluated ON evaluation (benchmark, target, batch, place);
CREATE TABLE IF NOT EXISTS attempt (
    benchmark TEXT, target TEXT, batch INTEGER, place INTEGER, attempt INTEGER, loss TEXT,
    PRIMARY KEY (benchmark, target, batch, place, attempt));
CREATE TABLE IF NOT EXISTS lesson (
    benchmark TEXT, target TEXT, place INTEGER, artifact TEXT, digest TEXT, knobs TEXT, weight REAL,
    PRIMARY KEY (benchmark, target, place));
"""


@contextlib.contextmanager
def open_journal(rootdir: Path, benchmark: str, target: str) -> Iterator[Journal]:
    """The journal of one benchmark's search, locked against a second search of the same benchmark.

    Raises:
        StoreError: another process searches it, the journal cannot be read or written, or a later version wrote it.
    """
    home = local_directory(rootdir)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(home / f"{sha256_hex(f'{benchmark} {target}'.encode())[:16]}.lock", wait=False))
        except BlockingIOError as error:
            raise StoreError(
                f"{benchmark} is being searched by another pytest --tune: wait for it, or stop it"
            ) from error
        path = home / "journal.sqlite3"
        try:
            # A night's search goes from one device's thread to another's.
            connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)
            with contextlib.closing(connection):
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version > _VERSION:
                    raise StoreError(
                        f"{path} was written by a later pytest-compileiq (version {version} of the file, {_VERSION} "
                        "here): pip install --upgrade pytest-compileiq goes on with its searches; removed, they start "
                        "anew"
                    )
                connection.execute("PRAGMA journal_mode = WAL")
                # A killed process loses nothing; a power cut may lose the last evaluations, and corrupts nothing.
                connection.execute("PRAGMA synchronous = NORMAL")
                # The tables, or those that an earlier version's file lacks; another search may be about to do so too.
                connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}")
                with connection:
                    connection.execute(f"PRAGMA user_version = {_VERSION}")
                yield Journal(connection, (benchmark, target))
        except sqlite3.Error as error:
            raise StoreError(f"{path} cannot be used ({error}): {_remedy(path, error)}") from error


def _remedy(path: Path, error: sqlite3.Error) -> str:
    if (length := len(os.fsencode(path.resolve()))) > _LONGEST_PATH:
        return f"the path has {length} bytes, SQLite opens at most {_LONGEST_PATH}; move the project to a shorter one"
    if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        return WRITABLE
    if not os.access(path, os.W_OK):
        return "make it writable"
    is_limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return LARGER_FILES if is_limited else "free some space"
    if code == sqlite3.SQLITE_CANTOPEN:  # which names no cause
        try:
            with contextlib.ExitStack() as opened:
                for _ in range(_FILES):
                    opened.enter_context(Path(os.devnull).open("rb"))
        except OSError as fault:
            return fault_of(fault)
    return "remove it, and the search starts anew"
