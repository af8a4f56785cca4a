"""Controls from elsewhere: ACFs, a booster pack, ptx-anneal's store, another artifact. All of it is untrusted.

A booster pack is a zip (or its directory) with one ``booster-pack-manifest.json`` that lists every ``.acf`` beside it
with its digest and size. Nothing is unpacked to disk: members are read, checked, and become candidates.

``ptx-anneal`` (facebookexperimental/ptx-anneal) stores ``<root>/<arch>/<hash of the PTX>.<ptxas>.acf``, each with a
sidecar ``.json`` of its search; earlier versions wrote no ``<ptxas>``. What a search saw is no claim here.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pytest_compileiq.artifact import MAX_CONTROLS_BYTES
from pytest_compileiq.errors import StoreError, fault_of
from pytest_compileiq.model import Candidate, sha256_hex
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import Unfit, nonblocking, read_regular, replace

MANIFEST = "booster-pack-manifest.json"
MOST_MEMBERS = 10_000
MOST_BYTES = 512 << 20  # of all members
LARGEST_PTX = 64 << 20
_MAX_MANIFEST_BYTES = 16 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}\.acf")


def read_candidates(path: Path) -> list[Candidate]:
    """The candidates that ``path`` holds: a pack, a directory of ``.acf`` files, a single one, or an artifact.

    A debug pack's ``O0`` comes first: it shows at once whether controls reach the compiler.

    Raises:
        StoreError: it is none of these, or a member differs from what the manifest says.
    """
    return sorted(_read(path), key=lambda candidate: "O0" not in candidate.origin)


def _read(path: Path) -> list[Candidate]:
    if path.suffix == ".toml":
        return [_artifact_candidate(path)]
    if path.suffix == ".acf":
        return [_named(path.name, _read_file(path))]
    if path.suffix == ".zip":
        return _from_zip(path)
    if path.is_dir() and (path / MANIFEST).exists():
        return _members(_read_file(path / MANIFEST, _MAX_MANIFEST_BYTES), lambda name: _read_file(path / name), path)
    if path.is_dir():
        files = sorted(path.glob("*.acf"))
        if len(files) > MOST_MEMBERS:
            raise StoreError(f"{path}: holds {len(files)} .acf files, and at most {MOST_MEMBERS} are read")
        if files:
            return _bounded((_named(file.name, _read_file(file)) for file in files), path)
    if _is_ptx_anneal(path):
        raise StoreError(f"{path}: is the store of ptx-anneal: acf import {path} --to DIR takes what is for a kernel")
    raise StoreError(
        f"{path}: expected a directory of .acf files, a booster pack (.zip), an .acf or an artifact's .toml"
    )


def _from_zip(path: Path) -> list[Candidate]:
    try:
        with open(path, "rb", opener=nonblocking) as stream, zipfile.ZipFile(stream) as archive:
            names = [info.filename for info in archive.infolist()]
            manifests = [name for name in names if name.rpartition("/")[2] == MANIFEST]
            if len(manifests) != 1:
                raise StoreError(f"{path}: holds {len(manifests)} files called {MANIFEST}; a booster pack holds one")
            folder = manifests[0].removesuffix(MANIFEST)

            def read(name: str, limit: int = MAX_CONTROLS_BYTES) -> bytes:
                if names.count(folder + name) != 1:
                    raise StoreError(f"{path}: holds {names.count(folder + name)} files called {name}; expected one")
                with archive.open(folder + name) as member:  # bounded: a header may lie about the size
                    return _within(member.read(limit + 1), limit, f"{path}: {name}")

            return _members(read(MANIFEST, _MAX_MANIFEST_BYTES), read, path)
    except StoreError:
        raise
    except Exception as error:  # whatever zipfile stumbles over: a name's encoding, a method, a compressed stream
        raise StoreError(f"{path}: not a zip that can be read: {' '.join(str(error).split())}") from error


def _members(manifest: bytes, read: Callable[[str], bytes], path: Path) -> list[Candidate]:
    """Every member that the manifest lists, checked; one bad member refuses the whole pack."""
    try:
        listed = json.loads(manifest)["acfs"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{path}: {MANIFEST} is not a booster pack's manifest: {error!r:.200}") from error
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST_MEMBERS:
        raise StoreError(f"{path}: {MANIFEST}: acfs: expected a list of 1 to {MOST_MEMBERS} members")
    names = [entry.get("filename") if isinstance(entry, Mapping) else None for entry in listed]
    if len(set(map(str, names))) < len(names):
        raise StoreError(f"{path}: {MANIFEST} lists a member twice")
    return _bounded((_checked(name, entry, read, path) for name, entry in zip(names, listed, strict=True)), path)


def _bounded(candidates: Iterable[Candidate], path: Path) -> list[Candidate]:
    """All candidates, read one by one until they have more than ``MOST_BYTES`` together."""
    read, size = [], 0
    for candidate in candidates:
        read.append(candidate)
        size += len(candidate.blob or b"")
        if size > MOST_BYTES:
            raise StoreError(f"{path}: its ACFs have more than {MOST_BYTES} bytes together; name fewer of them")
    return read


def _checked(name: Any, entry: Any, read: Callable[[str], bytes], path: Path) -> Candidate:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise StoreError(f"{path}: {MANIFEST}: filename = {name!r:.80}: expected a plain name ending in .acf")
    data = read(name)
    if sha256_hex(data) != entry.get("sha256") or len(data) != entry.get("size_bytes"):
        raise StoreError(
            f"{path}: {name} is not what {MANIFEST} says: {len(data)} bytes, sha256 {sha256_hex(data)[:8]}…; "
            f"listed: {entry.get('size_bytes')!r:.20} bytes, {entry.get('sha256')!r:.12}"
        )
    return _named(name, data)


def _named(name: str, data: bytes) -> Candidate:
    return Candidate({}, data, origin=name)  # a blob: options in text are given as knobs instead


def _artifact_candidate(path: Path) -> Candidate:
    store = Store(path.absolute().parent.parent)
    name = path.absolute().parent.name
    artifact = store.read(name, path.stem)
    if artifact.controls is None:
        raise StoreError(f"{path}: its outcome is {artifact.outcome!r}, so it has no controls to start from")
    data = store.read_controls(name, artifact)
    blob = data if artifact.controls.kind == "blob" else None
    return Candidate(dict(artifact.controls.knobs), blob, origin=f"{name}/{path.stem}")


def _read_file(path: Path, limit: int = MAX_CONTROLS_BYTES) -> bytes:
    try:
        return _within(read_regular(path, limit), limit, str(path))
    except Unfit as why:
        raise StoreError(f"{path} {why}") from why


def _within(data: bytes, limit: int, what: str) -> bytes:
    if len(data) > limit:
        raise StoreError(f"{what}: more than {limit} bytes")
    if not data:
        raise StoreError(f"{what}: is empty")
    return data


# ── ptx-anneal ───────────────────────────────────────────────────────────────────────────────────────────────────

_ARCH = re.compile(r"sm_\d{2,4}[af]?")
_FILE = re.compile(r"(?P<ptx>[0-9a-f]{64})(?:\.(?P<ptxas>[0-9A-Za-z._]{1,32}))?\.acf")
_SECTION = re.compile(r"\s*\.section\s+(\S+)")
_PLACE = re.compile(r"\s*\.(?:loc|file)(?:\s|$)")
_LARGEST_SIDECAR = 1 << 20  # bytes


class SearchSpace(msgspec.Struct, frozen=True):
    """The catalogue that a search drew from."""

    resolved_tag: str | None = None
    sha256: str | None = None


class Sidecar(msgspec.Struct, frozen=True):
    """The search that found an ACF; None and empty where its sidecar says nothing."""

    arch: str = ""
    ir_hash: str = ""
    entry: str | None = None
    engine: str | None = None
    search_win: float | None = None
    forced: bool = False  # stored although it did not beat its baseline
    search_space: SearchSpace | None = None


@dataclass(frozen=True)
class AcfFilter:
    """Which ACFs of ptx-anneal's store; None is any."""

    arch: str | None = None
    ptxas: str | None = None
    ptx: str | None = None


