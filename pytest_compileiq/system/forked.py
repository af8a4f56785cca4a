"""Programs of Python in processes that are forked, not started: what they import costs each of them nothing.

Importing Triton and hashing its libraries takes longer than compiling a small kernel. So a server does it once, which
runs nothing else, and every program is a fork of that: as much a process of its own as one that begins from nothing.
For what is *timed* it is not: forks of one process have one layout of memory, which decides some per cent of a time.

``multiprocessing``'s own forkserver is one for a whole process, with what was first asked of it loaded, so it would be
the user's as well; and its children import the user's main module.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.system.fork_server import NUMBER, READY, Request
from pytest_compileiq.system.process import (
    OWN_PROCESSOR,
    RUNNING,
    STARTING,
    TAIL_BYTES,
    Finished,
    Tail,
    drain,
    run,
    with_token,
)
from pytest_compileiq.system.watchdog import RUN_TOKEN_VARIABLE

_END_S = 5.0
_ANSWER_S = 60.0
# What an interpreter and the loader read as they start: a forked process has it of its server.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG")


class ForkedModule:
    """Runs ``python -P -m module`` as ``process.run`` does, of a module with ``main()`` and ``preload()``.

    ``preload`` is what every program begins with, and starts no thread. Where it fails, or the server is killed, a
    program begins from nothing. A server lives until the end of this process, or until a run needs another environment
    or directory. ``environment`` is added to that of the server and its programs.
    """

    def __init__(self, module: str, environment: Mapping[str, str] | None = None) -> None:
        self.environment = environment or {}
        self._module = module
        self._lock = threading.Lock()
        self._server: _Server | None = None

    def run(self, arguments: Sequence[str], *, timeout_s: float, cwd: Path, env: Mapping[str, str]) -> Finished:
        """Run the module's program with ``arguments``; gives and raises what ``process.run`` does."""
        begun, env = time.monotonic(), {**env, **self.environment}
        with OWN_PROCESSOR.building():
            if (server := self._server_for(cwd, env, timeout_s)) is not None:
                try:
                    return _Program(server, arguments, cwd, with_token(env)).finish(begun, timeout_s)
                except OSError:  # the server was killed, or nothing more can be opened
                    self._drop(server)
        return self.run_alone(arguments, timeout_s=timeout_s - (time.monotonic() - begun), cwd=cwd, env=env)

    def run_alone(self, arguments: Sequence[str], *, timeout_s: float, cwd: Path, env: Mapping[str, str]) -> Finished:
        argv = [sys.executable, "-P", "-m", self._module, *arguments]
        return run(argv, timeout_s=timeout_s, cwd=cwd, env={**env, **self.environment})

    def _server_for(self, cwd: Path, env: Mapping[str, str], timeout_s: float) -> _Server | None:
        inherited = {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}
        others = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith((*_READ_AT_START, "PYTEST_")) and name != RUN_TOKEN_VARIABLE
        }
        key = _Key(os.getpid(), self._module, cwd, frozenset({**inherited, **others, **self.environment}.items()))
        with self._lock:
            if self._server is None or self._server.key != key:
                self._replace(None)
                self._replace(_Server.started(key))
            return self._server if self._server and self._server.is_ready(timeout_s) else None

    def _drop(self, server: _Server) -> None:
        with self._lock:
            if self._server is server:
                self._replace(None)

    def _replace(self, server: _Server | None) -> None:
        if self._server is not None:
            self._server.close()
            atexit.unregister(self._server.close)
        self._server = server
        if server is not None:
            atexit.register(server.close)


@dataclass(frozen=True)
class _Key:
    """What a server is kept for."""

    owner: int
    module: str
    cwd: Path
    environment: frozenset[tuple[str, str]]


class _Server:
    """The process that forks. It carries no guard's token: it outlives guards, and ends with this process."""

    def __init__(self, key: _Key, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.key = key
        self.control = control
        self._process = process
        self._is_ready = False

    @classmethod
    def started(cls, key: _Key) -> _Server | None:
        """A new server; None where this machine starts no more processes."""
        try:
            control, theirs = socket.socketpair()
        except OSError:
            return None
        command = [sys.executable, "-P", "-m", "pytest_compileiq.system.fork_server", str(theirs.fileno()), key.module]
        with theirs:
            try:
                process = subprocess.Popen(
                    command, cwd=key.cwd, env=dict(key.environment), pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )  # fmt: skip
            except OSError:
                control.close()
                return None
        return cls(key, process, control)

    def is_ready(self, timeout_s: float) -> bool:
        """Whether it has preloaded, after waiting for that; False at once if it could not."""
        if not self._is_ready and _is_readable(self.control, timeout_s):
            self._is_ready = self.control.recv(len(READY)) == READY
        return self._is_ready

    def close(self) -> None:
        """End it, with all that it has forked."""
        if os.getpid() != self.key.owner:
            return
        self.control.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Program:
    """One forked process; OSError where its server has ended, or this process may open nothing more."""

    def __init__(self, server: _Server, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        request: Request = {"arguments": [*arguments], "cwd": str(cwd), "environment": dict(env)}
        content = json.dumps(request).encode()
        with ExitStack() as opened:
            self._connection, theirs = map(opened.enter_context, socket.socketpair())
            self._connection.settimeout(_ANSWER_S)
            self._output, output = os.pipe()
            opened.callback(os.close, self._output)
            with STARTING:
                try:
                    socket.send_fds(server.control, [b"+"], [theirs.fileno(), output])
                finally:  # else their ends would never be seen to close
                    theirs.close()
                    os.close(output)
                self._connection.sendall(NUMBER.pack(len(content)) + content)
                self._pid = self._number()
                RUNNING.add(self._pid)
            self._opened = opened.pop_all()

    def finish(self, begun: float, timeout_s: float) -> Finished:
        """Read its output to the end, or kill it with its group; ConnectionError if the server ended before it."""
        tail = Tail(TAIL_BYTES)
        try:
            timed_out = not drain(
                self._output, tail, self._connection.fileno(), lambda: _is_readable(self._connection, 0),
                deadline=begun + timeout_s,
            )  # fmt: skip
        finally:
            code = self._ended()
        if code is None:
            raise ConnectionResetError
        return Finished(code, tail.text(), timed_out, time.monotonic() - begun)

    def _ended(self) -> int | None:
        """Have the rest of its group killed, and itself unless it has ended; its exit code, None if nobody tells."""
        try:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            return self._number()
        except OSError:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            return None
        finally:
            RUNNING.discard(self._pid)
            self._opened.close()

    def _number(self) -> int:
        content = self._connection.recv(NUMBER.size, socket.MSG_WAITALL)
        if len(content) < NUMBER.size:
            raise ConnectionResetError
        return int(NUMBER.unpack(content)[0])


def _is_readable(connection: socket.socket, within_s: float) -> bool:
    poll = select.poll()  # takes descriptors of any size
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1e3))  # below zero it would wait for ever
