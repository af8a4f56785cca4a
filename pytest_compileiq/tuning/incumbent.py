"""What stands in the store when a search begins: whether it still holds, and what the search starts from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.benchmark.benchmark import Subject
from pytest_compileiq.errors import BuildError, StoreError
from pytest_compileiq.model import Candidate, ControlsFile
from pytest_compileiq.store.packs import read_candidates
from pytest_compileiq.store.store import Store
from pytest_compileiq.tuning.result import stored_code


@dataclass(frozen=True)
class Incumbent:
    """The artifact that stands in the store, and its controls when they still build here."""

    artifact: Artifact
    controls: ControlsFile | None


def find_incumbent(subject: Subject, store: Store) -> tuple[Incumbent | None, tuple[str, ...]]:
    """What is stored for this target; an unreadable artifact is replaced, and said so."""
    if subject.resolved.target not in store.targets(subject.name):
        return None, ()
    try:
        artifact = store.read(subject.name, subject.resolved.target)
    except StoreError as error:
        return None, (f"the stored artifact was not readable and is replaced: {error}",)
    try:
        controls = _committed_controls(subject, store, artifact)
    except (StoreError, BuildError) as error:
        return Incumbent(artifact, None), (f"the stored controls no longer build here: {error}",)
    return Incumbent(artifact, controls), ()


def _committed_controls(subject: Subject, store: Store, artifact: Artifact) -> ControlsFile | None:
    if artifact.controls is None:
        return None
    data = store.read_controls(subject.name, artifact)
    controls = subject.resolved.parse(artifact.controls.kind, data, artifact.controls.knobs)
    if reason := subject.why_outside(controls):
        raise StoreError(
            f"{store.metadata_path(subject.name, artifact.target)}: its controls are outside the test's space: {reason}"
        )
    subject.builds.get(controls)
    return controls


def was_withdrawn(artifact: Artifact) -> bool:
    """Whether the controls were retired; those of a promoted point only wait for their proof."""
    return artifact.outcome == "retired"


def is_healthy(subject: Subject, incumbent: Incumbent) -> bool:
    """Whether the incumbent still is what was proven: same inputs, same machine code."""
    artifact = incumbent.artifact
    if (
        incumbent.controls is None
        or artifact.outcome != "tuned"
        or artifact.fingerprint.benchmark != subject.fingerprint.benchmark
    ):
        return False
    return stored_code(subject.builds.get(None), subject.builds.get(incumbent.controls)) == artifact.code


def starting_points(
    subject: Subject, start_from: Path | None, incumbent: Incumbent | None
) -> tuple[list[Candidate], tuple[str, ...]]:
    """What is tried first: the committed controls, then what ``--tune-from`` names; and what of it was left out."""
    seeds = []
    if incumbent and incumbent.controls and not was_withdrawn(incumbent.artifact):
        blob = incumbent.controls.data if incumbent.controls.kind == "blob" else None
        seeds.append(Candidate(incumbent.controls.knobs, blob, origin="committed"))
    if start_from is not None:
        seeds += read_candidates(start_from)
    outside = {seed.origin: reason for seed in seeds if (reason := subject.why_outside(seed))}
    notes = [f"{origin} was left out: {reason}" for origin, reason in list(outside.items())[:3]]
    return [seed for seed in seeds if seed.origin not in outside], tuple(notes)
