"""Git range → both ends, strictly read → pairs → changes. Nothing is measured again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from pytest_compileiq.artifact import MAX_CONTROLS_BYTES, Artifact, Controls
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.review.snapshots import FileRequest, GitFile, StoreInGit, StoreState
from pytest_compileiq.rules.classes import Classed
from pytest_compileiq.rules.diff import Change, Kind, Side, compare, pair_renamed
from pytest_compileiq.rules.fingerprint import covered_files, holds
from pytest_compileiq.store.metadata import (
    MAX_METADATA_BYTES,
    MAX_SAMPLES_BYTES,
    NAME,
    parse,
    referenced,
)
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.cpu import spread
from pytest_compileiq.toolchains.option_classes import check_classes, classes_in, licences_in

_MOST_TRACED = 500  # files of one artifact
Place = tuple[str, str]  # name and target
_Facts = tuple[str, int] | StoreError  # a file's digest and size, or why it cannot be read


def read_sides(history: StoreInGit, snapshot: StoreState, folders: Set[str], *, thorough: bool) -> dict[Place, Side]:
    """Every artifact in ``folders``, its controls checked against the recorded digest.

    Args:
        thorough: also check its samples and the controls of its front.
    """
    wanted = [
        FileRequest(path, entry, MAX_METADATA_BYTES)
        for path, entry in snapshot.files.items()
        if folder_of(path) in folders and _place(path)
    ]
    sides = [
        side for path, data in history.contents(wanted) for side in _parsed(history.folder, path, data, snapshot.label)
    ]
    paths = {path for side in sides for path in (files_of(side) if thorough else _controls_of(side))}
    facts = _look_at(history, snapshot.files, paths)
    checked = [_checked(history.folder, side, facts, thorough) for side in sides]
    return {(side.name, side.target): side for side in (_traced(history, snapshot, checked) if thorough else checked)}


def folder_of(path: str) -> str:
    """The artifact's name in a path below ``acf/``."""
    return path.partition("/")[0]


def files_of(side: Side) -> set[str]:
    """Paths below ``acf/`` of the files that an artifact names."""
    return {f"{side.name}/{file}" for file in referenced(side.artifact)} if side.artifact else set()


def _controls_of(side: Side) -> set[str]:
    controls = side.artifact.controls if side.artifact else None
    return {f"{side.name}/{controls.file}"} if controls else set()


def _place(path: str) -> Place | None:
    """The artifact whose metadata lies at ``path``; None for any other file."""
    name, _, file = path.partition("/")
    target = file.removesuffix(".toml")
    return (name, target) if target != file and NAME.fullmatch(name) and NAME.fullmatch(target) else None


def _parsed(root: str, path: str, data: bytes | StoreError, label: str) -> Iterator[Side]:
    place = _place(path)
    if place is None:
        return
    try:
        if isinstance(data, StoreError):
            raise data
        artifact = parse(data, f"{root}/{path}", f"it stands so in {label}")
        yield Side(*place, artifact, classed=classes_in(artifact), licences=licences_in(artifact))
    except StoreError as error:
        yield Side(*place, None, str(error))


def _look_at(history: StoreInGit, files: Mapping[str, GitFile], paths: set[str]) -> dict[str, _Facts]:
    """Each file's digest and size, or why it cannot be read; missing files are left out."""
    wanted = [FileRequest(path, files[path], _limit(path)) for path in sorted(paths) if path in files]
    return {
        path: data if isinstance(data, StoreError) else (sha256_hex(data), len(data))
        for path, data in history.contents(wanted)
    }


def _limit(path: str) -> int:
    return MAX_SAMPLES_BYTES if path.endswith(".csv") else MAX_CONTROLS_BYTES


def _checked(root: str, side: Side, facts: Mapping[str, _Facts], thorough: bool) -> Side:
    if side.artifact is None:
        return side
    problem = _controls_problem(root, side, side.artifact.controls, facts) if side.artifact.controls else ""
    problem = problem or _classes_problem(side.artifact, side.classed)
    warnings = tuple(_warnings(root, side, side.artifact, facts)) if thorough else ()
    return replace(side, problem=problem, warnings=warnings)


def _traced(history: StoreInGit, snapshot: StoreState, sides: Sequence[Side]) -> Iterator[Side]:
    """The sides, each with the files that were tuned before they were committed and now hold something else."""
    paths = {path for side in sides for path in _uncommitted(side)}
    places = {path: history.places(snapshot, path, MAX_CONTROLS_BYTES) for path in paths}
    wanted = {place.path: place for row in places.values() for place in row if place is not None}
    read = {path: data for path, data in history.contents(wanted.values()) if isinstance(data, bytes)}
    for side in sides:
        yield replace(side, untraced=_untraced(side, places, read)) if side.artifact else side


def _untraced(
    side: Side, places: Mapping[str, Sequence[FileRequest | None]], read: Mapping[str, bytes]
) -> tuple[str, ...]:
    """Files inside the repository whose content is not what was tuned."""
    files = [path for path in _uncommitted(side) if any(places[path])]
    if side.artifact is None or not files:
        return ()
    sources, parts = side.artifact.fingerprint.sources, side.artifact.fingerprint.parts
    # Recorded paths are relative to one directory: the nearest that holds any of them.
    levels = zip(*(places[path] for path in files), strict=True)
    here = [{path: read[place.path] for path, place in zip(files, level, strict=True) if place and place.path in read}
            for level in levels]  # fmt: skip
    held = next(filter(None, here), {})
    return tuple(path for path in files if not holds(held.get(path), path, sources, parts))


