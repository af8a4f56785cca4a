"""The store of ``ptx-anneal`` (facebookexperimental/ptx-anneal): ACFs by the PTX they were searched for. Untrusted.

``<root>/<arch>/<hash of the PTX>.<ptxas>.acf``, each with a sidecar ``.json`` that says what its search saw. Files of
earlier versions have no ``<ptxas>``. What a search saw is no claim here: it ranks candidates, and a proof is a proof of
other samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pytest_compileiq.artifact import MAX_CONTROLS_BYTES
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.system.files import Unfit, read_regular

LARGEST_PTX = 64 << 20

_ARCH = re.compile(r"sm_\d{2,4}[af]?")
_FILE = re.compile(r"(?P<ptx>[0-9a-f]{64})(?:\.(?P<ptxas>[0-9A-Za-z._]{1,32}))?\.acf")
_SECTION = re.compile(r"\s*\.section\s+(\S+)")
_PLACE = re.compile(r"\s*\.(?:loc|file)(?:\s|$)")
_LARGEST_SIDECAR = 1 << 20  # bytes


class SearchSpace(msgspec.Struct, frozen=True):
    """The catalogue that a search drew from; its name is not part of the store's key."""

    resolved_tag: str | None = None
    sha256: str | None = None


class Sidecar(msgspec.Struct, frozen=True):
    """What the search that found an ACF saw, as its sidecar has it; None and empty where it says nothing.

    ``forced`` is an ACF that was stored although it did not beat its baseline.
    """

    arch: str = ""
    ir_hash: str = ""
    entry: str | None = None
    engine: str | None = None
    search_win: float | None = None
    forced: bool = False
    search_space: SearchSpace | None = None


@dataclass(frozen=True)
class NeighbourAcf:
    """One ACF of the store, and what its key and its sidecar say."""

    arch: str
    ptx: str
    ptxas: str | None
    data: bytes
    sidecar: Sidecar

    @property
    def filename(self) -> str:
        """A name that tells what it is for."""
        return "-".join(filter(None, (self.arch, self.ptx[:16], self.ptxas))) + ".acf"


def is_ptx_anneal(root: Path) -> bool:
    """Whether a directory is such a store."""
    return any(True for _ in _files(root))


def read_store(root: Path) -> Iterator[NeighbourAcf | str]:
    """Every ACF of the store, in the order of its names; or a sentence on one that cannot be used."""
    for path in _files(root):
        try:
            yield _read(path)
        except StoreError as error:
            yield str(error)


def ptx_hash(ptx: str) -> str:
    """The hash that the store knows a kernel by: of its PTX without the lines that name the places of its source."""
    kept, is_debug = [], False
    for line in ptx.splitlines():
        if section := _SECTION.match(line):
            is_debug = section[1].startswith(".debug")
        if not is_debug and not _PLACE.match(line):
            kept.append(line)
    return sha256_hex("\n".join(kept).encode())


def _files(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        return
    for directory in sorted(root.iterdir()):
        if _ARCH.fullmatch(directory.name) and directory.is_dir() and not directory.is_symlink():
            yield from sorted(path for path in directory.iterdir() if _FILE.fullmatch(path.name))


def _read(path: Path) -> NeighbourAcf:
    key = _FILE.fullmatch(path.name)
    assert key
    data = _bytes(path, MAX_CONTROLS_BYTES)
    if not data:
        raise StoreError(f"{path}: is empty")
    beside = path.with_name(f"{path.name}.json")
    sidecar = _sidecar(beside) if beside.exists() or beside.is_symlink() else Sidecar()
    for said, here in ((sidecar.arch, path.parent.name), (sidecar.ir_hash, key["ptx"])):
        if said not in ("", here):
            raise StoreError(f"{beside}: is of {said:.80}, and lies beside {here}")
    return NeighbourAcf(path.parent.name, key["ptx"], key["ptxas"], data, sidecar)


def _sidecar(path: Path) -> Sidecar:
    try:
        return msgspec.json.decode(_bytes(path, _LARGEST_SIDECAR), type=Sidecar)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"{path}: is no sidecar of ptx-anneal: {error}") from error


def _bytes(path: Path, limit: int) -> bytes:
    try:
        return read_regular(path, limit)
    except Unfit as error:
        raise StoreError(f"{path}: {error}") from error
