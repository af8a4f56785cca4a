"""Files on their way to a machine that does not see them, by content: both ends, and the messages between.

The sender reads each file once, into a folder of the run's own, so that whatever arrives, and whenever, is one state of
the files. No path in a message is absolute, and none is trusted on arrival. Nothing travels back but builds
and answers.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from pytest_compileiq.errors import EnvironmentFault, Signal
from pytest_compileiq.system.files import Unfit, inside
from pytest_compileiq.system.process import Guard
from pytest_compileiq.system.vcs import listed_files
from pytest_compileiq.workers.start import LIBRARIES

CHUNK_BYTES = 4 * 2**20  # neither an object store nor a message is to be the limit
_DIGEST_LETTERS = frozenset("0123456789abcdef")
_Item = TypeVar("_Item")


class Spoilt(Signal):
    """What arrived is not what was sent."""


class FileEntry(Struct, frozen=True):
    """One file, or one link."""

    path: str  # relative, with slashes
    sha256: str  # of the content; empty for a link
    size: int  # in bytes
    is_executable: bool = False
    target: str = ""  # of a link, relative to its own directory; empty for a file


class Chunk(Struct, frozen=True):
    """A part of one content; the parts of a content are sent in their order, one content behind the other."""

    sha256: str
    data: bytes


@dataclass(frozen=True)
class FileSet:
    """Files that were read."""

    entries: tuple[FileEntry, ...]
    contents: Path  # the folder that holds each content under its digest

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    def manifest(self) -> bytes:
        """The entries, as a message."""
        return _encode(self.entries)

    def messages(self) -> Iterator[bytes]:
        """All contents, each once, in messages of at most ``CHUNK_BYTES`` and a little more."""
        chunks: list[Chunk] = []
        weight = 0
        for sha256 in dict.fromkeys(entry.sha256 for entry in self.entries if not entry.target):
            with (self.contents / sha256).open("rb") as stream:
                is_begun = False
                while (data := stream.read(CHUNK_BYTES - weight)) or not is_begun:
                    is_begun = True
                    chunks.append(Chunk(sha256, data))
                    weight += len(data)
                    if weight == CHUNK_BYTES:
                        yield _encode(chunks)
                        chunks, weight = [], 0
        if chunks:
            yield _encode(chunks)


def packed(root: Path, names: Iterable[str], contents: Path) -> FileSet:
    """Read the files ``names`` below ``root``, each once, into the folder ``contents``."""
    contents.mkdir(parents=True, exist_ok=True)
    return FileSet(tuple(_packed(root, name, contents) for name in names), contents)


def _packed(root: Path, name: str, contents: Path) -> FileEntry:
    path = root / name
    if path.is_symlink():
        # Where the link is, not where the links lead that it lies behind: a tree of links is moved as it is.
        return FileEntry(name, "", 0, target=os.path.relpath(path.resolve(), path.parent.resolve()))
    partial, digest, size = contents / "partial", hashlib.sha256(), 0
    with path.open("rb") as source, partial.open("wb") as copy:
        is_executable = bool(os.fstat(source.fileno()).st_mode & 0o100)
        while data := source.read(CHUNK_BYTES):
            digest.update(data)
            size += len(data)
            copy.write(data)
    sha256 = digest.hexdigest()
    partial.replace(contents / sha256)
    return FileEntry(name, sha256, size, is_executable)


class Arrivals:
    """The other end: contents as they arrive in a folder, until they are unpacked."""

    def __init__(self, contents: Path) -> None:
        self._contents = contents

    def take(self, message: bytes) -> None:
        """Keep the chunks of one message."""
        self._contents.mkdir(parents=True, exist_ok=True)
        for chunk in _decoded(_CHUNKS, message):
            with (self._contents / _expected_digest(chunk.sha256)).open("ab") as stream:
                stream.write(chunk.data)

    def unpack(self, manifest: bytes, place: Path) -> None:
        """Put the files of ``manifest`` below ``place``, and forget their contents."""
        entries = _decoded(_ENTRIES, manifest)
        place.mkdir(parents=True, exist_ok=True)
        for sha256 in {entry.sha256 for entry in entries if not entry.target}:
            self._expect(sha256)
        for entry in (entry for entry in entries if not entry.target):  # before the links: no file goes through one
            path = _placed(place, entry.path)
            shutil.copyfile(self._contents / entry.sha256, path)
            path.chmod(0o755 if entry.is_executable else 0o644)
        links = [entry for entry in entries if entry.target]
        for entry in links:
            _placed(place, entry.path).symlink_to(entry.target)
        for entry in links:  # when all are there, since one may lead through another
            _expect_inside(place, entry.path)
        shutil.rmtree(self._contents, ignore_errors=True)

    def _expect(self, sha256: str) -> None:
        try:
            with (self._contents / _expected_digest(sha256)).open("rb") as stream:
                is_it = hashlib.file_digest(stream, "sha256").hexdigest() == sha256
        except FileNotFoundError:
            is_it = False
        if not is_it:
            raise Spoilt(f"the content {sha256[:12]} did not arrive as it was sent")


def _placed(place: Path, name: str) -> Path:
    """Where ``name`` goes; its directories are made."""
    path = _expect_inside(place, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_there = os.path.lexists(path)
    except (FileExistsError, NotADirectoryError) as error:
        raise Spoilt(f"{name} lies below a file") from error
    if is_there:
        raise Spoilt(f"{name} arrived twice")
    return path


def _expect_inside(place: Path, name: str) -> Path:
    try:
        return inside(place, name)
    except Unfit as reason:
        raise Spoilt(f"{name}: {reason}") from reason


def _expected_digest(sha256: str) -> str:
    if len(sha256) != 64 or not _DIGEST_LETTERS.issuperset(sha256):
        raise Spoilt(f"{sha256[:80]!r} is no digest")
    return sha256


_encode = msgspec.msgpack.Encoder().encode
_CHUNKS = msgspec.msgpack.Decoder(tuple[Chunk, ...])
_ENTRIES = msgspec.msgpack.Decoder(tuple[FileEntry, ...])


def _decoded(decoder: msgspec.msgpack.Decoder[tuple[_Item, ...]], message: bytes) -> tuple[_Item, ...]:
    try:
        return decoder.decode(message)
    except ValueError as error:  # msgspec's errors are
        raise Spoilt(f"no such message: {error}") from error


BUILDS = "builds"  # where they are in an actor's own folder
OWN_DISTRIBUTION = "pytest-compileiq"
LARGE_BYTES = 100 * 2**20
# Ray's own limit for a working directory (GCS_STORAGE_MAX_SIZE), though contents travel in smaller messages here.
MOST_BYTES = 512 * 2**20
_MIB = 2**20
_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".compileiq"})
# What marks a directory as a cache (https://bford.info/cachedir/) or as an environment of Python's.
_MARKS = ("CACHEDIR.TAG", "pyvenv.cfg")


@dataclass(frozen=True)
class ProjectFiles:
    """The files of a project that travel, and those links that do not, since they lead out of it."""

    names: tuple[str, ...]
    links_out: tuple[str, ...]


def listed(root: Path) -> ProjectFiles:
    """What git tracks or does not ignore; without a repository, all but caches and environments."""
    present = sorted(name for name in listed_files(root) or _walked(root) if _may_travel(root, name))
    links_out = tuple(name for name in present if not _stays_inside(root, name))
    return ProjectFiles(tuple(name for name in present if name not in set(links_out)), links_out)


def pack_project(root: Path, contents: Path, say: Callable[[str], None]) -> FileSet:
    """The project at ``root``, read into the folder ``contents``."""
    travelling = listed(root)
    sizes = {name: (root / name).lstat().st_size for name in travelling.names}
    total = sum(sizes.values())
    if total > MOST_BYTES:
        raise EnvironmentFault(
            f"the project has {total / _MIB:.0f} MiB, and at most {MOST_BYTES // _MIB} travel to nodes that do not see "
            f"its files: {_largest(sizes)}: name what no test needs in .gitignore"
        )
    if total > LARGE_BYTES:
        say(f"{total / _MIB:.0f} MiB of the project travel to each such node: {_largest(sizes)}: "
            "what .gitignore names stays here")  # fmt: skip
    if travelling.links_out:
        say(f"{_some(travelling.links_out)} of the project lead out of it, and do not travel")
    for name in travelling.names:
        _expect_utf8(name)
    try:
        return packed(root, travelling.names, contents)
    except OSError as error:
        raise EnvironmentFault(f"the project cannot travel: {error.filename}: {error.strerror}") from error


def expect_own_code(root: Path, libraries: tuple[str, ...]) -> None:
    """Refuse a run whose tests import code that neither travels nor is installed: a node would have another one."""
    for name, place in editable_installs(importlib.metadata.distributions()).items():
        # This package itself may lie anywhere, since a node's own is compared with it.
        if name != OWN_DISTRIBUTION and not place.is_relative_to(root.resolve()):
            raise EnvironmentFault(
                f"{name} is installed editable from {place}, which lies outside the project {root}, so that nodes "
                f"which do not see it would have other code: install it as a copy, pip install {place}"
            )
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.copy().items()}
    if astray := next(modules_astray(files, root, libraries), None):
        name, file = astray
        raise EnvironmentFault(
            f"the tests import {name} from {file}, which lies outside the project {root}, so that nodes which do not "
            "see it would have other code: install it, or move it into the project"
        )


def editable_installs(distributions: Iterable[importlib.metadata.Distribution]) -> dict[str, Path]:
    """Distribution → the directory that it is installed editable from (``direct_url.json``, PEP 610)."""
    told = {each.name: each.read_text("direct_url.json") for each in distributions}
    places = {name: _editable(text) for name, text in told.items() if text}
    return {name: place for name, place in places.items() if place is not None}


def modules_astray(
    files: Mapping[str, str | None], root: Path, libraries: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Modules of ``files``, with their files, that lie neither below ``root`` nor in ``libraries``."""
    known = tuple(f"{place}{os.sep}" for place in {str(root), os.path.realpath(root), *libraries})
    for name, file in sorted(files.items()):
        is_own = name.partition(".")[0] in ("__main__", "__mp_main__", "pytest_compileiq")
        if file and Path(file).is_absolute() and not is_own and not file.startswith(known):
            yield name, file


