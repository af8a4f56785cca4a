"""The stored artifact when a search begins: whether it still holds, and what the search starts from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.artifact import Artifact, is_same_code, stored_code
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import BuildError, StoreError, TuneFailed
from pytest_compileiq.model import Candidate, ControlsFile
from pytest_compileiq.rules.fingerprint import is_same_benchmark
from pytest_compileiq.store.owners import other_owner, own_name
from pytest_compileiq.store.packs import read_candidates
from pytest_compileiq.store.store import Store


@dataclass(frozen=True)
class Incumbent:
    """The stored artifact, and its controls; None where it has none or they no longer build here."""

    artifact: Artifact
    controls: ControlsFile | None


def expect_owner(benchmark: TunedBenchmark, store: Store) -> None:
    """Have no living test but this one be the owner of its artifact.

    Raises:
        TuneFailed: another is, and its artifact would be overwritten.
    """
    if other := other_owner(store, benchmark.name, benchmark.nodeid, benchmark.rootdir):
        raise TuneFailed(
            f"{benchmark.nodeid}: {store.root.name}/{benchmark.name}/ holds the artifact of {other}, "
            f"which is not overwritten: {own_name(store, benchmark.name, other)}"
        )


def find_incumbent(benchmark: TunedBenchmark, store: Store) -> tuple[Incumbent | None, tuple[str, ...]]:
    """What is stored for this target, and notes on it: an unreadable artifact is replaced, and a note says so."""
    if benchmark.builder.target not in store.targets(benchmark.name):
        return None, ()
    try:
        artifact = store.read(benchmark.name, benchmark.builder.target)
    except StoreError as error:
        return None, (f"the stored artifact was not readable and is replaced: {error}",)
    try:
        controls = _committed_controls(benchmark, store, artifact)
    except (StoreError, BuildError) as error:
        return Incumbent(artifact, None), (f"the stored controls no longer build here: {error}",)
    return Incumbent(artifact, controls), ()


def _committed_controls(benchmark: TunedBenchmark, store: Store, artifact: Artifact) -> ControlsFile | None:
    if artifact.controls is None:
        return None
    data = store.read_controls(benchmark.name, artifact)
    controls = benchmark.builder.parse(artifact.controls.kind, data, artifact.controls.knobs)
    if reason := benchmark.why_outside(controls):
        raise StoreError(
            f"{store.metadata_path(benchmark.name, artifact.target)}: controls outside the test's space: {reason}"
        )
    benchmark.builds.get(controls)
    return controls


def was_withdrawn(artifact: Artifact) -> bool:
    """Whether the controls were retired; those of a promoted point only wait for their proof."""
    return artifact.outcome == "retired"


def is_healthy(benchmark: TunedBenchmark, incumbent: Incumbent) -> bool:
    """Whether the incumbent is still what was proven: same inputs, same machine code."""
    artifact = incumbent.artifact
    if (
        incumbent.controls is None
        or artifact.outcome != "tuned"
        or not is_same_benchmark(artifact.fingerprint, benchmark.fingerprint)
    ):
        return False
    builds = benchmark.builds
    return is_same_code(stored_code(builds.get(None), builds.get(incumbent.controls), artifact.code), artifact.code)


def starting_points(
    benchmark: TunedBenchmark, start_from: Path | None, incumbent: Incumbent | None
) -> tuple[list[Candidate], tuple[str, ...]]:
    """What is tried first: the committed controls, then what ``--tune-from`` names; and notes on what was left out."""
    seeds = []
    if incumbent and incumbent.controls and not was_withdrawn(incumbent.artifact):
        blob = incumbent.controls.data if incumbent.controls.kind == "blob" else None
        seeds.append(Candidate(incumbent.controls.knobs, blob, origin="committed"))
    if start_from is not None:
        seeds += read_candidates(start_from)
    outside = {seed.origin: reason for seed in seeds if (reason := benchmark.why_outside(seed))}
    notes = [f"{origin} was left out: {reason}" for origin, reason in list(outside.items())[:3]]
    return [seed for seed in seeds if seed.origin not in outside], tuple(notes)
