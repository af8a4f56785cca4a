"""What a line of a history holds: one measurement of a claim, or that an artifact still held. Read as untrusted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, model_validator

from pytest_compileiq.history.moves import Run
from pytest_compileiq.model import Direction, Target
from pytest_compileiq.outcome import End, Verdict
from pytest_compileiq.spelling import utc
from pytest_compileiq.stored import Array, Digest, Finite, Name, Ratio, Stored, Text

_DATE = "%Y-%m-%dT%H:%M:%SZ"


def seconds_of(date: str) -> float:
    """A date of a record in seconds since 1970."""
    return datetime.strptime(date, _DATE).replace(tzinfo=UTC).timestamp()


def date_of(seconds: float) -> str:
    """The inverse of ``seconds_of``; any number of seconds has one, since a commit's are whatever its author wrote."""
    return utc(seconds, _DATE)


def _is_date(date: str) -> str:
    seconds_of(date)
    return date


def _is_verdict(verdict: str) -> str:
    return Verdict(verdict).value


# The pattern holds the digits to one spelling, so that dates sort as texts.
_SPELT = StringConstraints(pattern=r"^(19[7-9][0-9]|2[0-9]{3})(-[0-9]{2}){2}T([0-9]{2}:){2}[0-9]{2}Z$")
Date = Annotated[str, _SPELT, AfterValidator(_is_date)]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]
LineKey = tuple[str, str, str, str, str]


class Observation(Stored):
    """What was measured of one artifact on one device and workload.

    ``source``: ``replay``, a normal run's report; ``proof``, the claim as it was committed. ``baseline`` and ``tuned``
    are means in the objective's unit. ``baseline_code`` and ``tuned_code`` are digests of all machine code of an arm.
    """

    source: Literal["replay", "proof"]
    date: Date
    name: Name
    target: Name
    device: Text
    workload: Text
    objective: Text
    direction: Direction
    verdict: Annotated[str, AfterValidator(_is_verdict)]
    baseline: Ratio
    tuned: Ratio
    speedup: Ratio
    speedup_low: Finite
    speedup_high: Finite
    compiler: Text
    baseline_code: Digest
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
    def key(self) -> LineKey:
        """The line it belongs to, which a new compiler does not break."""
        return self.name, Target(self.target).architecture, self.device, self.workload, self.objective

    @property
    def run(self) -> Run:
        """What the rules need of it."""
        return Run(
            self.baseline, self.tuned, self.baseline_code, self.tuned_code, self.compiler, self.driver, self.machine
        )


class Sighting(Stored):
    """What a normal run found of one artifact: it held, or ``ends`` tells what had ended it.

    ``proof`` is the digest by which git's version of the artifact is known: ``rules.ends.proof_of``.
    """

    source: Literal["sighting"] = "sighting"
    date: Date
    name: Name
    target: Name
    proof: Digest
    ends: Annotated[Array[End], Field(max_length=8)] = ()
    commit: Commit | None = None


Record = Observation | Sighting
RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="source")])
