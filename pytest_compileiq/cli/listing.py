"""The artifacts of a store, one row each, strictly read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.errors import StoreError
from pytest_compileiq.report.claims import brief_text, results_of
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.cpu import spread

COLUMNS = ("name", "target", "outcome", "against the baseline, 95 % interval", "device")
_LEAST_NAMES = 500  # from here on, another process pays
Row = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Listing:
    """The rows, sorted by name and target, and why some artifacts have no row."""

    rows: list[Row] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def list_artifacts(store: Store) -> Listing:
    """Read every artifact of ``store``; never raises for one that cannot be read."""
    parts = spread(lambda names: _list(store, names), store.names(), least=_LEAST_NAMES)
    return Listing([row for part in parts for row in part.rows], [text for part in parts for text in part.broken])


def _list(store: Store, names: Sequence[str]) -> Listing:
    listing = Listing()
    for name in names:
        try:
            targets = store.targets(name)
        except StoreError as error:
            listing.broken.append(str(error))
            continue
        for target in targets:
            try:
                listing.rows.append(_row(name, target, store.read(name, target)))
            except StoreError as error:
                listing.broken.append(str(error))
    return listing


def _row(name: str, target: str, artifact: Artifact) -> Row:
    results = results_of(artifact.claims)
    return name, target, artifact.outcome, brief_text(results), results[0].device if results else ""