def _walked(root: Path) -> Iterator[str]:
    for folder, directories, files in os.walk(root):
        here = Path(folder)
        linked = [name for name in directories if (here / name).is_symlink()]
        directories[:] = [name for name in directories if name not in linked and not _is_left_out(here / name)]
        yield from ((here / name).relative_to(root).as_posix() for name in (*files, *linked))


def _is_left_out(directory: Path) -> bool:
    return directory.name in _LEFT_OUT or any((directory / mark).exists() for mark in _MARKS)


def _may_travel(root: Path, name: str) -> bool:
    """Whether it is there, is a file or a link, and no cache, though git may not have been told to ignore that."""
    path = root / name
    return _LEFT_OUT.isdisjoint(PurePosixPath(name).parts) and (path.is_symlink() or path.is_file())


def _stays_inside(root: Path, name: str) -> bool:
    try:
        inside(root, name)
    except Unfit:
        return False
    return True


def _expect_utf8(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise EnvironmentFault(
            f"the name of {os.fsencode(name)!r} is no UTF-8 and cannot travel to nodes that do not see the project: "
            "rename it, or name it in .gitignore"
        ) from error


def _largest(sizes: Mapping[str, int]) -> str:
    """The directories or files at the top that are largest, each with its size."""
    tops: dict[str, int] = {}
    for name, size in sizes.items():
        top = PurePosixPath(name).parts[0]
        tops[top] = tops.get(top, 0) + size
    largest = sorted(tops, key=lambda top: -tops[top])[:3]
    return ", ".join(f"{top} {tops[top] / _MIB:.0f}" for top in largest)


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _editable(direct_url: str) -> Path | None:
    try:
        told = json.loads(direct_url)
        is_editable = told.get("dir_info", {}).get("editable", False)
        return Path(unquote(urlsplit(told["url"]).path)).resolve() if is_editable else None
    except (ValueError, KeyError, AttributeError):  # another installer's own idea of the file
        return None


@dataclass
class RemoteFiles:
    """The files of one run."""

    root: Path  # of the project
    guard: Guard  # of the run, which holds its builds
    say: Callable[[str], None]  # tells the user one line
    _project: FileSet | None = None
    _packing: threading.Lock = field(default_factory=threading.Lock)

    def project(self) -> FileSet:
        """The project as it was when it was first asked for, so that all nodes have the same."""
        with self._packing:
            if self._project is None:
                expect_own_code(self.root, LIBRARIES)
                self._project = pack_project(self.root, self.guard.folder / "project", self.say)
            return self._project

    @contextmanager
    def build(self, folder: Path) -> Iterator[tuple[FileSet, str]]:
        """A build, and its folder's path below that of all builds."""
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        contents = Path(tempfile.mkdtemp(dir=self.guard.folder, prefix="sent-"))
        try:
            yield packed(folder, names, contents), folder.relative_to(self.guard.folder).as_posix()
        finally:
            shutil.rmtree(contents, ignore_errors=True)
