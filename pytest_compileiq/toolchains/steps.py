"""Steps of a build: run within one time limit, side by side, and linked once for equal objects; failures are typed."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_compileiq.errors import LARGER_FILES, BuildError, EnvironmentFault
from pytest_compileiq.system.process import TAIL_BYTES, Finished, run
from pytest_compileiq.toolchains.environment import build_environment

_ANSWER_S = 30.0
_NO_SPACE = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
_TOO_LARGE = (os.strerror(errno.EFBIG), "File size limit exceeded")  # of a compiler's own programs, by SIGXFSZ
_BY_OTHERS = {  # signals that say nothing of the program, and what helps
    signal.SIGXFSZ: LARGER_FILES,
    signal.SIGXCPU: "raise the limit on processor time, ulimit -t unlimited",
    signal.SIGKILL: "Linux does so where memory is short (dmesg says so): free some, and run the same again",
    signal.SIGTERM: "run the same again",
    signal.SIGINT: "run the same again",
    signal.SIGHUP: "run the same again",
}


def ask(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    tail_bytes: int = 4 * 2**20,
    without: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run a compiler, or a tool beside it, for its answer, which is in English and may be long.

    Args:
        without: variables of ``build_environment`` that it does not see.
        environment: variables set besides.

    Raises:
        EnvironmentFault: it did not answer in time, or was killed, by itself or in a program of its own.
    """
    env = {name: value for name, value in build_environment().items() if name not in without} | dict(environment or {})
    finished = run(argv, timeout_s=_ANSWER_S, cwd=cwd, env=env, tail_bytes=tail_bytes)
    if finished.timed_out:
        raise EnvironmentFault(
            f"{' '.join(argv)} did not answer within {_ANSWER_S:g} s: the compiler or its wrapper hangs"
        )
    if mend := _killed_by_others(finished):
        raise EnvironmentFault(f"{' '.join(argv)} was killed before it answered: {mend}")
    return finished


def _killed_by_others(finished: Finished) -> str | None:
    """The remedy where a program, or one that it ran, was killed for no reason of its own; else None."""
    if not finished.returncode:
        return None
    for number, mend in _BY_OTHERS.items():
        # gcc's driver and collect2 name the signal of what they ran.
        said = f"{signal.strsignal(number)} signal terminated program", f"terminated with signal {int(number)} ["
        if finished.returncode == -number or any(text in finished.output for text in said):
            return mend
    return None


class Commands(Struct):
    """Runs commands in ``rootdir``, all of them together within ``timeout_s`` seconds.

    Attributes:
        name: the compiler, for messages.
        out_dir: the build's directory, also for temporary files, which a killed compiler does not remove.
        first_error: picks the line of the output that says what is wrong.
        environment: variables set besides ``build_environment``.
        log: the tail of the output so far.
    """

    name: str
    rootdir: Path
    out_dir: Path
    timeout_s: float
    first_error: Callable[[str], str]
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    run_program: Callable[..., Finished] = run
    log: str = ""
    started: float = msgspec.field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Wall time since the build began, in seconds."""
        return time.monotonic() - self.started

    def run(self, argv: Sequence[str], what: str) -> str:
        """Run one command on ``what`` and return the tail of its output.

        Raises:
            BuildError: it refused, was killed by a signal (kind ``compile``), or ran out of time (kind ``timeout``).
            EnvironmentFault: the disk is full, or a limit is reached, which says nothing about the source.
        """
        left_s = max(0.0, self.timeout_s - self.seconds)
        env = {**build_environment(), "TMPDIR": str(self.out_dir.absolute()), **self.environment}
        finished = self.run_program(argv, timeout_s=left_s, cwd=self.rootdir, env=env)
        self.log = (self.log + finished.output)[-TAIL_BYTES:]
        if finished.timed_out:
            message = f"the build by {self.name} took longer than {self.timeout_s:g} s, at {what}; see timeout_s"
            raise BuildError(message, kind="timeout", log=self.log)
        if finished.returncode and any(reason in finished.output for reason in _NO_SPACE):
            mend = "free some, or name another directory in TMPDIR"
            raise EnvironmentFault(f"{self.name} has no space left for {what} in {self.out_dir}: {mend}")
        if finished.returncode and (
            finished.returncode == -signal.SIGXFSZ or any(reason in finished.output for reason in _TOO_LARGE)
        ):
            raise EnvironmentFault(f"{self.name} may write no file as large as {what} takes: {LARGER_FILES}")
        if finished.returncode != 0:
            killed = f"{self.name} was killed by signal {-finished.returncode} at {what}"
            refused = f"{self.name} refuses {what}: {self.first_error(finished.output)}"
            raise BuildError(killed if finished.returncode < 0 else refused, kind="compile", log=self.log)
        return finished.output


def find_program(program: str, test_dir: Path, kind: str, remedy: str) -> str:
    """The absolute path of a name on ``PATH`` or a path relative to the test file; EnvironmentFault with ``remedy``."""
    is_path = os.sep in program
    path = shutil.which(str(test_dir / program) if is_path else program)
    if path is None:
        where = f"at {test_dir / program}" if is_path else f"on PATH ({os.environ.get('PATH', '')})"
        raise EnvironmentFault(f"no {kind} {program!r} {where}; {remedy}")
    return str(Path(path).absolute())


def telling_line(output: str, *patterns: re.Pattern[str]) -> str:
    """The line of a program's output that says what is wrong: of the first pattern that finds one, or the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    found = (line for pattern in patterns for line in lines if pattern.search(line))
    return next(found, lines[-1] if lines else "it printed nothing")[:500]


