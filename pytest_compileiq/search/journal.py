"""The journal of a search under way: every evaluation is on disk before the next, so that a killed search can go on.

SQLite in ``.compileiq/`` of the project, in write-ahead mode, so that searches of several benchmarks share it. A search
is identified by all that it depends on: with another benchmark, space, engine, seed or compiler it is another search.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import StoreError
from pytest_compileiq.lesson import Lesson
from pytest_compileiq.model import Candidate, FailureKind, SampleRow, sha256_hex
from pytest_compileiq.rules.built_ahead import MOST
from pytest_compileiq.store.local import local_directory
from pytest_compileiq.system.files import locked

_BUSY_S = 30.0
# Of the tables. Older files hold the same: those of version 2 without how many builds a proposal was allowed, which was
# always ``MOST``, earlier ones without lessons and proposals, and the first ones without attempts.
_VERSION, _WITHOUT_MOST = 3, 2
_CLOCKS = [field.name for field in fields(SampleRow)].index("clocks")
_TABLES = """
CREATE TABLE IF NOT EXISTS search (
    benchmark TEXT, target TEXT, identity TEXT, seeds TEXT, PRIMARY KEY (benchmark, target));
CREATE TABLE IF NOT EXISTS batch (
    benchmark TEXT, target TEXT, number INTEGER, wanted INTEGER, candidates TEXT, state BLOB,
    PRIMARY KEY (benchmark, target, number));
CREATE TABLE IF NOT EXISTS proposal (
    benchmark TEXT, target TEXT, number INTEGER, proposed TEXT, most INTEGER,
    PRIMARY KEY (benchmark, target, number));
CREATE TABLE IF NOT EXISTS evaluation (
    benchmark TEXT, target TEXT, number INTEGER, batch INTEGER, place INTEGER, scores TEXT, failure TEXT, reason TEXT,
    duplicate INTEGER, digest TEXT, samples TEXT, seconds REAL, PRIMARY KEY (benchmark, target, number));
CREATE TABLE IF NOT EXISTS attempt (
    benchmark TEXT, target TEXT, batch INTEGER, place INTEGER, attempt INTEGER, loss TEXT,
    PRIMARY KEY (benchmark, target, batch, place, attempt));
CREATE TABLE IF NOT EXISTS lesson (
    benchmark TEXT, target TEXT, place INTEGER, artifact TEXT, digest TEXT, knobs TEXT, weight REAL,
    PRIMARY KEY (benchmark, target, place));
"""


@dataclass(frozen=True)
class Evaluated:
    """One finished evaluation.

    Attributes:
        scores: a log-ratio for each objective; empty when it failed.
        reason: why it failed, in words.
        digest: of the machine code, or "" where nothing was built.
        samples: the raw samples behind the scores, as JSON-able rows.
        seconds: since the search began, earlier runs included.
        errors: of the scores, as in ``Told``. They follow from the samples of this and of earlier evaluations, so that
            they are not written.
    """

    scores: tuple[float, ...]
    failure: FailureKind | None
    reason: str
    duplicate: bool
    digest: str
    samples: Sequence[Any]
    seconds: float
    errors: tuple[float, ...] = ()

    @property
    def rows(self) -> tuple[SampleRow, ...]:
        """The samples as rows, without a GPU's clocks."""
        return tuple(SampleRow(*sample[:_CLOCKS]) for sample in self.samples)


@dataclass(frozen=True)
class Proposed:
    """One candidate that was built for an engine to pick from.

    Attributes:
        features, known: as in ``engines.base.Built``; ``features`` is None where the build failed.
    """

    candidate: Candidate
    features: Mapping[str, float] | None
    known: bool = False


@dataclass(frozen=True)
class Proposal:
    """What was built for an engine to pick from; nothing where nobody picks.

    Attributes:
        most: how many the engine was allowed to propose.
    """

    built: Sequence[Proposed] = ()
    most: int = 0


NOT_PROPOSED = Proposal()


@dataclass(frozen=True)
class Batch:
    """What one ask gave and what became of it.

    Attributes:
        wanted: how many were asked for.
        done: place among ``candidates`` → its evaluation, in the order of finishing; some lack when it was killed.
        state: the engine's checkpoint from before the ask, or None where the engine is replayed.
    """

    wanted: int
    candidates: tuple[Candidate, ...]
    done: Mapping[int, Evaluated]
    state: bytes | None
    proposal: Proposal = NOT_PROPOSED


