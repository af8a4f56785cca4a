"""Forks the workers of a forked test program: a proof starts 50 of them, and importing pytest takes each 0.3 s.

A zygote has imported all modules that a worker imports first, and runs nothing else. Its forks become children of the
program, as started workers are. Each fork shifts its memory at random: with one layout of memory for all, a time would
be off by some per cent, the same in each sample.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

_SUBREAPER, _DIE_WITH_PARENT = 36, 1  # linux/prctl.h
_PID = struct.Struct("i")
_KEPT: list[Any] = []  # the memory that shifts the rest


class Zygote:
    """A fork of this process that forks workers. Make it before this process runs anything.

    Attributes:
        worker: in a worker its arguments; None in the process that made the zygote.
    """

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

    def fork(self, arguments: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int]) -> int:
        """Fork a worker and return its process id.

        Args:
            descriptors: first the worker's output; the others' numbers are appended to its arguments.
        """
        request = json.dumps([os.getpid(), list(arguments), dict(environment)]).encode()
        with self._lock, _in_memory(request) as content:
            self._libc.prctl(_SUBREAPER, 1)  # the worker's first parent exits at once: the kernel makes it ours
            socket.send_fds(self._here, [b"x"], [content, *descriptors])
            (pid,) = _PID.unpack(self._here.recv(_PID.size))
            self._libc.prctl(_SUBREAPER, 0)
        return int(pid)


def fork_workers_from(zygote: Zygote) -> None:
    """Replace the process class of local workers in this process."""
    from pytest_compileiq.workers import local

    class Forked(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, args: Sequence[Any], *, stdout: int, pass_fds: Sequence[int], **more: Any) -> None:
            arguments = [os.fspath(word) for word in args[3 : -len(pass_fds)]]  # behind python -m MODULE
            pid = zygote.fork(arguments, more["env"], [stdout, *pass_fds])
            self._given = pid
            super().__init__(args)

        def _execute_child(self, *_: Any) -> None:
            self.pid, self._child_created = self._given, True

    constants = {name: getattr(subprocess, name) for name in ("DEVNULL", "STDOUT", "TimeoutExpired")}
    local.subprocess = SimpleNamespace(Popen=Forked, **constants)  # type: ignore[assignment]


def become_worker(arguments: list[str]) -> int:
    """Run ``python -m pytest_compileiq.workers.worker_plugin`` with ``arguments``, and return its exit code."""
    from pytest_compileiq.workers import worker_plugin

    sys.argv[:] = [worker_plugin.__file__, *arguments]
    return worker_plugin.main()


@contextmanager
def _in_memory(content: bytes) -> Iterator[int]:
    """A descriptor of a file in memory: an environment may be longer than a packet."""
    descriptor = os.memfd_create("request")
    try:
        os.write(descriptor, content)
        yield descriptor
    finally:
        os.close(descriptor)


def _serve(asked: socket.socket) -> list[str]:
    """Fork a worker for each request; returns only in a worker, with its arguments."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, 1, 8)
        if not message:
            os._exit(0)
        content, *passed = descriptors
        parent, arguments, environment = json.loads(os.pread(content, os.fstat(content).st_size, 0))
        os.close(content)
        if (between := os.fork()) == 0:
            if os.fork() != 0:
                os._exit(0)
            while os.getppid() != parent:
                os.sched_yield()
            return _begin(asked, arguments, environment, passed)
        os.waitpid(between, 0)
        for descriptor in passed:
            os.close(descriptor)


def _begin(asked: socket.socket, arguments: list[str], environment: Mapping[str, str], passed: list[int]) -> list[str]:
    os.setsid()
    asked.send(_PID.pack(os.getpid()))
    asked.close()
    output, *channel = passed
    for number, descriptor in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
        os.dup2(descriptor, number)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    chance = random.Random(os.urandom(8))
    _KEPT.extend([mmap.mmap(-1, mmap.PAGESIZE * chance.randrange(1, 4096)), bytes(chance.randrange(1 << 16))])
    return [*arguments, *map(str, channel)]
