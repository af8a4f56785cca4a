"""Subprocesses with bounded time and output that leave nothing behind.

``run`` runs one program to its end, ``run_in_foreground`` one that the user talks to; ``system.forked`` is for many
that begin alike. ``Guard`` ensures that nothing started during a search or a gate survives, even when pytest itself
dies by ``kill -9``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.errors import EnvironmentFault, fault_of
from pytest_compileiq.system import watchdog
from pytest_compileiq.system.cpu import ProcessorTurn
from pytest_compileiq.system.watchdog import RUN_TOKEN_VARIABLE

TAIL_BYTES = 64 * 1024

_CHUNK_BYTES = 64 * 1024
_PIPE_BYTES = 1024 * 1024  # more than a pipe holds, whatever the size of a page
_SHORTEST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.05


class Tail:
    """The last ``limit`` bytes of a stream, in about that much memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._held = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._chunks[0]) >= self._limit:
            self._held -= len(self._chunks.popleft())

    def text(self) -> str:
        return b"".join(self._chunks)[-self._limit :].decode(errors="replace")


def drain(pipe: int, tail: Tail, ending: int, has_ended: Callable[[], bool], *, deadline: float) -> bool:
    """Read ``pipe`` until its program has ended; False if the deadline, of the monotonic clock, comes first.

    Args:
        ending: a descriptor that is readable once the program has ended; -1 where there is none.
    """
    pause_s = _SHORTEST_PAUSE_S
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        if ending >= 0:
            selector.register(ending, selectors.EVENT_READ)
        is_open = True
        while (remaining_s := deadline - time.monotonic()) > 0:
            # Without a descriptor of the process it is asked after: most end within a millisecond of their output.
            longest_s = _LONGEST_PAUSE_S if is_open or ending >= 0 else pause_s
            ready = {key.fd for key, _ in selector.select(min(remaining_s, longest_s))}
            if pipe in ready:
                if chunk := os.read(pipe, _CHUNK_BYTES):
                    tail.add(chunk)
                else:
                    selector.unregister(pipe)
                    is_open = False
            elif has_ended():  # even with the pipe open: a daemon left behind may hold it for ever
                if is_open and any(key.fd == pipe for key, _ in selector.select(0)):  # it wrote after the look above
                    tail.add(os.read(pipe, _PIPE_BYTES))
                return True
            elif not is_open:
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return False