@dataclass(frozen=True)
class Earlier:
    """What a search begins with.

    Attributes:
        seeds: the candidates to try first: those of the run that began the search.
        lessons: what had been taught when it began, whatever has become of those artifacts.
        batches: what that run and those after it left; empty for a search that begins now.
        changed: what has changed of all that an earlier search depended on, so that it cannot go on; None otherwise.
    """

    seeds: tuple[Candidate, ...]
    batches: tuple[Batch, ...] = ()
    changed: str | None = None
    lessons: tuple[Lesson, ...] = ()


class Journal:
    """The journal of one search; made by ``open_journal``."""

    def __init__(self, connection: sqlite3.Connection, key: tuple[str, str]) -> None:
        self._connection = connection
        self._key = key
        self._batch = -1
        self._number = 0

    def begin(self, identity: Mapping[str, str], seeds: Sequence[Candidate], lessons: Sequence[Lesson] = ()) -> Earlier:
        """Go on with the search of ``identity``, or begin it anew with ``seeds`` and ``lessons``."""
        row = self._connection.execute(
            "SELECT identity, seeds FROM search WHERE benchmark = ? AND target = ?", self._key
        ).fetchone()
        before = json.loads(row[0]) if row else {}
        if row and before == dict(identity):
            return Earlier(
                tuple(map(_unpacked, json.loads(row[1]))), tuple(self._batches()), lessons=tuple(self._lessons())
            )
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

    def asked(
        self, wanted: int, candidates: Sequence[Candidate], state: bytes | None, proposal: Proposal = NOT_PROPOSED
    ) -> int:
        """Record a batch before it is evaluated; returns its number."""
        self._batch += 1
        packed = json.dumps([_packed(candidate) for candidate in candidates])
        with self._connection:
            self._connection.execute(
                "INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)", (*self._key, self._batch, wanted, packed, state)
            )
            if proposal.built:
                built = json.dumps([[_packed(each.candidate), each.features, each.known] for each in proposal.built])
                values = (*self._key, self._batch, built, proposal.most)
                self._connection.execute("INSERT INTO proposal VALUES (?, ?, ?, ?, ?)", values)
        return self._batch

    def begun(self, batch: int, place: int) -> int:
        """Record that a worker is asked for the candidate at ``place`` of a batch; returns the attempt's number."""
        (before,) = self._of_place("SELECT MAX(attempt) FROM attempt", batch, place)
        attempt = int(before or 0) + 1
        with self._connection:
            self._connection.execute(
                "INSERT INTO attempt VALUES (?, ?, ?, ?, ?, NULL)", (*self._key, batch, place, attempt)
            )
        return attempt

    def lost(self, batch: int, place: int, attempt: int, reason: str) -> None:
        """Record that the worker of an attempt was lost, and why."""
        with self._connection:
            self._connection.execute(
                "UPDATE attempt SET loss = ? "
                "WHERE benchmark = ? AND target = ? AND batch = ? AND place = ? AND attempt = ?",
                (reason, *self._key, batch, place, attempt),
            )

    def losses(self, batch: int, place: int) -> tuple[str, ...]:
        """Why the workers were lost that were asked for a candidate, in earlier runs too, in the order of attempts."""
        rows = self._connection.execute(
            "SELECT loss FROM attempt WHERE benchmark = ? AND target = ? AND batch = ? AND place = ? "
            "AND loss IS NOT NULL ORDER BY attempt", (*self._key, batch, place),
        )  # fmt: skip
        return tuple(loss for (loss,) in rows)

    def finished(self, batch: int, place: int, evaluated: Evaluated, attempt: int | None = None) -> bool:
        """Record one evaluation, of the candidate at ``place`` of a batch, unless its answer comes too late.

        It does where that candidate is finished already, or another attempt has begun since.

        Args:
            attempt: which it is the answer of; None where no worker was asked.

        Returns:
            Whether it was recorded: only then does it count.
        """
        (done,) = self._of_place("SELECT COUNT(*) FROM evaluation", batch, place)
        (newest,) = self._of_place("SELECT MAX(attempt) FROM attempt", batch, place)
        if done or attempt not in (None, newest):
            return False
        with self._connection:
            self._connection.execute(
                "INSERT INTO evaluation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *self._key, self._number, batch, place, json.dumps(evaluated.scores), evaluated.failure,
                    evaluated.reason, int(evaluated.duplicate), evaluated.digest, json.dumps(evaluated.samples),
                    evaluated.seconds,
                ),
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
            for table in ("search", "batch", "proposal", "evaluation", "attempt", "lesson"):
                self._connection.execute(f"DELETE FROM {table} WHERE benchmark = ? AND target = ?", self._key)
        self._batch, self._number = -1, 0

    def _of_place(self, selection: str, batch: int, place: int) -> tuple[Any, ...]:
        """The one row of ``selection`` for a candidate."""
        row: tuple[Any, ...] = self._connection.execute(
            f"{selection} WHERE benchmark = ? AND target = ? AND batch = ? AND place = ?", (*self._key, batch, place)
        ).fetchone()
        return row

    def _lessons(self) -> list[Lesson]:
        rows = self._connection.execute(
            "SELECT artifact, digest, knobs, weight FROM lesson WHERE benchmark = ? AND target = ? ORDER BY place",
            self._key,
        )
        return [Lesson(artifact, digest, json.loads(knobs), weight) for artifact, digest, knobs, weight in rows]

    def _batches(self) -> list[Batch]:
        done: dict[int, dict[int, Evaluated]] = {}
        rows = self._connection.execute(
            "SELECT batch, place, scores, failure, reason, duplicate, digest, samples, seconds FROM evaluation "
            "WHERE benchmark = ? AND target = ? ORDER BY number", self._key,
        )  # fmt: skip
        for batch, place, scores, failure, reason, duplicate, digest, samples, seconds in rows:
            done.setdefault(batch, {})[place] = Evaluated(
                tuple(json.loads(scores)), failure, reason, bool(duplicate), digest, json.loads(samples), seconds
            )
        rows = self._connection.execute(
            "SELECT number, wanted, candidates, state, proposed, most FROM batch "
            "LEFT JOIN proposal USING (benchmark, target, number) "
            "WHERE benchmark = ? AND target = ? ORDER BY number", self._key,
        )  # fmt: skip
        return [
            Batch(
                wanted,
                tuple(map(_unpacked, json.loads(candidates))),
                done.get(number, {}),
                state,
                Proposal(_built(proposed), most or MOST * wanted) if proposed else NOT_PROPOSED,
            )
            for number, wanted, candidates, state, proposed, most in rows
        ]


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
                _expect_known(connection, path)
                connection.execute("PRAGMA journal_mode = WAL")
                # A killed process loses nothing; a power cut may lose the last evaluations, and corrupts nothing.
                connection.execute("PRAGMA synchronous = NORMAL")
                _bring_up_to_date(connection)
                yield Journal(connection, (benchmark, target))
        except sqlite3.Error as error:
            remedy = "remove it, and the search starts anew" if os.access(path, os.W_OK) else "make it writable"
            raise StoreError(f"{path} cannot be used ({error}): {remedy}") from error


def _expect_known(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    if version > _VERSION:
        raise StoreError(
            f"{path} was written by a later pytest-compileiq (version {version} of the file, {_VERSION} here): "
            "pip install --upgrade pytest-compileiq goes on with its searches; removed, they start anew"
        )


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Make the tables, or what an earlier version's lack; another search may be about to do so too."""
    connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}")
    with connection:
        if _version(connection) == _WITHOUT_MOST:
            connection.execute("ALTER TABLE proposal ADD COLUMN most INTEGER")
        connection.execute(f"PRAGMA user_version = {_VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _packed(candidate: Candidate) -> list[Any]:
    blob = None if candidate.blob is None else base64.b64encode(candidate.blob).decode()
    return [dict(candidate.knobs), blob, candidate.origin]


def _unpacked(packed: Sequence[Any]) -> Candidate:
    knobs, blob, origin = packed
    return Candidate(knobs, None if blob is None else base64.b64decode(blob), origin)


def _built(proposed: str | None) -> tuple[Proposed, ...]:
    return tuple(
        Proposed(_unpacked(candidate), features, known) for candidate, features, known in json.loads(proposed or "[]")
    )
