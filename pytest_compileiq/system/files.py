"""Reads files that others may have written, and writes files that others may be reading."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_compileiq.errors import EnvironmentFault, Signal, fault_of

_LOCK_DIR = "ACF_LOCK_DIR"
_POLL_S = 0.05
PARTIAL = ".partial-"  # how a file's name begins until it is complete


class Unfit(Signal):
    """A file that is refused. The message continues after its name: ``is missing``, ``is no regular file``."""


def read_regular(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """A regular file's content; a link as the last part of ``path`` is followed with ``follow`` alone.

    Raises:
        Unfit: it is missing, a link, not a regular file, has more than ``limit`` bytes, or cannot be read.
    """
    try:
        # Opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
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
        if not follow and isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise Unfit("is a link, and nothing behind a link is read") from error
        raise Unfit(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def nonblocking(path: str, flags: int) -> int:
    """An ``opener`` of ``open`` that raises ``OSError`` unless ``path`` is a regular file; it waits for no pipe."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "is no regular file", path)


def exists(path: Path) -> bool:
    """Whether there is something at ``path``; pathlib raises an error for a name that is too long to be a file's."""
    return os.path.exists(path)  # noqa: PTH110


def inside(root: Path, name: str) -> Path:
    """The real location of ``name``, an untrusted path, below ``root``.

    Raises:
        Unfit: it leads out of ``root``, directly or by a link, or in a circle of links, or is not a path at all.
    """
    try:
        real = (root / name).resolve()
        leaves = not real.is_relative_to(root.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # a null character; before Python 3.13, links in a circle
        raise Unfit(f"is no path: {error!s:.100}") from error
    if _is_circular(real):
        raise Unfit("is no path: its links lead in a circle")
    if leaves:
        raise Unfit("lies outside the project")
    return real


def _is_circular(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def replace(path: Path, data: bytes, *, is_lasting: bool = True) -> None:
    """Replace ``path`` with ``data``: completely or not at all, readable by everyone, safe from a power cut if lasting.

    Raises ``OSError``, whose ``filename`` is ``path``.
    """
    import tempfile  # acf --help does without it

    partial = None
    try:
        descriptor = _open_nameless(path.parent)
        if descriptor is None:
            descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=PARTIAL)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fchmod(handle.fileno(), 0o644)
            if is_lasting:
                os.fsync(handle.fileno())
            if partial is None:
                partial = str(path.parent / f"{PARTIAL}{os.urandom(8).hex()}")
                # A directory is named, or Python calls link(2), which does not follow; the path is absolute.
                os.link(f"/proc/self/fd/{handle.fileno()}", partial, src_dir_fd=handle.fileno())
        Path(partial).replace(path)
    except BaseException as error:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _open_nameless(directory: Path) -> int | None:
    """A file that a killed writer does not leave behind, for git to find; None where the file system has none."""
    if not Path("/proc/self/fd").exists():
        return None
    try:
        return os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return None
        raise


def write_output(path: Path, text: str) -> None:
    """Write a file that a user named as ``replace`` does; a pipe or a device is written to directly."""
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as stream:
            stream.write(text)
    else:
        replace(path.resolve(), text.encode())


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def machine_lock(what: str) -> Path:
    """The lock file of ``what``, in ``lock_directory``."""
    name = f"pytest-compileiq-{hashlib.sha256(what.encode(errors='surrogateescape')).hexdigest()[:16]}.lock"
    return lock_directory() / name


def lock_directory() -> Path:
    """The directory of lock files: ``ACF_LOCK_DIR``, else one that all users of this machine share.

    Raises:
        EnvironmentFault: ``ACF_LOCK_DIR`` names nothing that this user may write to.
    """
    if is_lock_dir_given():
        given = Path(os.environ[_LOCK_DIR])
        if not (given.is_dir() and os.access(given, os.W_OK | os.X_OK)):
            raise EnvironmentFault(
                f"{_LOCK_DIR}={given} is no directory that this user may write to: make it one, for everybody who "
                "measures on the same devices (chmod 1777), or unset the variable"
            )
        return given
    import tempfile

    places = [Path("/run/lock"), Path("/tmp")]  # before TMPDIR: a user or a batch job may have one of its own
    return next((place for place in places if _is_for_everybody(place)), Path(tempfile.gettempdir()))


def is_lock_dir_given() -> bool:
    """Whether ``ACF_LOCK_DIR`` is set, so that lock files lie where containers and users share them."""
    return bool(os.environ.get(_LOCK_DIR))


def is_in_container() -> bool:
    """Whether Docker or Podman says that this is a container, whose directories others do not see."""
    return any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))


def text_of(path: Path) -> str:
    """The text of one of the system's own files, stripped; empty where it cannot be read, or is not ASCII."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


@contextlib.contextmanager
def locked_in_turn(path: Path, waiting: Callable[[], object]) -> Iterator[None]:
    """As ``locked``, calling ``waiting`` again and again as long as another process holds the lock."""
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(locked(path, wait=False))
                break
            except BlockingIOError:
                waiting()
                time.sleep(_POLL_S)
        yield


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock on ``path``; the file is created if missing and never removed. The lock ends with the process.

    Raises:
        BlockingIOError: another process holds it, and ``wait`` is false.
        EnvironmentFault: the file is a link, not a regular file, or closed to this user; it is not touched.
    """
    import fcntl

    descriptor = _open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _is_for_everybody(directory: Path) -> bool:
    """Whether every user may create files in it, and none may remove another's."""
    try:
        mode = directory.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH) and os.access(directory, os.W_OK | os.X_OK)


def _open_lock(path: Path) -> int:
    try:
        descriptor = _open_or_make(path)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EACCES, errno.EPERM):
            raise EnvironmentFault(f"the lock {path} cannot be opened: {fault_of(error)}") from error
        why = "is a link" if error.errno == errno.ELOOP else f"cannot be opened ({error.strerror})"
        raise EnvironmentFault(f"the lock {path} {why}: its owner must remove it") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise EnvironmentFault(f"the lock {path} is no regular file: its owner must remove it")
    return descriptor


def _open_or_make(path: Path) -> int:
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # Without O_CREAT, which the kernel refuses for another user's file in a directory for everybody.
        return _open_for_any(path, flags)
    except FileNotFoundError:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o644)
        except FileExistsError:  # another process has just created it
            return _open_for_any(path, flags)
        os.fchmod(descriptor, 0o644)  # whatever the umask: others need to read it to lock it
        return descriptor


def _open_for_any(path: Path, flags: int) -> int:
    try:
        return os.open(path, os.O_RDWR | flags)  # NFS locks only what may be written
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)
