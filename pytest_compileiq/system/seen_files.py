"""What files and directories hold, remembered while nothing touches them.

A content is read again when device, inode, size or either time of a file has changed. Times have a tick, so two writes
within one leave the same times: what was touched a moment before it was read is not remembered at all. Git treats
"racily clean" entries of its index in this way.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

_SECOND_NS = 1_000_000_000
_SETTLED_NS = _SECOND_NS // 10  # Linux stamps files by its timer, which ticks every 1 to 10 ms
_SETTLED_COARSE_NS = 2 * _SECOND_NS  # some file systems keep whole seconds, FAT every other one
_CHUNK_BYTES = 1 << 20

Signature = tuple[int, int, int, int, int, int]
Content = TypeVar("Content")


class SeenFiles(Struct):
    """Contents of files and names in directories, as they are at the moment of each call; links are followed."""

    settled_ns: int = _SETTLED_NS  # since a file of a fine-grained file system was touched, for its times to tell
    _digests: dict[str, tuple[Signature, str]] = msgspec.field(default_factory=dict)
    _names: dict[str, tuple[Signature, frozenset[str]]] = msgspec.field(default_factory=dict)

    def digest(self, path: str) -> str | None:
        """SHA-256 of a regular file's content; None where there is none that can be read."""
        return self._remembered(self._digests, path, stat.S_ISREG, _sha256)

    def names(self, directory: str) -> frozenset[str]:
        """The names in ``directory``; none where it is no directory that can be read."""
        return self._remembered(self._names, directory, stat.S_ISDIR, _names_in) or frozenset()

    def _remembered(
        self,
        memory: dict[str, tuple[Signature, Content]],
        path: str,
        is_kind: Callable[[int], bool],
        read: Callable[[str], Content | None],
    ) -> Content | None:
        signature = signature_of(path)
        if signature is None or not is_kind(signature[0]):
            return None
        if (known := memory.get(path)) is not None and known[0] == signature:
            return known[1]
        read_at = time.time_ns()
        content = read(path)
        if content is not None and self.has_settled(signature, read_at) and signature_of(path) == signature:
            memory[path] = signature, content
        return content

    def has_settled(self, signature: Signature, at_ns: int) -> bool:
        """Whether whoever touches the file after ``at_ns``, in Unix nanoseconds, gives it another signature."""
        touched_ns = max(signature[4:])
        is_coarse = signature[4] % _SECOND_NS == 0 and signature[5] % _SECOND_NS == 0
        return touched_ns + (_SETTLED_COARSE_NS if is_coarse else self.settled_ns) <= at_ns


def signature_of(path: str) -> Signature | None:
    """What distinguishes a file or directory from others, and from itself before a change; None if it is missing."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a thousand of these a second
    except (OSError, ValueError):
        return None
    return status.st_mode, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _names_in(directory: str) -> frozenset[str] | None:
    try:
        return frozenset(os.listdir(directory))  # noqa: PTH208 - names are wanted, and paths would cost
    except OSError:
        return None


def _sha256(path: str) -> str | None:
    hasher = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - as above
            while chunk := stream.read(_CHUNK_BYTES):
                hasher.update(chunk)
    except OSError:
        return None
    return hasher.hexdigest()
