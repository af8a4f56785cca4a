"""What a run's report, the JSON of ``--acf-report``, measured and found to hold. The file is untrusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_compileiq.errors import UserError
from pytest_compileiq.history.observation import Observation, Record, Sighting
from pytest_compileiq.outcome import REPORT_SCHEMA, Built, Circumstances, End, Measured, Verdict
from pytest_compileiq.stored import first_problem
from pytest_compileiq.system.files import Unfit, read_regular

_MAX_REPORT_BYTES = 64 << 20
_MAKE_ONE = "make one with pytest --acf-report=report.json"


class _Part(BaseModel):
    """A part of a report; what a history does not need of it is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Item(_Part):
    name: str
    target: str
    verdict: Verdict
    built: Built | None = None
    measured: tuple[Measured, ...] = ()
    proof: str = ""
    ends: tuple[End, ...] = ()

    @property
    def tells_of_its_artifact(self) -> bool:
        """Whether it says that the artifact holds, or what ended it; other verdicts leave that open."""
        return bool(self.proof) and (bool(self.ends) or self.verdict in (Verdict.PROVEN, Verdict.REPLAYED))


class _Report(_Part):
    schema_: Annotated[int, Field(alias="schema")]
    run: Circumstances | None = None
    items: tuple[_Item, ...]


def records_in(path: Path) -> list[Record]:
    """What the report at ``path`` measured, and which artifacts it found to hold or not, in its order.

    Raises:
        UserError: it is no report, or one of a version that does not say when and on what it was.
    """
    try:
        report = _Report.model_validate_json(read_regular(path, _MAX_REPORT_BYTES, follow=True))
        if report.schema_ != REPORT_SCHEMA:
            raise UserError(f"{path} has schema {report.schema_}, and this version reads {REPORT_SCHEMA}")
        return list(_records(report, path))
    except Unfit as why:
        raise UserError(f"{path} {why}: {_MAKE_ONE}") from why
    except ValidationError as error:
        raise UserError(f"{path} is no report of a run: {first_problem(error)}; {_MAKE_ONE}") from error


def _records(report: _Report, path: Path) -> Iterator[Record]:
    if report.run is None:
        raise UserError(f"{path} does not say when it was, as reports of older versions: {_MAKE_ONE}")
    for item in report.items:
        if item.tells_of_its_artifact:
            yield Sighting(
                date=report.run.date,
                commit=report.run.commit,
                **item.model_dump(include={"name", "target", "proof", "ends"}),
            )
        if item.built is None:
            continue
        for measured in map(asdict, item.measured):
            del measured["seed"]  # repeats one run; a history compares many
            yield Observation(
                source="replay",
                name=item.name,
                target=item.target,
                compiler=item.built.compiler,
                baseline_code=item.built.baseline,
                tuned_code=item.built.tuned,
                **asdict(report.run),
                **measured,
            )
