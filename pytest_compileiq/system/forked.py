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
                    return server.run(arguments, cwd, with_token(env), begun, timeout_s)
                except OSError:  # the server was killed, or nothing more can be opened
                    with self._lock:
                        if self._server is server:
                            self._replace(None)
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
        key = (os.getpid(), cwd, {**inherited, **others, **self.environment})
        with self._lock:
            if self._server is None or self._server.key != key:
                self._replace(None)
                with suppress(OSError):  # this machine starts no more processes
                    self._replace(_Server(self._module, key))
            return self._server if self._server and self._server.is_ready(timeout_s) else None

    def _replace(self, server: _Server | None) -> None:
        if self._server is not None:
            self._server.close()
            atexit.unregister(self._server.close)
        self._server = server
        if server is not None:
            atexit.register(server.close)


class _Server:
    """The process that forks. It carries no guard's token: it outlives guards, and ends with this process."""

    def __init__(self, module: str, key: tuple[int, Path, Mapping[str, str]]) -> None:
        self.key = key  # the process that owns it, its directory and its environment
        self.control, theirs = socket.socketpair()
        self._is_ready = False
        command = [sys.executable, "-P", "-m", "pytest_compileiq.system.fork_server", str(theirs.fileno()), module]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command, cwd=key[1], env=key[2], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
            except OSError:
                self.control.close()
                raise

    def is_ready(self, timeout_s: float) -> bool:
        """Whether it has preloaded, after waiting for that; False at once if it could not."""
        if not self._is_ready and _is_readable(self.control, timeout_s):
            self._is_ready = self.control.recv(len(READY)) == READY
        return self._is_ready

    def close(self) -> None:
        """End it, with all that it has forked."""
        if os.getpid() != self.key[0]:
            return
        self.control.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], begun: float, timeout_s: float
    ) -> Finished:
        """Fork a program, and read its output to the end; then kill its group.

        Raises:
            OSError: the server has ended, or this process may open nothing more.
        """
        request: Request = {"arguments": [*arguments], "cwd": str(cwd), "environment": dict(env)}
        content, tail = json.dumps(request).encode(), Tail(TAIL_BYTES)
        with ExitStack() as opened:
            connection, theirs = map(opened.enter_context, socket.socketpair())
            connection.settimeout(_ANSWER_S)
            pipe, output = os.pipe()
            opened.callback(os.close, pipe)
            with STARTING:
                try:
                    socket.send_fds(self.control, [b"+"], [theirs.fileno(), output])
                finally:  # else their ends would never be seen to close
                    theirs.close()
                    os.close(output)
                connection.sendall(NUMBER.pack(len(content)) + content)
                pid = _number(connection)
                RUNNING.add(pid)
            try:
                deadline = begun + timeout_s
                timed_out = not drain(
                    pipe, tail, connection.fileno(), lambda: _is_readable(connection, 0), deadline=deadline
                )
            finally:
                code = _end(connection, pid)
        if code is None:
            raise ConnectionResetError
        return Finished(code, tail.text(), timed_out, time.monotonic() - begun)


def _end(connection: socket.socket, pid: int) -> int | None:
    """Have a program killed unless it has ended, and the rest of its group; its exit code, None if nobody tells."""
    try:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        return _number(connection)
    except OSError:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        return None
    finally:
        RUNNING.discard(pid)


def _number(connection: socket.socket) -> int:
    content = connection.recv(NUMBER.size, socket.MSG_WAITALL)
    if len(content) < NUMBER.size:
        raise ConnectionResetError
    return int(NUMBER.unpack(content)[0])


def _is_readable(connection: socket.socket, within_s: float) -> bool:
    poll = select.poll()  # takes descriptors of any size
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1e3))  # below zero it would wait for ever
