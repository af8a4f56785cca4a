"""Workers of a forked test program, forked as well: a test's proof starts 50 of them, and each imports for 0.3 s.

``subprocess.Popen`` asks a process that has imported what a worker begins with, and that runs nothing. What it forks is
a child of the program, as a started worker is. Its memory is shifted by chance, since forks of one process would have
one layout, which decides some per cent of a time.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

_SUBREAPER, _DIE_WITH_PARENT = 36, 1  # linux/prctl.h
_PID = struct.Struct("i")
_KEPT: list[Any] = []  # what shifts a worker's memory


class Zygote:
    """A fork of this process, and where it is asked for workers. Make it before anything runs here."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None)
        self.worker: list[str] | None = None
        if os.fork() == 0:
            self._here.close()
            self._libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            self.worker = _serve(there)
        else:
            there.close()

    def fork(self, argv: Sequence[str], env: Mapping[str, str], descriptors: Sequence[int]) -> int:
        """The id of a child that is the worker ``argv``; ``descriptors`` are its output and what ``argv`` ends in."""
        with self._lock:
            self._libc.prctl(_SUBREAPER, 1)  # so that what an intermediate process leaves is this one's child
            # Of a worker that is killed before it has told its number nothing is known: as if it had not started.
            request = json.dumps([os.getpid(), list(argv), dict(env)]).encode()
            with open_memory(request) as content:
                socket.send_fds(self._here, [b"x"], [content, *descriptors])
                (pid,) = _PID.unpack(self._here.recv(_PID.size))
            self._libc.prctl(_SUBREAPER, 0)
        return int(pid)


class open_memory:  # noqa: N801
    """A file without a name that holds ``content``: what an environment holds is longer than a packet may be."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __enter__(self) -> int:
        self._descriptor = os.memfd_create("request")
        os.write(self._descriptor, self._content)
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def workers_of(zygote: Zygote) -> None:
    """Have this process's workers be forks of ``zygote``."""
    from pytest_compileiq.workers import local

    class Forked(subprocess.Popen):  # type: ignore[type-arg]
        def _execute_child(self, args: Any, *more: Any) -> None:
            raise NotImplementedError

        def __init__(
            self, args: Sequence[Any], *, stdout: int, env: Mapping[str, str], pass_fds: Sequence[int], **_: Any
        ) -> None:
            words = [os.fspath(word) for word in args[3:]]
            self.args, self.returncode = args, None
            self.stdin = self.stdout = self.stderr = None
            self._waitpid_lock = threading.Lock()
            self._communication_started, self._input, self._sigint_wait_secs = False, None, 0.25
            self.pid = zygote.fork(words[: -len(pass_fds)], env, [stdout, *pass_fds])
            self._child_created = True

    made = {name: getattr(subprocess, name) for name in ("DEVNULL", "STDOUT", "TimeoutExpired")}
    local.subprocess = SimpleNamespace(Popen=Forked, **made)  # type: ignore[assignment]


def become_worker(arguments: list[str]) -> int:
    """Be the worker that was asked for."""
    from pytest_compileiq.workers import inside

    sys.argv[:] = [inside.__file__, *arguments]
    return inside.main()


def _serve(asked: socket.socket) -> list[str]:
    """Fork for each request; returns in a worker, with its arguments."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, 1, 8)
        if not message:
            os._exit(0)
        content, *passed = descriptors
        parent, argv, env = json.loads(os.pread(content, os.fstat(content).st_size, 0))
        os.close(content)
        if (between := os.fork()) == 0:
            if os.fork() != 0:
                os._exit(0)
            while os.getppid() != parent:
                with suppress(ProcessLookupError):
                    os.sched_yield()
            return _begin(asked, argv, env, passed)
        os.waitpid(between, 0)
        for descriptor in passed:
            os.close(descriptor)


def _begin(asked: socket.socket, argv: list[str], env: Mapping[str, str], passed: list[int]) -> list[str]:
    os.setsid()
    asked.send(_PID.pack(os.getpid()))
    asked.close()
    output, *channel = passed
    for number, descriptor in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
        os.dup2(descriptor, number)
    os.close(output)
    os.environ.clear()
    os.environ.update(env)
    chance = random.Random(os.urandom(8))
    _KEPT.extend([mmap.mmap(-1, mmap.PAGESIZE * chance.randrange(1, 4096)), bytes(chance.randrange(1 << 16))])
    return [*argv, *map(str, channel)]