@dataclass(frozen=True)
class ImportedAcf:
    """One ACF of another place: its plain name in the pack, and the ``source`` that the manifest records."""

    filename: str
    data: bytes
    source: Mapping[str, str | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class ForeignAcfs:
    """ACFs to import, the number of ``others``, and a sentence on each that cannot be used."""

    acfs: Sequence[ImportedAcf]
    others: int = 0
    unusable: Sequence[str] = ()


def ptx_hash(ptx: str) -> str:
    """ptx-anneal's hash of a kernel: of its PTX without debug sections and lines that name its source."""
    kept, is_debug = [], False
    for line in ptx.splitlines():
        if section := _SECTION.match(line):
            is_debug = section[1].startswith(".debug")
        if not is_debug and not _PLACE.match(line):
            kept.append(line)
    return sha256_hex("\n".join(kept).encode())


def _is_ptx_anneal(root: Path) -> bool:
    return any(_files(root))


def _files(root: Path) -> Iterator[Path]:
    for directory in sorted(root.iterdir()) if root.is_dir() else ():
        if _ARCH.fullmatch(directory.name) and directory.is_dir() and not directory.is_symlink():
            yield from sorted(path for path in directory.iterdir() if _FILE.fullmatch(path.name))


def _read_neighbour(path: Path, wanted: AcfFilter) -> ImportedAcf | None:
    """One ACF of the store; None if it is valid, and for something else."""
    key = _FILE.fullmatch(path.name)
    assert key
    arch, ptx, ptxas = path.parent.name, key["ptx"], key["ptxas"]
    data = _bytes(path, MAX_CONTROLS_BYTES)
    if not data:
        raise StoreError(f"{path}: is empty")
    beside = path.with_name(f"{path.name}.json")
    sidecar = Sidecar()
    if beside.exists() or beside.is_symlink():
        try:
            sidecar = msgspec.json.decode(_bytes(beside, _LARGEST_SIDECAR), type=Sidecar)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(f"{beside}: is no sidecar of ptx-anneal: {error}") from error
    for said, here in ((sidecar.arch, arch), (sidecar.ir_hash, ptx)):
        if said not in ("", here):
            raise StoreError(f"{beside}: is of {said:.80}, and lies beside {here}")
    if any(each not in (None, here) for each, here in zip(astuple(wanted), (arch, ptxas, ptx), strict=True)):
        return None
    space = sidecar.search_space.resolved_tag if sidecar.search_space else None
    source = {
        "store": "ptx-anneal", "arch": arch, "ptx": ptx, "ptxas": ptxas, "entry": sidecar.entry,
        "engine": sidecar.engine, "search_space": space, "search_win": sidecar.search_win,
        "forced": sidecar.forced or None,
    }  # fmt: skip
    name = "-".join(filter(None, (arch, ptx[:16], ptxas))) + ".acf"
    return ImportedAcf(name, data, {key: value for key, value in source.items() if value is not None})


def _bytes(path: Path, limit: int) -> bytes:
    try:
        return read_regular(path, limit)
    except Unfit as error:
        raise StoreError(f"{path}: {error}") from error


# ── into a project, as a pack ────────────────────────────────────────────────────────────────────────────────────


def look(path: Path, wanted: AcfFilter) -> ForeignAcfs:
    """The ACFs at ``path``: a ptx-anneal store, a booster pack, a directory of ACFs or a single one.

    Raises:
        StoreError: it is none of these, or does not tell what ``wanted`` asks for.
    """
    if not _is_ptx_anneal(path):
        if wanted != AcfFilter():
            raise StoreError(f"{path}: only a ptx-anneal store tells architecture, ptxas and PTX: leave these out")
        candidates = read_candidates(path)
        if any(candidate.blob is None for candidate in candidates):
            raise StoreError(f"{path}: holds options, no ACF: name it with pytest --tune --tune-from={path}")
        return ForeignAcfs([ImportedAcf(candidate.origin, candidate.blob or b"") for candidate in candidates])
    chosen, others, unusable = list[ImportedAcf](), 0, list[str]()
    for file in _files(path):
        try:
            if acf := _read_neighbour(file, wanted):
                chosen.append(acf)
            else:
                others += 1
        except StoreError as error:
            unusable.append(str(error))
    return ForeignAcfs(chosen, others, unusable)


def write_pack(acfs: Sequence[ImportedAcf], directory: Path) -> None:
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
