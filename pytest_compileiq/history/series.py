"""The series of a history, and how long each committed artifact held."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.errors import EnvironmentFault, NotAsked
from pytest_compileiq.history.records import Archive, Observation, Sighting, seconds_of
from pytest_compileiq.history.shifts import Shift, shifts_of
from pytest_compileiq.history.sources import ArtifactVersion, committed_in, proofs_in
from pytest_compileiq.model import Target
from pytest_compileiq.outcome import REPLACED, End
from pytest_compileiq.review.snapshots import StoreInGit, Version
from pytest_compileiq.rooms import HISTORY_DIRECTORY
from pytest_compileiq.rules.staleness import ends_by_successor, goes_on, proof_of
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.cpu import spread

_DAY_S = 86_400


@dataclass(frozen=True)
class Lifetime:
    """The lifetime of one proof of an artifact."""

    name: str
    target: str
    begun_s: int  # time of its commit, in seconds since 1970
    commit: str
    after_days: float  # days to the last run in which it held
    until_days: float = math.inf  # days to its end
    ends: frozenset[End] = frozenset()  # possible causes of its end


@dataclass
class _Proof:
    """One proof as git shows it: the versions that hold it, and what took its place when."""

    first: Version
    artifact: Artifact
    digests: set[str]
    replaced_s: float = math.inf
    replaced_by: tuple[End, ...] = ()

    def span(self, sightings: Iterable[Sighting]) -> tuple[float, float, frozenset[End]]:
        """``after_days``, ``until_days`` and ``ends`` of its ``Lifetime``."""
        begun = self.first.seconds
        replaced = max(0.0, (self.replaced_s - begun) / _DAY_S)
        ended, ends = replaced, frozenset(self.replaced_by)
        held = 0.0
        for days, found in sorted(
            (max(0.0, (seconds_of(each.date) - begun) / _DAY_S), each.ends) for each in sightings
        ):
            if found:
                if days < replaced:
                    ended, ends = days, frozenset(found)
                break
            held = min(days, replaced)
        on_the_day = ends and ends <= set(REPLACED)  # of the commit, neither before nor after
        return (ended if on_the_day else min(held, ended)), ended, ends


def lifetimes_of(history: Iterable[ArtifactVersion], sightings: Iterable[Sighting]) -> Iterator[Lifetime]:
    """The lifetime of every tuned artifact in ``history``, oldest version first; sorted by name, target, beginning."""
    by_proof, by_path, by_kernel = defaultdict(list), defaultdict(list), defaultdict(list)
    for sighting in sightings:
        by_proof[sighting.proof].append(sighting)
    for committed in history:
        by_path[committed.version.path].append(committed)
        by_kernel[_kernel_of(committed)].append(committed)
    for path, versions in sorted(by_path.items()):
        elsewhere = [each for each in by_kernel[_kernel_of(versions[0])] if each.version.path != path]
        for proof in _proofs(versions, elsewhere):
            seen = (sighting for digest in proof.digests for sighting in by_proof[digest])
            name, begun = path.partition("/")[0], proof.first
            yield Lifetime(name, proof.artifact.target, begun.seconds, begun.commit, *proof.span(seen))


def _kernel_of(committed: ArtifactVersion) -> tuple[str, str]:
    """The name and architecture, which a new compiler leaves as they are."""
    name, _, file = committed.version.path.partition("/")
    return name, Target(file.removesuffix(".toml")).architecture


def _proofs(versions: Sequence[ArtifactVersion], elsewhere: Sequence[ArtifactVersion]) -> Iterator[_Proof]:
    """The proofs that one path held, one after the other; ``elsewhere`` are those of other compilers."""
    proof: _Proof | None = None
    for version, artifact in ((each.version, each.artifact) for each in versions):
        if proof is not None:
            if artifact is not None and goes_on(proof.artifact, artifact):
                proof.artifact = artifact
                proof.digests.add(proof_of(artifact))
                continue
            proof.replaced_s = version.seconds
            if artifact is not None:
                proof.replaced_by = ends_by_successor(proof.artifact, artifact)
            else:
                begun = proof.first.seconds
                upgraded = any(each.artifact and each.version.seconds >= begun for each in elsewhere)
                proof.replaced_by = ("compiler",) if upgraded else ("withdrawn",)
            yield proof
            proof = None
        if artifact is not None and artifact.outcome == "tuned":
            proof = _Proof(version, artifact, {proof_of(artifact)})
    if proof is not None:
        yield proof


# ── series ───────────────────────────────────────────────────────────────────────────────────────────────────────

_LEAST_LINES = 10  # from here on, another process pays: a year of nights takes a third of a second


@dataclass(frozen=True)
class Series:
    """Observations of one artifact × device × workload × objective, oldest first, and their shifts."""

    observations: tuple[Observation, ...]
    shifts: tuple[Shift, ...]

    @property
    def newest(self) -> Observation:
        """The newest observation, which names the series."""
        return self.observations[-1]


@dataclass(frozen=True)
class ArtifactHistory:
    """The past of the artifacts."""

    observations: tuple[Observation, ...]
    lifetimes: tuple[Lifetime, ...]
    shallow: bool  # git lacks the older commits, so no lifetime is known
    problems: tuple[str, ...]  # what could not be read


def read_history(store: Store, archive: Archive, name: str | None = None) -> ArtifactHistory:
    """What was added, and what git knows of the artifacts in ``store``; what one of them lacks is a problem.

    Raises:
        EnvironmentFault: nothing was added, and there is no repository, or git does not answer.
    """
    added = archive.read()
    committed: list[ArtifactVersion] = []
    shallow, problems = False, added.problems
    try:
        in_git = StoreInGit(store)
        committed, shallow = committed_in(in_git, name), in_git.is_shallow
    except EnvironmentFault as error:
        if not added.observations and not added.sightings and not added.problems:
            raise
        if isinstance(error, NotAsked):  # else what was added is all that there is
            problems = (*problems, str(error))
    lifetimes = () if shallow else tuple(lifetimes_of(committed, added.sightings))
    return ArtifactHistory((*proofs_in(committed), *added.observations), lifetimes, shallow, problems)


def series_of(observations: Iterable[Observation], name: str | None = None, device: str | None = None) -> list[Series]:
    """The series, sorted by key; ``name`` is one artifact's, ``device`` a part of a device's name."""
    by_line = defaultdict(list)
    for observation in observations:
        if name in (None, observation.name) and (device or "").casefold() in observation.device.casefold():
            by_line[observation.key].append(observation)
    grouped = [sorted(own, key=lambda each: each.date) for _, own in sorted(by_line.items())]
    parts = spread(
        lambda share: [Series(tuple(own), tuple(shifts_of(own))) for own in share], grouped, least=_LEAST_LINES
    )
    return [line for part in parts for line in part]


def added_series(store: Store, names: Collection[str]) -> list[Series]:
    """The series of what was added beside ``store`` of these artifacts; ``acf history`` tells what cannot be read."""
    added = Archive(store.root.parent / HISTORY_DIRECTORY).read().observations
    return series_of(observation for observation in added if observation.name in names)


def of_artifact(lines: Iterable[Series], name: str, target: str) -> list[Series]:
    """Those of one artifact."""
    return [line for line in lines if line.newest.key[:2] == (name, Target(target).architecture)]
