"""Every error this package raises on purpose; anything else that escapes is a bug of ours.

::

    CompileIQError
    ├── UserError                what the user wrote is not usable
    │   ├── MarkerError          the arguments of ``@pytest.mark.tune``, an ini value, an option
    │   └── BodyError            the test body used the ``acf`` fixture against its contract
    │       ├── CannotMeasure    … or handed ``measure`` a call that no clock can time
    │       └── NoParameter      … or read a knob that this arm does not have (a KeyError too)
    ├── EnvironmentFault         this machine lacks something: a compiler, an extra
    │   ├── NotAsked             … or git does not answer, which says nothing of what it holds
    │   ├── NoDevice             … or a device that runs what was built
    │   └── NoWorker             … or what a worker needs to get ready
    ├── StoreError               a file under ``acf/`` is not what it must be (untrusted input)
    │   ├── SchemaTooNew         written by a later version of this package
    │   └── ClaimMismatch        the committed samples do not give the committed claim
    ├── CacheMismatch            the build cache has something else than a rebuild of the same inputs makes
    ├── BuildError               the compiler refused, crashed or did not finish
    ├── TuneFailed               a benchmark cannot be tuned, or its tuning came to nothing that may be written
    │   ├── NotReproducible      its baseline is not the same in another place
    │   ├── NotInjected          its controls do not reach the compiler
    │   ├── NothingJudged        its search measured nothing, or nothing but the baseline
    │   └── Unprovable           its baseline fails, or others disturb every measurement
    ├── EvaluationFailed         one candidate gave no result; the search goes on
    ├── OutputMismatch           the arms' outputs differ (an AssertionError too)
    ├── OffReference             … or one is off its reference (an AssertionError too)
    └── Signal                   what one part tells only its caller; none of these leaves the package

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
    """git could not be asked, so that nothing is known of what is there; the message is git's own, with its remedy."""


class NoDevice(EnvironmentFault):
    """No device here runs what was built; it can be built and digested all the same."""


class NoWorker(EnvironmentFault):
    """No worker process gets ready to measure a test: it could not start, collect the test, or set its fixtures up.

    Attributes:
        message: what the worker said of it, or how it ended.
        remedy: what to do.
    """

    def __init__(self, said: str) -> None:
        self.message = f"no worker process gets ready to measure it, which says nothing about any controls: {said}"
        self.remedy = (
            "mend that and run the same command again; a worker is a pytest of this project in a process of its own, "
            "with the options of this run, that runs the tuned tests alone"
        )
        super().__init__(f"{self.message}; {self.remedy}")


class StoreError(CompileIQError):
    """A file under ``acf/`` is missing, corrupt, oversized, a link, or claims what it must not.

    Attributes:
        what: is wrong.
        mend: what to do about it; "" where ``what`` says it, or where that depends on who reads the file.
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
    """

    def __init__(self, message: str, *, kind: Literal["compile", "timeout"], log: str = "") -> None:
        super().__init__(message)
        self.kind: Literal["compile", "timeout"] = kind
        self.log = log


LARGER_FILES = "raise the limit on the size of a file, ulimit -f unlimited"
WRITABLE = "mount it writable, or run the same in a copy of the project that is"


def fault_of(error: OSError) -> str:
    """What the machine refused, in a sentence with what mends it."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"too many files are open{where}: raise the limit, ulimit -n 4096"
    if error.errno == errno.EFBIG:
        return f"{error.strerror}{where}: {LARGER_FILES}"
    if error.errno == errno.EROFS:
        return f"{error.strerror}{where}: {WRITABLE}"
    if error.errno == errno.ENAMETOOLONG:
        return f"{error.strerror}{where}: move the project to a shorter path"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.strerror}{where}: free some space, or name another directory in TMPDIR"
    return f"{error.strerror or error}{where}"


class TuneFailed(CompileIQError):
    """The benchmark cannot be tuned: its baseline does not build, is not correct, or cannot run here."""


class Signal(CompileIQError):
    """What one part tells its caller, and nobody else."""


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
