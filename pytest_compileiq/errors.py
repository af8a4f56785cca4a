"""Every error this package raises on purpose; anything else that escapes is a bug of ours.

Messages are one sentence: the file, the value, and the command or edit that mends it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal


class CompileIQError(Exception):
    """Root of the tree."""


class UserError(CompileIQError):
    """What the user wrote is not usable; the message says what was expected."""


class MarkerError(UserError):
    """A wrong argument of ``@pytest.mark.tune``, of an ini key or of an option."""


class BodyError(UserError):
    """The test body used ``acf`` against its contract (outside the body, measured twice, …)."""


class CannotMeasure(BodyError):
    """The call that was handed to ``measure`` cannot be timed; the message says what to change in it.

    Attributes:
        arm: whose call it is, where that is known.
    """

    arm: Literal["baseline", "tuned"] | None = None


class EnvironmentFault(CompileIQError):
    """This machine lacks a compiler, a device or an optional package; the message names the install command."""


class NotAsked(EnvironmentFault):
    """git could not be asked, so that nothing is known of its content; the message is git's own, with its remedy."""


class NoDevice(EnvironmentFault):
    """No device here runs what was built; it can be built and digested all the same."""


class NoWorker(EnvironmentFault):
    """No worker process gets ready to measure a test: it could not start, collect the test, or set its fixtures up."""

    def __init__(self, said: str) -> None:
        self.message = f"no worker process gets ready to measure it, which says nothing about any controls: {said}"
        self.remedy = (
            "mend that and run the same command again; a worker is a pytest of this project in a process of its own, "
            "with the options of this run, that runs the tuned tests alone"
        )
        super().__init__(f"{self.message}; {self.remedy}")


class StoreError(CompileIQError):
    """A file under ``acf/`` is missing, corrupt, oversized, a link, or claims what it must not.

    ``mend`` is the remedy; "" where ``what`` says it, or where that depends on who reads the file.
    """

    def __init__(self, what: str, mend: str = "") -> None:
        super().__init__(f"{what}; {mend}" if mend else what)
        self.what, self.mend = what, mend


class SchemaTooNew(StoreError):
    """The metadata was written by a later version of pytest-compileiq."""


class ClaimMismatch(StoreError):
    """Recomputing a claim from the committed samples gives different numbers."""


class CacheMismatch(CompileIQError):
    """A rebuild is not what the build cache has for the same inputs; the message names both."""


class BuildError(CompileIQError):
    """A build failed.

    Attributes:
        kind: ``"compile"`` when the compiler refused or crashed, ``"timeout"`` when it was killed.
        log: the tail of what the compiler printed.
        refused: the relocation that keeps production's objects from being loaded; empty if nothing does.
    """

    def __init__(self, message: str, *, kind: Literal["compile", "timeout"], log: str = "", refused: str = "") -> None:
        super().__init__(message)
        self.kind: Literal["compile", "timeout"] = kind
        self.log = log
        self.refused = refused


LARGER_FILES = "raise the limit on the size of a file, ulimit -f unlimited"
WRITABLE = "mount it writable, or run the same in a copy of the project that is"
_SPACE = "free some space, or name another directory in TMPDIR"
_REMEDIES = {
    errno.EFBIG: LARGER_FILES,
    errno.EROFS: WRITABLE,
    errno.ENAMETOOLONG: "move the project to a shorter path",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
}


def fault_of(error: OSError) -> str:
    """What the machine refused, in a sentence with what mends it."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"too many files are open{where}: raise the limit, ulimit -n 4096"
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{error.strerror or error}{where}" + (f": {remedy}" if remedy else "")


class TuneFailed(CompileIQError):
    """The benchmark cannot be tuned: its baseline does not build, is not correct, or cannot run here."""


class Signal(CompileIQError):
    """A message from one part to its caller; none leaves the package."""


class LeftAlone(Signal):
    """A benchmark takes no part in a tune, or the tune ended before it was proven; the message says why."""


def install(extra: str) -> str:
    """The command that brings an optional part of this package."""
    return f"pip install 'pytest-compileiq[{extra}]'"


@contextmanager
def contained(what: str, mend: str) -> Iterator[None]:
    """Whatever else is raised while ``what``, an untrusted file, is used becomes a ``StoreError`` about it alone.

    Parsers have limits of their own (recursion, digits of an integer, memory): a file that reaches one costs no other
    file its verdict, nor the run its summary.
    """
    try:
        yield
    except CompileIQError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error!s:.200}".removesuffix(": ")
        raise StoreError(f"{what} cannot be used ({said})", mend) from error
