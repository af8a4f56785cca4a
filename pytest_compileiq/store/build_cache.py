"""The build cache, ``.compileiq/builds/``: what earlier builds made, and of which inputs.

An entry is one file: ``<key>/<digest of its content>``, a line of JSON and the built files behind it. It appears whole
or not at all, so that no reader needs a lock, and says nothing unless its content has the digest in its name. What
cannot be read or written costs a build, never a verdict.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import CodeDigest, sha256_hex
from pytest_compileiq.rules.build_key import still_holds
from pytest_compileiq.spelling import END_OF_TIME_S, utc
from pytest_compileiq.store.local import DIRECTORY as LOCAL
from pytest_compileiq.store.local import local_directory
from pytest_compileiq.system.files import PARTIAL, Unfit, read_regular
from pytest_compileiq.system.files import replace as write
from pytest_compileiq.system.seen_files import SeenFiles

DIRECTORY = "builds"
MOST_BYTES = 512 << 20
_MOST_ENTRY_BYTES = 64 << 20
_MOST_ENTRIES_PER_KEY = 8
_TOUCHED_AGAIN_S = 3600.0  # a use is noted once an hour: finer than anything that trimming needs
_ABANDONED_S = 3600.0
_NOT_KEPT = "not-kept"
_NOTED_S = 7 * 86400.0  # what was not built for so long may be no test any more
_MOST_NOTES = 10_000
_MOST_NOTE_BYTES = 2000
_DIGEST = re.compile("[0-9a-f]{64}")
_FileName = Annotated[str, msgspec.Meta(pattern=r"^(?!\.\.?\Z)[^/\0]{1,255}\Z")]
_Size = Annotated[int, msgspec.Meta(ge=0)]


class Installed(Struct, frozen=True):
    """``files`` and ``absent`` of a ``CacheEntry``, as far as they are the machine's."""

    files: Mapping[str, str]
    absent: Mapping[str, tuple[str, ...]]

    def encoded(self) -> msgspec.Raw:
        """Its JSON; ``{}``, which matches nothing, where a path has no text."""
        try:
            return msgspec.Raw(msgspec.json.encode(self, order="sorted"))
        except UnicodeEncodeError:
            return msgspec.Raw(b"{}")


class CacheEntry(Struct, frozen=True):
    """One build with its inputs."""

    files: Mapping[str, str]  # path → SHA-256 of every input that it read, or would have read had it come first
    absent: Mapping[str, tuple[str, ...]]  # directory → names that it looked for there in vain
    installed: msgspec.Raw  # an ``Installed`` as JSON: many entries share one text, which is checked once
    sources: Mapping[str, str]  # the project's own among ``files``, as an artifact records them
    code: Mapping[str, CodeDigest]  # entry function → digest, as in a ``BuildResult``; so are the next three
    metrics: Mapping[str, int]
    log: str
    seconds: float
    built_at: Annotated[int, msgspec.Meta(ge=0, le=END_OF_TIME_S)]  # Unix time
    sizes: Mapping[_FileName, _Size]  # in bytes, of the built files by name; the first is the build's output
    data: bytes = b""  # their contents, one behind the other

    @property
    def when(self) -> str:
        return utc(self.built_at)

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """The built files, by name."""
        begin = 0
        for name, size in self.sizes.items():
            yield name, self.data[begin : begin + size]
            begin += size


class EntryFile(Struct, frozen=True):
    """One entry's file: where, how large, and its last use in Unix seconds."""

    path: Path
    size_bytes: int
    used_at: float


