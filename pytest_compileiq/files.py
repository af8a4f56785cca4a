"""Files that others may have had a hand in, and files that others may read meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

PARTIAL = ".partial-"  # how a file is called until it is whole


class Unfit(Exception):
    """A file that is not read. The message goes on after its name: ``is missing``, ``is no regular file``."""


def read_regular(path: Path, limit: int) -> bytes:
    """A regular file's content; a link as the last part of ``path`` is not followed.

    Raises:
        Unfit: it is missing, a link, no regular file, has more than ``limit`` bytes, or cannot be read.
    """
    try:
        # Opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Unfit("is no regular file")
            if status.st_size > limit:
                raise Unfit(f"has {status.st_size} bytes, and at most {limit} are read")
            with open(descriptor, "rb", closefd=False) as stream:
                return stream.read(status.st_size)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise Unfit("is missing") from error
    except (OSError, ValueError) as error:  # ValueError: a null character
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise Unfit("is a link, and nothing behind a link is read") from error
        raise Unfit(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def inside(root: Path, name: str) -> Path:
    """Where ``name``, a path from elsewhere, really lies below ``root``.

    Raises:
        Unfit: it leaves ``root``, itself or by a link, or is no path at all.
    """
    try:
        real = (root / name).resolve()
        leaves = not real.is_relative_to(root.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # a null character, links in a circle
        raise Unfit(f"is no path: {error!s:.100}") from error
    if leaves:
        raise Unfit("lies outside the project")
    return real


def replace(path: Path, data: bytes) -> None:
    """Put ``data`` in the place of ``path``: whole or not at all, readable for all, and safe from a power cut.

    Raises:
        OSError: it cannot be written; ``filename`` is ``path``.
    """
    import tempfile  # acf --help does without it

    partial = None
    try:
        descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=PARTIAL)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        Path(partial).chmod(0o644)
        Path(partial).replace(path)
    except BaseException as error:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def write_output(path: Path, text: str) -> None:
    """Write a file that a user asked for: whole or not at all, but for a pipe or a device, which is written to.

    Raises:
        OSError: it cannot be written; ``filename`` is ``path``.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as stream:
            stream.write(text)
    else:
        replace(path.resolve(), text.encode())
