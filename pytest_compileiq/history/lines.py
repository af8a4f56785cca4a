"""The lines of a history: what was observed of each artifact on each device and workload, and how it moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pytest_compileiq.errors import EnvironmentFault, NotAsked
from pytest_compileiq.history.lifetimes import Lifetime, lifetimes_of
from pytest_compileiq.history.records import Archive, Observation
from pytest_compileiq.history.shifts import Move, moves_of
from pytest_compileiq.history.sources import Committed, committed_in, proofs_in
from pytest_compileiq.model import Target
from pytest_compileiq.review.snapshots import StoreInGit
from pytest_compileiq.rooms import HISTORY_DIRECTORY
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.cpu import spread

_LEAST_LINES = 10  # from here on, another process pays: a year of nights takes a third of a second


@dataclass(frozen=True)
class Line:
    """What was observed of one artifact × device × workload × objective, oldest first, and its moves."""

    observations: tuple[Observation, ...]
    moves: tuple[Move, ...]

    @property
    def newest(self) -> Observation:
        """The newest observation, which names the line."""
        return self.observations[-1]


@dataclass(frozen=True)
class History:
    """All that is known of the artifacts' past.

    Attributes:
        shallow: whether git here lacks the older commits, so that no lifetime is known.
        problems: what could not be read.
    """

    observations: tuple[Observation, ...]
    lifetimes: tuple[Lifetime, ...]
    shallow: bool
    problems: tuple[str, ...]


def read_history(store: Store, archive: Archive, name: str | None = None) -> History:
    """What was added, and what git knows of the artifacts in ``store``; what one of them lacks is a problem.

    Raises:
        EnvironmentFault: nothing was added, and there is no repository, or git does not answer.
    """
    added = archive.read()
    committed: list[Committed] = []
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
    return History((*proofs_in(committed), *added.observations), lifetimes, shallow, problems)


def lines_of(observations: Iterable[Observation], name: str | None = None, device: str | None = None) -> list[Line]:
    """The lines, sorted by what they are of; ``name`` is one artifact's, ``device`` a part of a device's name."""
    by_line = defaultdict(list)
    for observation in observations:
        if name in (None, observation.name) and (device or "").casefold() in observation.device.casefold():
            by_line[observation.key].append(observation)
    grouped = [sorted(own, key=lambda each: each.date) for _, own in sorted(by_line.items())]
    parts = spread(lambda share: [_line(own) for own in share], grouped, least=_LEAST_LINES)
    return [line for part in parts for line in part]


def _line(observations: list[Observation]) -> Line:
    return Line(tuple(observations), tuple(moves_of([observation.run for observation in observations])))


def added_lines(store: Store, names: Collection[str]) -> list[Line]:
    """The lines of what was added beside ``store`` of these artifacts; ``acf history`` tells what cannot be read."""
    added = Archive(store.root.parent / HISTORY_DIRECTORY).read().observations
    return lines_of(observation for observation in added if observation.name in names)


def of_artifact(lines: Iterable[Line], name: str, target: str) -> list[Line]:
    """Those of one artifact."""
    return [line for line in lines if line.newest.key[:2] == (name, Target(target).architecture)]
