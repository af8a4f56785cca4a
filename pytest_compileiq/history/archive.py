"""The records that were added: an append-only file a month, one record a line, which git can merge by union.

Whatever is read is untrusted. The order of lines means nothing, and a line that is there twice counts once: so files
that several devices appended to are merged by putting their lines together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from pytest_compileiq.errors import StoreError
from pytest_compileiq.history.observation import RECORD, Observation, Record, Sighting
from pytest_compileiq.spelling import quantity
from pytest_compileiq.stored import first_problem
from pytest_compileiq.system.files import PARTIAL, Unfit, locked, machine_lock, read_regular, replace

MAX_MONTH_BYTES = 64 << 20
_MOST_BYTES = 1 << 30  # of all months
_MOST_PROBLEMS = 5  # of one file, told one by one
_FOR_GIT = {".gitattributes": b"*.jsonl merge=union\n", ".gitignore": f"{PARTIAL}*\n".encode()}


@dataclass(frozen=True)
class Archived:
    """What the files hold, and why some lines could not be read."""

    observations: tuple[Observation, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Archive:
    """The directory of monthly files; it may not exist yet."""

    root: Path

    def add(self, records: Iterable[Record]) -> int:
        """Append those that are not there yet; returns how many these are.

        Raises:
            StoreError: a month's file cannot be read.
            OSError: it cannot be written.
        """
        by_month = defaultdict(list)
        for record in records:
            by_month[record.date[:7]].append(record.model_dump_json(exclude_none=True).encode())
        if not by_month:
            return 0
        self.root.mkdir(parents=True, exist_ok=True)
        with locked(machine_lock(f"history {self.root.resolve()}")):
            for killed in self.root.glob(f"{PARTIAL}*"):  # whoever holds the lock is the only writer
                killed.unlink(missing_ok=True)
            for name, content in _FOR_GIT.items():
                if not (self.root / name).exists():
                    replace(self.root / name, content)
            return sum(self._append(self.root / f"{month}.jsonl", lines) for month, lines in by_month.items())

    def _append(self, path: Path, lines: Iterable[bytes]) -> int:
        old = self._bytes(path) if path.is_symlink() or path.exists() else b""
        there = set(old.splitlines())
        new = [line for line in dict.fromkeys(lines) if line not in there]
        if new:
            ended = b"" if old.endswith(b"\n") or not old else b"\n"
            replace(path, old + ended + b"".join(line + b"\n" for line in new))
        return len(new)

    def read(self) -> Archived:
        """Every distinct record; a file or line that cannot be read becomes a problem."""
        records: dict[bytes, Record] = {}
        problems: list[str] = []
        left = _MOST_BYTES
        for path in sorted(self.root.glob("*.jsonl")):
            try:
                data = self._bytes(path, min(MAX_MONTH_BYTES, left))
            except StoreError as error:
                problems.append(str(error))
                continue
            left -= len(data)
            problems += self._take(path, data.splitlines(), records)
        observations = tuple(record for record in records.values() if isinstance(record, Observation))
        sightings = tuple(record for record in records.values() if isinstance(record, Sighting))
        return Archived(observations, sightings, tuple(problems))

    def _take(self, path: Path, lines: Iterable[bytes], records: dict[bytes, Record]) -> list[str]:
        """Add the record of each new line to ``records``; returns why others are none, the first few of them.

        The rest is counted: a file in which every line is broken shall not fill a terminal.
        """
        where, unreadable = f"{self.root.name}/{path.name}", []
        for number, line in enumerate(lines, 1):
            if line in records or not line:
                continue
            try:
                records[line] = RECORD.validate_json(line)
            except ValidationError as error:
                why = f"{first_problem(error)}; remove the line, or restore it with git"
                unreadable.append(f"{where}, line {number}: {why}")
        more = len(unreadable) - _MOST_PROBLEMS
        return [
            *unreadable[:_MOST_PROBLEMS],
            *([f"{where}: {quantity(more, 'more line')} like that"] if more > 0 else []),
        ]

    def _bytes(self, path: Path, limit: int = MAX_MONTH_BYTES) -> bytes:
        try:
            return read_regular(path, limit)
        except Unfit as why:
            raise StoreError(f"{self.root.name}/{path.name} {why}: restore it with git checkout") from why
