"""The journal of a search under way: every evaluation is on disk before the next, so that a killed search can go on.

A search is identified by all that it depends on: with another benchmark, space, engine, seed or compiler it is another
search.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from pytest_compileiq.errors import contained
from pytest_compileiq.model import Candidate, FailureKind, KnobValue, Lesson
from pytest_compileiq.search.batches import Batch, Earlier, Evaluated

# The columns, as they are read: SQLite holds whatever type was written.
_Knobs = dict[str, KnobValue]
_Candidate = tuple[_Knobs, str | None, str]
_Taught = tuple[str, str, _Knobs, float]
_Attempt = tuple[int, int, int, str | None]
_Evaluation = tuple[tuple[float, ...], FailureKind | None, str, bool, str, list[Any], float]


class Journal:
    """The journal of one search; made by ``journal_file.open_journal``."""

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
        """Record a batch before it is evaluated; returns its number."""
        self._batch += 1
        packed = json.dumps([_packed(candidate) for candidate in candidates])
        with self._connection:
            self._connection.execute(
                "INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)", (*self._key, self._batch, wanted, packed, state)
            )
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
            for table in ("search", "batch", "evaluation", "attempt", "lesson"):
                self._connection.execute(f"DELETE FROM {table} WHERE benchmark = ? AND target = ?", self._key)
        self._batch, self._number = -1, 0

    def _of_place(self, selection: str, batch: int, place: int) -> tuple[Any, ...]:
        """The one row of ``selection`` for a candidate."""
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