def _uncommitted(side: Side) -> list[str]:
    """The files that the fingerprint covers, if the artifact was tuned with uncommitted changes."""
    if side.artifact is None or not side.artifact.provenance.dirty:
        return []
    return covered_files(side.artifact.fingerprint.sources, side.artifact.fingerprint.parts)[:_MOST_TRACED]


def _controls_problem(root: str, side: Side, controls: Controls, all_facts: Mapping[str, _Facts]) -> str:
    path = f"{side.name}/{controls.file}"
    facts = all_facts.get(path)
    if facts is None:
        return f"{root}/{path}, its controls, is missing"
    if isinstance(facts, StoreError):
        return str(facts)
    if facts == (controls.sha256, controls.size_bytes):
        return ""
    recorded = f"recorded {controls.sha256[:8]}…, {controls.size_bytes} bytes"
    return f"{root}/{path} is not the controls recorded: it has sha256 {facts[0][:8]}…, {facts[1]} bytes; {recorded}"


def _classes_problem(artifact: Artifact, classed: Classed) -> str:
    try:
        check_classes(artifact, classed)
    except StoreError as error:
        return str(error)
    return ""


def _warnings(root: str, side: Side, artifact: Artifact, all_facts: Mapping[str, _Facts]) -> Iterator[str]:
    if artifact.target != side.target:
        yield f"{root}/{side.name}/{side.target}.toml says that its target is {artifact.target}"
    for file in sorted({claim.samples for claim in artifact.claims if claim.samples}):
        facts = all_facts.get(f"{side.name}/{file}")
        if facts is None:
            yield f"{root}/{side.name}/{file}, the samples behind a claim, is missing: the claim cannot be recomputed"
        elif isinstance(facts, StoreError):
            yield f"the samples behind a claim cannot be read: {facts}"
        elif file != f"{artifact.target}-{facts[0][:8]}.csv":
            yield f"{root}/{side.name}/{file} is not the samples file recorded: its digest is {facts[0][:8]}"
    for point in artifact.front:
        if problem := _controls_problem(root, side, point.controls, all_facts):
            yield f"a point of the front cannot be promoted: {problem}"


_LEAST_FOLDERS = 100  # from here on, another process pays
_ORDER = list(Kind)


@dataclass(frozen=True)
class Review:
    """The artifacts that differ between two ends.

    Attributes:
        base, head: the two ends, in words.
        changes: sorted by kind, then name and target.
        strays: new or changed files that belong to no artifact, as paths below ``acf/``.
    """

    base: str
    head: str
    changes: tuple[Change, ...]
    strays: tuple[str, ...]


@dataclass(frozen=True)
class _Study:
    """The changes in some of the folders; an artifact on one side only may have been renamed from another folder."""

    changes: Sequence[Change]
    removed: Sequence[Side]
    added: Sequence[Side]
    strays: Sequence[str]


def review(store: Store, span: str | None) -> Review:
    """Compare ``acf/`` at both ends of ``span``: ``BASE..HEAD``, or ``BASE`` and the work tree.

    Raises:
        UserError: ``span`` names a commit that this clone does not have.
        EnvironmentFault: there is no git repository.
    """
    history = StoreInGit(store)
    base, head = history.sides(span)
    different = {path for path in base.files.keys() | head.files.keys() if base.files.get(path) != head.files.get(path)}

    def study(folders: Sequence[str]) -> _Study:
        mine = frozenset(folders)
        old = read_sides(history, base, mine, thorough=False)
        new = read_sides(history, head, mine, thorough=True)
        kept = [(side, compare(old[place], side)) for place, side in new.items() if place in old]
        return _Study(
            changes=[
                change for side, change in kept if change.kind is not Kind.UNCHANGED or different & files_of(side)
            ],
            removed=[side for place, side in old.items() if place not in new],
            added=[side for place, side in new.items() if place not in old],
            strays=_strays([path for path in different & head.files.keys() if folder_of(path) in mine], new.values()),
        )

    parts = spread(study, sorted({folder_of(path) for path in different}), least=_LEAST_FOLDERS)
    removed, added = [side for part in parts for side in part.removed], [side for part in parts for side in part.added]
    changes = [change for part in parts for change in part.changes]
    changes += [compare(*pair) for pair in pair_renamed(removed, added)]
    return Review(
        base.label,
        head.label,
        tuple(sorted(changes, key=lambda change: (_ORDER.index(change.kind), change.name, change.target))),
        tuple(sorted(path for part in parts for path in part.strays)),
    )


def _strays(paths: Sequence[str], sides: Collection[Side]) -> list[str]:
    known = {path for side in sides for path in files_of(side)}
    known |= {f"{side.name}/{side.target}.toml" for side in sides}
    # An unreadable artifact may own any file that begins with its target.
    unknown = tuple(f"{side.name}/{side.target}-" for side in sides if side.artifact is None)
    return [path for path in paths if path not in known and not path.startswith(unknown)]
