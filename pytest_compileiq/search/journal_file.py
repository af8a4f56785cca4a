"""The file that journals lie in: SQLite in ``.compileiq/`` of the project.

It is in write-ahead mode, so that searches of several benchmarks share it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pytest_compileiq.errors import LARGER_FILES, WRITABLE, StoreError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.search.journal import Journal
from pytest_compileiq.store.local import local_directory
from pytest_compileiq.system.files import locked

_BUSY_S = 30.0
_LONGEST_PATH = 512 - len("-journal")  # MAX_PATHNAME of SQLite's os_unix.c, in bytes
_PRIMARY = 0xFF  # of an extended result code
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
                _expect_known(connection, path)
                connection.execute("PRAGMA journal_mode = WAL")
                # A killed process loses nothing; a power cut may lose the last evaluations, and corrupts nothing.
                connection.execute("PRAGMA synchronous = NORMAL")
                _bring_up_to_date(connection)
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
    return "remove it, and the search starts anew"


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
        connection.execute(f"PRAGMA user_version = {_VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version
