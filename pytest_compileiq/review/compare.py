"""Git range → both ends, strictly read → pairs → changes. Nothing is measured again."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from pytest_compileiq.artifact import MAX_CONTROLS_BYTES, Controls
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.review.snapshots import FileRequest, StoreInGit, StoreState
from pytest_compileiq.rules.diff import Change, Kind, Side, compare, pair_renamed
from pytest_compileiq.rules.fingerprint import covered_files, holds
from pytest_compileiq.store.metadata import MAX_METADATA_BYTES, MAX_SAMPLES_BYTES, NAME, parse, referenced
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.cpu import spread
from pytest_compileiq.toolchains.option_classes import check_classes, classes_in, licences_in

_MOST_TRACED = 500  # files of one artifact
_LEAST_FOLDERS = 100  # from here on, another process pays
_ORDER = list(Kind)
Place = tuple[str, str]  # name and target
_Facts = Mapping[str, tuple[str, int] | StoreError]  # path → digest and size, or why it cannot be read


@dataclass(frozen=True)
class Review:
    """The artifacts that differ between two ends."""

    base: str  # in words
    head: str
    changes: tuple[Change, ...]  # sorted by kind, then name and target
    strays: tuple[str, ...]  # paths below acf/ of files that belong to no artifact


class _Study(NamedTuple):
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
        changed = [change for side, change in kept if change.kind is not Kind.UNCHANGED or different & _files_of(side)]
        removed = [side for place, side in old.items() if place not in new]
        added = [side for place, side in new.items() if place not in old]
        files = (path for path in different & head.files.keys() if _folder_of(path) in mine)
        return _Study(changed, removed, added, _strays(files, new.values()))

    parts = spread(study, sorted({_folder_of(path) for path in different}), least=_LEAST_FOLDERS)
    removed, added = [side for part in parts for side in part.removed], [side for part in parts for side in part.added]
    changes = [change for part in parts for change in part.changes]
    changes += [compare(*pair) for pair in pair_renamed(removed, added)]
    changes.sort(key=lambda change: (_ORDER.index(change.kind), change.name, change.target))
    strays = sorted(path for part in parts for path in part.strays)
    return Review(base.label, head.label, tuple(changes), tuple(strays))


def _strays(paths: Iterable[str], sides: Collection[Side]) -> list[str]:
    known = {path for side in sides for path in (*_files_of(side), f"{side.name}/{side.target}.toml")}
    # An unreadable artifact may own any file that begins with its target.
    unknown = tuple(f"{side.name}/{side.target}-" for side in sides if side.artifact is None)
    return [path for path in paths if path not in known and not path.startswith(unknown)]


def _folder_of(path: str) -> str:
    """The artifact's name in a path below ``acf/``."""
    return path.partition("/")[0]


def _files_of(side: Side) -> set[str]:
    """Paths below ``acf/`` of the files that an artifact names."""
    return {f"{side.name}/{file}" for file in referenced(side.artifact)} if side.artifact else set()


# ── one end, untrusted ───────────────────────────────────────────────────────────────────────────────────────────


def read_sides(history: StoreInGit, state: StoreState, folders: Set[str], *, thorough: bool) -> dict[Place, Side]:
    """Every artifact in ``folders``, its controls checked; ``thorough`` checks its samples and its front's too."""
    places = {path: place for path in state.files if _folder_of(path) in folders and (place := _place(path))}
    metadata = [FileRequest(path, state.files[path], MAX_METADATA_BYTES) for path in places]
    sides = []
    for path, data in history.contents(metadata):
        try:
            if isinstance(data, StoreError):
                raise data
            artifact = parse(data, f"{history.folder}/{path}", f"it stands so in {state.label}")
            classed, licences = classes_in(artifact), licences_in(artifact)
            sides.append(Side(*places[path], artifact, classed=classed, licences=licences))
        except StoreError as error:
            sides.append(Side(*places[path], None, str(error)))
    paths = {path for side in sides for path in _files_of(side)} if thorough else {
        f"{side.name}/{side.artifact.controls.file}" for side in sides if side.artifact and side.artifact.controls
    }  # fmt: skip
    wanted = [
        FileRequest(path, state.files[path], MAX_SAMPLES_BYTES if path.endswith(".csv") else MAX_CONTROLS_BYTES)
        for path in sorted(paths & state.files.keys())
    ]
    facts = {
        path: data if isinstance(data, StoreError) else (sha256_hex(data), len(data))
        for path, data in history.contents(wanted)
    }
    checked: Iterable[Side] = [_checked(history.folder, side, facts, thorough) for side in sides]
    if thorough:
        checked = _traced(history, state, list(checked))
    return {(side.name, side.target): side for side in checked}


def _place(path: str) -> Place | None:
    """The artifact whose metadata lies at ``path``; None for any other file."""
    name, _, file = path.partition("/")
    target = file.removesuffix(".toml")
    return (name, target) if target != file and NAME.fullmatch(name) and NAME.fullmatch(target) else None


def _checked(root: str, side: Side, facts: _Facts, thorough: bool) -> Side:
    if side.artifact is None:
        return side
    controls = side.artifact.controls
    problem = _controls_problem(root, side, controls, facts) if controls else ""
    if not problem:
        try:
            check_classes(side.artifact, side.classed)
        except StoreError as error:
            problem = str(error)
    return replace(side, problem=problem, warnings=tuple(_warnings(root, side, facts)) if thorough else ())


def _controls_problem(root: str, side: Side, controls: Controls, all_facts: _Facts) -> str:
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


def _warnings(root: str, side: Side, all_facts: _Facts) -> Iterator[str]:
    artifact = side.artifact
    assert artifact is not None
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


def _traced(history: StoreInGit, state: StoreState, sides: Sequence[Side]) -> Iterator[Side]:
    """The sides, each with the files that were tuned before they were committed and now hold something else."""
    covered = [_uncommitted(side) for side in sides]
    places = {
        path: history.places(state, path, MAX_CONTROLS_BYTES) for path in dict.fromkeys(itertools.chain(*covered))
    }
    wanted = {place.path: place for row in places.values() for place in row if place is not None}
    read = {path: data for path, data in history.contents(wanted.values()) if isinstance(data, bytes)}
    for side, paths in zip(sides, covered, strict=True):
        files = [path for path in paths if any(places[path])]  # inside the repository
        if side.artifact is None or not files:
            yield side
            continue
        # Recorded paths are relative to one directory: the nearest that holds any of them.
        levels = zip(*(places[path] for path in files), strict=True)
        here = ({path: read[place.path] for path, place in zip(files, level, strict=True)
                 if place and place.path in read} for level in levels)  # fmt: skip
        held = next(filter(None, here), {})
        sources, parts = side.artifact.fingerprint.sources, side.artifact.fingerprint.parts
        untraced = tuple(path for path in files if not holds(held.get(path), path, sources, parts))
        yield replace(side, untraced=untraced)


def _uncommitted(side: Side) -> list[str]:
    """The files that the fingerprint covers, if the artifact was tuned with uncommitted changes."""
    if side.artifact is None or not side.artifact.provenance.dirty:
        return []
    return covered_files(side.artifact.fingerprint.sources, side.artifact.fingerprint.parts)[:_MOST_TRACED]
