"""Other people's controls, brought into a project as a pack of candidates. None of them is a claim."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_compileiq.errors import StoreError, fault_of
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.store.packs import MANIFEST, read_candidates
from pytest_compileiq.store.ptx_anneal import NeighbourAcf, is_ptx_anneal, read_store
from pytest_compileiq.system.files import replace


@dataclass(frozen=True)
class Wanted:
    """Which ACFs of a store that keeps them by kernel; None is any."""

    arch: str | None = None
    ptxas: str | None = None
    ptx: str | None = None

    def is_for(self, acf: NeighbourAcf) -> bool:
        """Whether an ACF is for this architecture, ptxas and hash of a kernel's PTX."""
        pairs = (self.arch, acf.arch), (self.ptxas, acf.ptxas), (self.ptx, acf.ptx)
        return all(wanted in (None, has) for wanted, has in pairs)


@dataclass(frozen=True)
class Imported:
    """One ACF of another place.

    Attributes:
        filename: its own in the pack, a plain name.
        data: its bytes.
        source: what that place says of it, as it stands in the pack's manifest.
    """

    filename: str
    data: bytes
    source: Mapping[str, str | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What is brought in, what is for something else, and why the rest cannot be used."""

    acfs: Sequence[Imported]
    others: int = 0
    unusable: Sequence[str] = ()


def look(path: Path, wanted: Wanted) -> Found:
    """The ACFs at ``path``: a ptx-anneal store, a booster pack, a directory of ACFs or a single one.

    Raises:
        StoreError: it is none of these, or does not tell what ``wanted`` asks for.
    """
    if not is_ptx_anneal(path):
        if wanted != Wanted():
            raise StoreError(f"{path}: only a ptx-anneal store tells architecture, ptxas and PTX: leave these out")
        candidates = read_candidates(path)
        if any(candidate.blob is None for candidate in candidates):
            raise StoreError(f"{path}: holds options, no ACF: name it with pytest --tune --tune-from={path}")
        return Found([Imported(candidate.origin, candidate.blob or b"") for candidate in candidates])
    entries = list(read_store(path))
    acfs = [entry for entry in entries if isinstance(entry, NeighbourAcf)]
    chosen = [acf for acf in acfs if wanted.is_for(acf)]
    return Found(
        [Imported(acf.filename, acf.data, _source(acf)) for acf in chosen],
        len(acfs) - len(chosen),
        [entry for entry in entries if isinstance(entry, str)],
    )


def write_pack(acfs: Sequence[Imported], directory: Path) -> None:
    """Write a booster pack's directory, which must be new or empty.

    Raises:
        StoreError: it holds something, two ACFs have one name, or it cannot be written.
    """
    names = [acf.filename for acf in acfs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise StoreError(f"{directory}: two ACFs would be called {twice[0]}: import one kernel, with --ptx")
    listed = [
        {"filename": acf.filename, "sha256": sha256_hex(acf.data), "size_bytes": len(acf.data), "source": acf.source}
        for acf in acfs
    ]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise StoreError(f"{directory}: is not empty: name a new directory")
        for acf in acfs:
            replace(directory / acf.filename, acf.data)
        replace(directory / MANIFEST, json.dumps({"acfs": listed}, indent=2).encode())
    except OSError as error:
        raise StoreError(f"{directory}: cannot be written: {fault_of(error)}") from error


def _source(acf: NeighbourAcf) -> Mapping[str, str | float | bool]:
    said = acf.sidecar
    space = said.search_space.resolved_tag if said.search_space else None
    source = {
        "store": "ptx-anneal", "arch": acf.arch, "ptx": acf.ptx, "ptxas": acf.ptxas, "entry": said.entry,
        "engine": said.engine, "search_space": space, "search_win": said.search_win, "forced": said.forced or None,
    }  # fmt: skip
    return {name: value for name, value in source.items() if value is not None}
