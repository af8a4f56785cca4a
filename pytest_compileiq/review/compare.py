"""What a change to ``acf/`` means: git range → both sides → pairs → changes. Nothing is measured again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_compileiq.review.read import files_of, folder_of, read_sides
from pytest_compileiq.review.snapshots import StoreInGit
from pytest_compileiq.rules.diff import Change, Kind, Side, compare, pair_renamed
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.cpu import spread

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