@lru_cache(maxsize=8)
def code_of(toolchain: str) -> str:
    """Digest the code that makes and reads builds: ``toolchains`` itself, ``machine_code`` and one toolchain."""
    toolchains = Path(__file__).parent
    directories = (toolchains, toolchains / toolchain, toolchains.parent / "machine_code")
    files = sorted(path for directory in directories for path in directory.glob("*.py"))
    content = b"".join(path.read_bytes() for path in files)
    return hashlib.sha256(content + version("pyelftools").encode()).hexdigest()


def asked_everywhere(rootdir: Path, toolchain: str, environment: Mapping[str, str]) -> dict[str, list[str]]:
    """What every build is asked with, of the question of a ``CacheableBuild``."""
    return {
        "directory": [str(rootdir), os.path.realpath(rootdir)],
        "environment": [f"{name}={value}" for name, value in sorted(environment.items())],
        "reader": [code_of(toolchain)],
    }


class ParallelCommands:
    """Runs commands of several builds, each in its build's time. Safe to use from several threads."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._turn = threading.BoundedSemaphore(most)

    def __reduce__(self) -> tuple[type[ParallelCommands], tuple[int]]:
        return ParallelCommands, (self._most,)  # another process has its own

    def run(self, commands: Commands, several: Sequence[tuple[Sequence[str], str]]) -> None:
        """Run ``several``, each its words and what they are for; their output is in ``commands.log`` in their order.

        Raises:
            BuildError, EnvironmentFault: as ``Commands.run`` does, for the first that fails by their order.
        """
        if self._most == 1 or len(several) == 1:
            for argv, what in several:
                commands.run(argv, what)
            return
        own = [replace(commands, log="") for _ in several]
        with ThreadPoolExecutor(min(self._most, len(several))) as pool:
            running = [pool.submit(self._run, each, *one) for each, one in zip(own, several, strict=True)]
            try:
                for each in running:
                    each.result()
            finally:
                pool.shutdown(cancel_futures=True)
                commands.log += "".join(each.log for each in own)

    def _run(self, commands: Commands, argv: Sequence[str], what: str) -> None:
        with self._turn:
            commands.run(argv, what)


@dataclass
class Links:
    """What was linked, by the objects, beside which it lies. Safe to use from several threads."""

    _linked: dict[tuple[Path, bytes], Path] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[Links], tuple[()]]:
        return Links, ()  # another process has its own

    def link(self, objects: Sequence[Path], output: Path, link: Callable[[], object]) -> None:
        """Make ``output`` of ``objects``, by ``link`` where nothing beside it was linked of the same."""
        try:
            digests = b"".join(hashlib.sha256(each.read_bytes()).digest() for each in objects)
        except OSError:  # a compiler that makes nothing: the linker says so
            link()
            return
        key = output.parent.parent, digests
        if (linked := self._linked.get(key)) is not None:
            with suppress(OSError):  # it has been removed
                shutil.copy(linked, output)
                return
        link()
        self._linked[key] = output
