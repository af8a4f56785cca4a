"""Records of the past: of git's commits, and of reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.errors import StoreError, UserError
from pytest_compileiq.history.records import Observation, Record, SeriesKey, Sighting, date_of
from pytest_compileiq.model import ARMS, digest_of_code
from pytest_compileiq.outcome import REPORT_SCHEMA, Built, Circumstances, End, Measured, Verdict
from pytest_compileiq.review.snapshots import FileRequest, GitFile, StoreInGit, Version
from pytest_compileiq.rules.claims import direction_of
from pytest_compileiq.rules.staleness import code_of
from pytest_compileiq.store.metadata import MAX_METADATA_BYTES, parse
from pytest_compileiq.system.files import Unfit, read_regular
from pytest_compileiq.table import first_problem


@dataclass(frozen=True)
class ArtifactVersion:
    """One version of an artifact as a commit brought it; ``artifact`` is None where the commit removed it."""

    version: Version
    artifact: Artifact | None


def committed_in(history: StoreInGit, name: str | None = None) -> list[ArtifactVersion]:
    """Every readable version of every artifact, or of those called ``name``, oldest first."""
    versions = [version for version in history.versions(name) if version.path.endswith(".toml")]
    wanted = {
        oid: FileRequest(oid, GitFile("100644", oid), MAX_METADATA_BYTES)
        for version in versions
        if (oid := version.oid)
    }
    artifacts = {}
    for oid, data in history.contents(wanted.values()):
        if isinstance(data, bytes):
            with suppress(StoreError):  # acf check tells of those that are here
                artifacts[oid] = parse(data, oid, "an older version")
    return [
        ArtifactVersion(version, artifacts.get(version.oid or ""))
        for version in versions
        if version.oid is None or version.oid in artifacts
    ]


def proofs_in(history: Iterable[ArtifactVersion]) -> list[Observation]:
    """What was proven, oldest first: each claim once, when it came into this branch."""
    latest: dict[SeriesKey, tuple[float, ...]] = {}
    proofs = []
    for committed in history:
        for each in _of(committed.version, committed.artifact) if committed.artifact else ():
            numbers = each.baseline, each.tuned, each.speedup, each.speedup_low
            if latest.get(each.key) != numbers:
                proofs.append(each)
            latest[each.key] = numbers
    return proofs


def _of(version: Version, artifact: Artifact) -> Iterator[Observation]:
    if artifact.outcome != "tuned":
        return
    codes: dict[str, Any] = {f"{arm}_code": digest_of_code(code_of(artifact, arm)) for arm in ARMS}
    numbers = {"device", "workload", "objective", "driver", "speedup", "speedup_low", "speedup_high"}
    for claim in artifact.claims:
        is_ratio = claim.kind != "exact" and claim.scale is None
        if not (is_ratio and claim.baseline and claim.tuned and claim.speedup is not None):
            continue
        with suppress(ValidationError):
            yield Observation(
                source="proof",
                date=date_of(version.seconds),
                commit=version.commit,
                name=version.path.partition("/")[0],
                target=artifact.target,
                compiler=f"{artifact.compiler.name} {artifact.compiler.version}",
                verdict=Verdict.PROVEN.value,
                baseline=claim.baseline.mean,
                tuned=claim.tuned.mean,
                direction=direction_of(claim),
                **claim.model_dump(include=numbers),
                **codes,
            )


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
    """The measurements and sightings of the report at ``path``, in its order; raises ``UserError`` if it is none."""
    try:
        report = _Report.model_validate_json(read_regular(path, _MAX_REPORT_BYTES, follow=True))
        if report.schema_ != REPORT_SCHEMA:
            raise UserError(f"{path} has schema {report.schema_}, and this version reads {REPORT_SCHEMA}")
        if report.run is None:
            raise UserError(f"{path} does not say when it was, as reports of older versions: {_MAKE_ONE}")
        return list(_records(report.items, report.run))
    except Unfit as why:
        raise UserError(f"{path} {why}: {_MAKE_ONE}") from why
    except ValidationError as error:
        raise UserError(f"{path} is no report of a run: {first_problem(error)}; {_MAKE_ONE}") from error


def _records(items: Iterable[_Item], run: Circumstances) -> Iterator[Record]:
    for item in items:
        if item.tells_of_its_artifact:
            seen = item.model_dump(include={"name", "target", "proof", "ends"})
            yield Sighting(date=run.date, commit=run.commit, **seen)
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
                **asdict(run),
                **measured,
            )
