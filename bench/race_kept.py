"""What races have built, measured and found, in one SQLite file that any number of runs may share."""

import json
import sqlite3
import zlib
from pathlib import Path
from typing import Any

TABLES = """
CREATE TABLE IF NOT EXISTS builds (kernel TEXT, options TEXT, code TEXT, seconds REAL, PRIMARY KEY (kernel, options));
CREATE TABLE IF NOT EXISTS codes (code TEXT PRIMARY KEY, bytes INTEGER, object BLOB);
CREATE TABLE IF NOT EXISTS answers (
    kernel TEXT, code TEXT, asked TEXT, answer TEXT, seconds REAL, PRIMARY KEY (kernel, code, asked)
);
CREATE TABLE IF NOT EXISTS races (key TEXT PRIMARY KEY, race TEXT);
"""


class Kept:
    """Each build, each answer of ``race_serve`` and each race is made once; of two runs, the first's is kept."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, isolation_level=None, timeout=60)
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
        self._base.executescript(TABLES)

    def close(self) -> None:
        self._base.close()

    def build(self, kernel: str, options: str) -> tuple[str | None, int, float] | None:
        """Digest of the machine code (None where gcc refused), its bytes, and the seconds that the build took."""
        query = """SELECT builds.code, ifnull(codes.bytes, 0), seconds FROM builds LEFT JOIN codes USING (code)
                   WHERE kernel = ? AND options = ?"""
        row: tuple[str | None, int, float] | None = self._base.execute(query, (kernel, options)).fetchone()
        return row

    def keep_build(self, kernel: str, options: str, code: str | None, seconds: float) -> None:
        self._base.execute("INSERT OR IGNORE INTO builds VALUES (?, ?, ?, ?)", (kernel, options, code, seconds))

    def object_of(self, code: str) -> bytes:
        return zlib.decompress(self._base.execute("SELECT object FROM codes WHERE code = ?", (code,)).fetchone()[0])

    def keep_object(self, code: str, code_bytes: int, content: bytes) -> None:
        self._base.execute("INSERT OR IGNORE INTO codes VALUES (?, ?, ?)", (code, code_bytes, zlib.compress(content)))

    def answer(self, kernel: str, code: str, asked: str) -> tuple[str, float] | None:
        """The line of ``race_serve``, and the processor seconds that it took."""
        query = "SELECT answer, seconds FROM answers WHERE kernel = ? AND code = ? AND asked = ?"
        row: tuple[str, float] | None = self._base.execute(query, (kernel, code, asked)).fetchone()
        return row

    def keep_answer(self, kernel: str, code: str, asked: str, answer: str, seconds: float) -> None:
        values = (kernel, code, asked, answer, seconds)
        self._base.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", values)

    def race(self, key: str) -> Any | None:
        row = self._base.execute("SELECT race FROM races WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def keep_race(self, key: str, race: Any) -> None:
        self._base.execute("INSERT OR IGNORE INTO races VALUES (?, ?)", (key, json.dumps(race)))
