"""Files on their way to a machine that does not see them, by content: both ends, and the messages between.

The sender reads each file once, into a folder of the run's own, so that whatever arrives, and whenever, is one state of
the files. No path in a message is absolute, and none is trusted on arrival.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from pytest_compileiq.errors import Signal
from pytest_compileiq.system.files import Unfit, inside

PIECE_BYTES = 4 * 2**20  # neither an object store nor a message is to be the limit
_DIGEST_LETTERS = frozenset("0123456789abcdef")
_Item = TypeVar("_Item")


class Spoilt(Signal):
    """What arrived is not what was sent."""


class Entry(Struct, frozen=True):
    """One file, or one link.

    Attributes:
        path: relative, with slashes.
        sha256: of the content; empty for a link.
        size: in bytes.
        target: of a link, relative to its own directory; empty for a file.
    """

    path: str
    sha256: str
    size: int
    is_executable: bool = False
    target: str = ""


class Piece(Struct, frozen=True):
    """A part of one content; the parts of a content are sent in their order, one content behind the other."""

    sha256: str
    data: bytes


@dataclass(frozen=True)
class Parcel:
    """Files that were read.

    Attributes:
        contents: the folder that holds each content under its digest.
    """

    entries: tuple[Entry, ...]
    contents: Path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    def manifest(self) -> bytes:
        """The entries, as a message."""
        return _encode(self.entries)

    def messages(self) -> Iterator[bytes]:
        """All contents, each once, in messages of at most ``PIECE_BYTES`` and a little more."""
        pieces: list[Piece] = []
        weight = 0
        for sha256 in dict.fromkeys(entry.sha256 for entry in self.entries if not entry.target):
            with (self.contents / sha256).open("rb") as stream:
                is_begun = False
                while (data := stream.read(PIECE_BYTES - weight)) or not is_begun:
                    is_begun = True
                    pieces.append(Piece(sha256, data))
                    weight += len(data)
                    if weight == PIECE_BYTES:
                        yield _encode(pieces)
                        pieces, weight = [], 0
        if pieces:
            yield _encode(pieces)


def packed(root: Path, names: Iterable[str], contents: Path) -> Parcel:
    """Read the files ``names`` below ``root``, each once, into the folder ``contents``.

    Raises:
        OSError: one cannot be read, or what was read cannot be written.
    """
    contents.mkdir(parents=True, exist_ok=True)
    return Parcel(tuple(_packed(root, name, contents) for name in names), contents)


def _packed(root: Path, name: str, contents: Path) -> Entry:
    path = root / name
    if path.is_symlink():
        # Where the link is, not where the links lead that it lies behind: a tree of links is moved as it is.
        return Entry(name, "", 0, target=os.path.relpath(path.resolve(), path.parent.resolve()))
    partial, digest, size = contents / "partial", hashlib.sha256(), 0
    with path.open("rb") as source, partial.open("wb") as copy:
        is_executable = bool(os.fstat(source.fileno()).st_mode & 0o100)
        while data := source.read(PIECE_BYTES):
            digest.update(data)
            size += len(data)
            copy.write(data)
    sha256 = digest.hexdigest()
    partial.replace(contents / sha256)
    return Entry(name, sha256, size, is_executable)


class Arrivals:
    """The other end: contents as they arrive in a folder, until they are unpacked."""

    def __init__(self, contents: Path) -> None:
        self._contents = contents

    def take(self, message: bytes) -> None:
        """Keep the pieces of one message.

        Raises:
            Spoilt: it is no such message.
            OSError: there is no room for them.
        """
        self._contents.mkdir(parents=True, exist_ok=True)
        for piece in _decoded(_PIECES, message):
            with (self._contents / _expected_digest(piece.sha256)).open("ab") as stream:
                stream.write(piece.data)

    def unpack(self, manifest: bytes, place: Path) -> None:
        """Put the files of ``manifest`` below ``place``, and forget their contents.

        Raises:
            Spoilt: a content is missing or another one, or a path leads out of ``place``.
            OSError: there is no room for them.
        """
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
    """Where ``name`` goes; its directories are made.

    Raises:
        Spoilt: it leads out of ``place``, or something is there, or on the way there.
    """
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
_PIECES = msgspec.msgpack.Decoder(tuple[Piece, ...])
_ENTRIES = msgspec.msgpack.Decoder(tuple[Entry, ...])


def _decoded(decoder: msgspec.msgpack.Decoder[tuple[_Item, ...]], message: bytes) -> tuple[_Item, ...]:
    try:
        return decoder.decode(message)
    except ValueError as error:  # msgspec's errors are
        raise Spoilt(f"no such message: {error}") from error
