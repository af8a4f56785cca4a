"""What became of each step, one small file each, so that the same command goes on where it stopped."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class Status(StrEnum):
    """``NOT_RUN`` could not begin here and is tried again; ``PARTIAL`` goes on in the next call."""

    TO_DO = "to do"
    PARTIAL = "partial"
    DONE = "done"
    FAILED = "failed"
    NOT_RUN = "not run"

    @property
    def ended(self) -> bool:
        return self in (Status.DONE, Status.FAILED)


@dataclass(frozen=True)
class Record:
    """One step so far.

    Attributes:
        why: what it did, or why it failed or was not run, in a sentence.
        seconds: what it took, in all calls that ended.
        begun: how often it was begun since it last got anywhere; a call that was killed counts.
    """

    status: Status = Status.TO_DO
    why: str = ""
    seconds: float = 0.0
    begun: int = 0


@dataclass(frozen=True)
class State:
    """The records of all steps, in one folder."""

    folder: Path

    def of(self, step: str) -> Record:
        """The step's record; one that was torn or never written is of a step that is still to do."""
        try:
            content = json.loads(self._path(step).read_text(encoding="utf-8"))
            return Record(**{**content, "status": Status(content["status"])})
        except (OSError, ValueError, TypeError, KeyError):
            return Record()

    def keep(self, step: str, record: Record) -> None:
        """Write the record, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self._path(step).with_suffix(".partial")
        partial.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
        partial.replace(self._path(step))

    def _path(self, step: str) -> Path:
        return self.folder / f"{step}.json"
