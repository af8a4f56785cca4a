"""Finds the artifact of a moved or renamed test: one without an owner, of the same benchmark and machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_compileiq.artifact import Artifact, FingerprintTable
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.digest import digest_under
from pytest_compileiq.errors import BuildError, StoreError
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.rules.fingerprint import are_moved, path_within
from pytest_compileiq.rules.staleness import Effect, judge
from pytest_compileiq.store.status import is_ownerless, other_owner, rename
from pytest_compileiq.store.store import Store


@dataclass(frozen=True)
class Former:
    """The artifact, ``name`` in the store, that a test had under its former name or in its former file."""

    name: str
    artifact: Artifact
    controls: ControlsFile | None


def former_of(benchmark: TunedBenchmark, store: Store, names: Sequence[str]) -> Former | None:
    """The artifact of ``names`` that was made for ``benchmark`` before it moved; both arms are built to tell."""
    here = (name for name in names if benchmark.builder.target in store.targets(name))
    return next((former for name in here if (former := _former(benchmark, store, name)) is not None), None)


def adopt(benchmark: TunedBenchmark, store: Store, former: Former) -> Artifact:
    """Make a former artifact the benchmark's own; its claims stay, since the machine code is theirs."""
    rename(store, former.name, benchmark.name)
    compiler = former.artifact.compiler.model_copy(update={"command": tuple(benchmark.builder.compiler.command)})
    fresh = former.artifact.model_copy(
        update={
            "benchmark": benchmark.nodeid,
            "fingerprint": FingerprintTable.of(benchmark.fingerprint_with(former.controls)),
            "compiler": compiler,
        }
    )
    return store.write(benchmark.name, fresh, controls=[], samples=()).artifact


def _former(benchmark: TunedBenchmark, store: Store, name: str) -> Former | None:
    try:
        artifact = store.read(name, benchmark.builder.target)
        if not is_ownerless(artifact, benchmark.rootdir) or not _is_same_benchmark(benchmark, artifact):
            return None
        if other_owner(store, name, benchmark.nodeid, benchmark.rootdir):  # of another target
            return None
        controls = None
        if artifact.outcome == "tuned" and artifact.controls is not None:
            data = store.read_controls(name, artifact)
            controls = benchmark.builder.parse(artifact.controls.kind, data, artifact.controls.knobs)
        return Former(name, artifact, controls) if _is_same_code(benchmark, artifact, controls) else None
    except (StoreError, BuildError):  # the replay tells
        return None


def _is_same_benchmark(benchmark: TunedBenchmark, artifact: Artifact) -> bool:
    """Whether the test, digested under its recorded name, has the recorded parts, in whichever files."""
    before, now = artifact.fingerprint, benchmark.fingerprint
    recorded_name = path_within(artifact.benchmark)[1][-1:]
    own = digest_under("".join(recorded_name), benchmark.function, benchmark.rootdir)
    parts = {name: (own or "") if name.startswith("test ") else sha for name, sha in now.parts.items()}
    has_values = "" not in now.values.values() and (not before.values or before.values == now.values)
    return has_values and are_moved(before.parts, parts)


def _is_same_code(benchmark: TunedBenchmark, artifact: Artifact, controls: ControlsFile | None) -> bool:
    baseline = benchmark.builds.look(None)
    tuned = benchmark.builds.look(controls) if controls is not None else None
    found = benchmark.found(controls, baseline, tuned)
    known = replace(
        found.fingerprint, benchmark=artifact.fingerprint.benchmark, values=dict(artifact.fingerprint.values)
    )
    return all(finding.effect is not Effect.STALE for finding in judge(artifact, replace(found, fingerprint=known)))