class Finished(Struct, frozen=True):
    """How a program ended."""

    returncode: int  # negative for a signal, as in `subprocess`
    output: str  # the tail of standard output and standard error, in the order of writing; undecodable bytes replaced
    timed_out: bool  # it was killed because its time ran out
    seconds: float  # wall time


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    tail_bytes: int = TAIL_BYTES,
) -> Finished:
    """Run ``argv`` in its own session; kill the rest of its process group when it ends or runs out of time.

    Standard input is empty. Output beyond the last ``tail_bytes`` is read and dropped, so a program that never stops
    printing costs no memory. Without ``env`` it has this process's environment; an open guard's token is always added.
    It waits while a thread of this process has something measured on this machine's processor.

    Raises:
        EnvironmentFault: there is no such program, it cannot be executed, or something else took its exit status.
    """
    tail = Tail(tail_bytes)
    with OWN_PROCESSOR.building(), awaited():
        started = time.monotonic()
        try:
            with STARTING:
                process = subprocess.Popen(
                    argv, cwd=cwd, env=with_token(os.environ if env is None else env), stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
                RUNNING.add(process.pid)
        except OSError as error:
            raise EnvironmentFault(_cannot_start(str(argv[0]), cwd, error)) from error
        with process, watchdog.pidfd_of(process.pid) as pidfd:
            assert process.stdout is not None
            try:
                child = _Child(process.pid, str(argv[0]))
                deadline = started + timeout_s
                timed_out = not drain(process.stdout.fileno(), tail, pidfd, child.has_ended, deadline=deadline)
            finally:
                # The leader has not been reaped yet, so its number still means this group and no other.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                RUNNING.discard(process.pid)
        returncode = process.returncode if child.returncode is None else child.returncode
        return Finished(returncode, tail.text(), timed_out, time.monotonic() - started)


def run_in_foreground(argv: Sequence[str], output: Path | None = None) -> int:
    """Run a user's program in this process's place, with its input, Ctrl-C and output, or that written to a file.

    Returns its status, negative for a signal, as in ``subprocess``.

    Raises:
        EnvironmentFault: there is no such program, or it cannot be executed.
    """
    with awaited(), contextlib.ExitStack() as opened:
        stdout = opened.enter_context(output.open("wb")) if output else None
        try:
            process = subprocess.Popen(argv, stdout=stdout)
        except OSError as error:
            raise EnvironmentFault(_cannot_start(argv[0], None, error)) from error
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the terminal has sent it to the program, too, which may want to go on
                continue


def with_token(env: Mapping[str, str]) -> Mapping[str, str]:
    """``env`` with the token of the innermost guard that is open."""
    token = _open_tokens[-1] if _open_tokens else os.environ.get(RUN_TOKEN_VARIABLE)
    return env if token is None else {**env, RUN_TOKEN_VARIABLE: token}


def _cannot_start(program: str, cwd: Path | None, error: OSError) -> str:
    if cwd is not None and not cwd.is_dir():
        return f"cannot run {program!r}: its working directory {cwd} is not a directory"
    if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
        return f"cannot run {program!r}: {error.strerror}; install it, or name one that exists"
    return f"cannot run {program!r}: {fault_of(OSError(error.errno, error.strerror))}"


def adopt_orphans() -> None:
    """Become the parent of every orphan below this process: a daemon that forked twice is its child, then."""
    if sys.platform == "linux":
        import ctypes  # heavy, and only workers and servers adopt

        pr_set_child_subreaper = 36  # linux/prctl.h
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


_awaiting_lock = threading.RLock()  # a signal's handler may start programs while this thread is in ``awaited``
_awaiting: list[None] = []  # an item for each ``awaited`` that is open: the signal is the whole process's


@contextlib.contextmanager
def awaited() -> Iterator[None]:
    """Do not ignore SIGCHLD, in any thread; afterwards it is ignored again if it was. A handler stays as it is.

    Where it is ignored, which a fixture may do and a parent hands on, the kernel keeps no exit status: ``waitid`` fails
    with "No child processes", ``subprocess`` takes that for success, and a compiler that inherits it fails as well.
    """
    with _awaiting_lock:
        _awaiting.append(None)
        _replace_ignored(signal.SIG_DFL)
    try:
        yield
    finally:
        with _awaiting_lock:
            _awaiting.pop()
            if not _awaiting:
                _replace_ignored(signal.SIG_IGN)


def _replace_ignored(handler: signal.Handlers) -> None:
    # What Python was told, or found at its start, is what the program wants: signal(2) beneath leaves that alone.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        import ctypes  # heavy, and hardly any process ignores it

        # Python's own is for the main thread alone.
        ctypes.CDLL(None).signal(int(signal.SIGCHLD), ctypes.c_void_p(int(handler)))


class _Child(Struct):
    """A child that is not reaped yet; ``returncode`` is known once it has ended."""

    pid: int
    program: str
    returncode: int | None = None

    def has_ended(self) -> bool:
        try:
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError as error:  # subprocess would call it a success
            raise EnvironmentFault(
                f"how {self.program!r} ended is unknown: a SIGCHLD handler or os.wait() in this process takes the exit "
                "status of every child; have it wait for its own processes alone, by os.waitpid(pid)"
            ) from error
        if ended is not None:
            self.returncode = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return ended is not None


# Several benchmarks may be tuned at once, on devices of a cluster; then one is measured here while another one builds.
OWN_PROCESSOR = ProcessorTurn()

# Sessions of programs under way: a sweep spares other threads' builds, and the lock lets none start during it.
RUNNING: set[int] = set()
STARTING = threading.Lock()

# The tokens of this process's open guards, innermost last. Global, because builds run on threads that see no guard.
_open_tokens: list[str] = []


class Guard:
    """While open, processes started for a run carry a random token, and die at the latest with this process.

    These are the processes started by ``run`` or with a ``marked`` environment, and their descendants. A watchdog in
    its own session, no child of this process, holds the other end of a pipe. When that closes, or this process is gone,
    it kills every carrier of the token and removes ``folder``. Double forks and ``setsid`` do not escape it; a program
    started with an emptied environment does. Without ``/proc`` no carriers are found: only ``run`` kills its group.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        with watchdog.pidfd_of(os.getpid()) as pidfd:  # before the folder is made: no death leaves one behind
            # An empty environment: a guard around this process must not kill the watchdog as one of its carriers.
            self._watchdog = subprocess.Popen(
                [sys.executable, "-I", "-S", watchdog.__file__, self.token, str(os.getpid()), str(pidfd), str(folder)],
                # The end of its output is that of the watchdog, which is no child of this process.
                env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True, pass_fds=[] if pidfd < 0 else [pidfd],
            )  # fmt: skip
        self._watchdog.wait()  # until it has left: from here on, whoever kills this process's children spares it
        _open_tokens.append(self.token)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            self.close()
            raise

    def marked(self, environment: Mapping[str, str]) -> dict[str, str]:
        return {**environment, RUN_TOKEN_VARIABLE: self.token}

    def sweep(self, sessions: Collection[int] = frozenset()) -> list[int]:
        """Kill the carriers, except those in ``sessions`` and in a running ``run``; return their ids."""
        with STARTING:
            return watchdog.kill_carriers(self.token, {os.getpid()}, {*RUNNING, *sessions})

    def close(self) -> None:
        """Sweep, let the watchdog remove the folder, and end it. Closing twice does nothing more."""
        if self.token not in _open_tokens:
            return
        _open_tokens.remove(self.token)
        self.sweep()
        self._watchdog.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)  # the watchdog has, unless this interpreter starts none

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