class BuildCache:
    """The build cache of the project at ``rootdir``."""

    def __init__(self, rootdir: Path) -> None:
        self.rootdir = rootdir
        self.root = rootdir / LOCAL / DIRECTORY
        self._as_installed: dict[bytes, bool] = {}

    def make_ready(self) -> None:
        """Make the cache's directory, well before a build whose directories must not change meanwhile."""
        if not self.root.is_dir():
            with contextlib.suppress(OSError, StoreError):
                (local_directory(self.rootdir) / DIRECTORY).mkdir(exist_ok=True)

    def find(self, key: str, seen: SeenFiles) -> tuple[Path, CacheEntry] | None:
        """The entry of ``key`` whose inputs are all as they are now, and its file; None where there is none."""
        for stored in sorted(self._of(self.root / key), key=lambda stored: -stored.used_at):
            entry = _read(stored.path)
            if entry is None or not still_holds(entry.files, entry.absent, seen.digest, seen.names):
                continue
            if self._is_as_installed(bytes(entry.installed), seen):
                if time.time() - stored.used_at > _TOUCHED_AGAIN_S:
                    with contextlib.suppress(OSError):
                        os.utime(stored.path)
                return stored.path, entry
        return None

    def _is_as_installed(self, text: bytes, seen: SeenFiles) -> bool:
        """Whether the machine has what ``text`` says; looked at once in a run."""
        if text not in self._as_installed:
            try:
                was = msgspec.json.decode(text, type=Installed)
            except (ValueError, RecursionError):
                return False
            self._as_installed[text] = still_holds(was.files, was.absent, seen.digest, seen.names)
        return self._as_installed[text]

    def keep(self, key: str, entry: CacheEntry) -> bool:
        """Add an entry; False where there is no place for it, or a path has no text."""
        try:
            content = msgspec.json.encode(replace(entry, data=b"")) + b"\n" + entry.data
        except UnicodeEncodeError:
            return False
        if len(content) > _MOST_ENTRY_BYTES:
            return False
        folder = self.root / key
        try:
            folder.mkdir(exist_ok=True)
            write(folder / sha256_hex(content), content, is_lasting=False)
        except OSError:
            return False
        for old in sorted(self._of(folder), key=lambda stored: stored.used_at)[:-_MOST_ENTRIES_PER_KEY]:
            self.remove(old.path)
        return True

    def note(self, build: str, why_not_kept: str | None) -> None:
        """Note why ``build``, a name of letters, digits and hyphens, is not kept; None removes the note."""
        path = self.root / _NOT_KEPT / build
        if why_not_kept is not None:
            self.make_ready()
        with contextlib.suppress(OSError):
            if why_not_kept is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(exist_ok=True)
                write(path, why_not_kept.encode(errors="replace")[:_MOST_NOTE_BYTES], is_lasting=False)

    def not_kept(self) -> Counter[str]:
        """Why builds are not kept, and how many of them, by what the last runs noted."""
        reasons = Counter[str]()
        for item in _listed(self.root / _NOT_KEPT)[:_MOST_NOTES]:
            with contextlib.suppress(OSError, Unfit):
                if item.stat(follow_symlinks=False).st_mtime > time.time() - _NOTED_S:
                    reasons[read_regular(Path(item.path), _MOST_NOTE_BYTES).decode(errors="replace")] += 1
        return reasons

    def remove(self, path: Path) -> None:
        """Remove one entry."""
        with contextlib.suppress(OSError):
            path.unlink()

    def stored(self) -> list[EntryFile]:
        """All entries, least recently used first."""
        keys = (folder for folder in _listed(self.root) if _DIGEST.fullmatch(folder.name))
        return sorted((each for key in keys for each in self._of(Path(key.path))), key=lambda each: each.used_at)

    def trim(self, most_bytes: int = MOST_BYTES) -> None:
        """Remove the least recently used entries beyond ``most_bytes``, and what killed writers left."""
        everything = self.stored()
        held = sum(stored.size_bytes for stored in everything)
        for stored in everything:
            if held <= most_bytes:
                break
            self.remove(stored.path)
            held -= stored.size_bytes
        for folder in _listed(self.root):
            for item in _listed(Path(folder.path)):
                with contextlib.suppress(OSError):
                    kept_s = _NOTED_S if folder.name == _NOT_KEPT else _ABANDONED_S
                    may_go = folder.name == _NOT_KEPT or item.name.startswith(PARTIAL)
                    if may_go and item.stat(follow_symlinks=False).st_mtime < time.time() - kept_s:
                        self.remove(Path(item.path))
            with contextlib.suppress(OSError):
                Path(folder.path).rmdir()  # only an empty one

    def _of(self, folder: Path) -> Iterator[EntryFile]:
        for item in _listed(folder):
            if _DIGEST.fullmatch(item.name):
                with contextlib.suppress(OSError):
                    status = item.stat(follow_symlinks=False)
                    yield EntryFile(Path(item.path), status.st_size, status.st_mtime)


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _read(path: Path) -> CacheEntry | None:
    """The entry; None where the file is not what was written."""
    try:
        content = read_regular(path, _MOST_ENTRY_BYTES)
    except Unfit:
        return None
    return _decoded(content) if sha256_hex(content) == path.name else None


@functools.lru_cache(maxsize=4)  # many artifacts share a baseline
def _decoded(content: bytes) -> CacheEntry | None:
    header, _, data = content.partition(b"\n")
    try:
        entry = replace(msgspec.json.decode(header, type=CacheEntry), data=data)
    except (ValueError, RecursionError):  # msgspec.ValidationError is a ValueError
        return None
    return entry if entry.sizes and sum(entry.sizes.values()) == len(data) else None
