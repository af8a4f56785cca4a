"""What was measured on one day, appended to a file a month.

Whatever is read is untrusted. The order of lines means nothing, and a line that is there twice counts once: so files
that several devices appended to are merged by putting their lines together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import Direction, Target
from pytest_compileiq.outcome import End, Verdict
from pytest_compileiq.spelling import quantity, utc
from pytest_compileiq.system.files import PARTIAL, Unfit, locked, machine_lock, read_regular, replace
from pytest_compileiq.table import Array, Digest, Finite, Name, Ratio, Table, Text, first_problem

_DATE = "%Y-%m-%dT%H:%M:%SZ"


def seconds_of(date: str) -> float:
    """A date of a record in seconds since 1970."""
    return datetime.strptime(date, _DATE).replace(tzinfo=UTC).timestamp()


def date_of(seconds: float) -> str:
    """The inverse of ``seconds_of`` for any number: a commit's author may have written a date beyond all calendars."""
    return utc(seconds, _DATE)


def _is_date(date: str) -> str:
    seconds_of(date)
    return date


# The pattern holds the digits to one spelling, so that dates sort as texts.
_SPELT = StringConstraints(pattern=r"^(19[7-9][0-9]|2[0-9]{3})(-[0-9]{2}){2}T([0-9]{2}:){2}[0-9]{2}Z$")
Date = Annotated[str, _SPELT, AfterValidator(_is_date)]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]
SeriesKey = tuple[str, str, str, str, str]


class Observation(Table):
    """What was measured of one artifact on one device and workload."""

    source: Literal["replay", "proof"]  # a normal run's report; the claim as it was committed
    date: Date
    name: Name
    target: Name
    device: Text
    workload: Text
    objective: Text
    direction: Direction
    verdict: Annotated[str, AfterValidator(lambda verdict: Verdict(verdict).value)]
    baseline: Ratio  # mean, in the objective's unit
    tuned: Ratio
    speedup: Ratio
    speedup_low: Finite
    speedup_high: Finite
    compiler: Text
    baseline_code: Digest  # of all machine code of the arm
    tuned_code: Digest
    driver: Text | None = None
    machine: Text | None = None
    commit: Commit | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Observation:
        if self.speedup_low > self.speedup_high:
            raise ValueError(f"the interval of the speedup is {self.speedup_low} to {self.speedup_high}")
        return self

    @property
    def key(self) -> SeriesKey:
        """The series that it belongs to, which a new compiler does not break."""
        return self.name, Target(self.target).architecture, self.device, self.workload, self.objective


class Sighting(Table):
    """What a normal run found of one artifact: it held, or ``ends`` tells what had ended it."""

    source: Literal["sighting"] = "sighting"
    date: Date
    name: Name
    target: Name
    proof: Digest  # by which git's version of the artifact is known: ``rules.staleness.proof_of``
    ends: Annotated[Array[End], Field(max_length=8)] = ()
    commit: Commit | None = None


Record = Observation | Sighting
RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="source")])


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
            where, unreadable = f"{self.root.name}/{path.name}", []
            for number, line in enumerate(data.splitlines(), 1):
                if line in records or not line:
                    continue
                try:
                    records[line] = RECORD.validate_json(line)
                except ValidationError as error:
                    why = f"{first_problem(error)}; remove the line, or restore it with git"
                    unreadable.append(f"{where}, line {number}: {why}")
            problems += unreadable[:_MOST_PROBLEMS]
            if (more := len(unreadable) - _MOST_PROBLEMS) > 0:  # a file of broken lines shall not fill a terminal
                problems.append(f"{where}: {quantity(more, 'more line')} like that")
        observations = tuple(record for record in records.values() if isinstance(record, Observation))
        sightings = tuple(record for record in records.values() if isinstance(record, Sighting))
        return Archived(observations, sightings, tuple(problems))

    def _bytes(self, path: Path, limit: int = MAX_MONTH_BYTES) -> bytes:
        try:
            return read_regular(path, limit)
        except Unfit as why:
            raise StoreError(f"{self.root.name}/{path.name} {why}: restore it with git checkout") from why
