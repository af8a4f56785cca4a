"""The parent's end of an isolated evaluation process; ``pytest_compileiq.workers.inside`` is the other.

A worker is a pytest of its own, started from the parent's options as xdist's workers are. It collects the tuned
tests, then waits: entering a test sets up its fixtures once, and tasks run on them until the parent leaves it.
What a task means is not known here: the plugin answers it. The worker's prints go to a bounded drain, never to
the user's terminal; its progress is a time in shared memory, so that a watcher costs a sample nothing.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import pytest

from pytest_compileiq.workers.config import start_message

MAX_PRINTED_BYTES = 8 * 1024 * 1024
START_TIMEOUT_S = 600.0
_EXIT_TIMEOUT_S = 10.0
_POLL_S = 0.05


class WorkerDied(Exception):
    """The worker crashed, exited, hung or printed without end; ``kind`` is the evaluation's failure."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Channel:
    """JSON messages over a pair of pipes, and the shared time of the last progress."""

    def __init__(self, read_fd: int, write_fd: int, progress_fd: int) -> None:
        self._read = Connection(read_fd, writable=False)
        self._write = Connection(write_fd, readable=False)
        self._progress = mmap.mmap(progress_fd, 8)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        self._write.send_bytes(json.dumps(message).encode())

    def poll(self, timeout_s: float) -> bool:
        """Whether a message (or the end of the pipe) is there within ``timeout_s``."""
        return self._read.poll(timeout_s)

    def receive(self) -> dict[str, Any]:
        """The next message; raises EOFError when the other end is gone."""
        message = json.loads(self._read.recv_bytes(maxlength=1 << 28))
        if not isinstance(message, dict):
            raise EOFError
        return message

    def tick(self) -> None:
        """Note that something happened now."""
        self._progress[:8] = struct.pack("d", time.monotonic())

    def idle_s(self) -> float:
        """Seconds since the last tick of either end."""
        last: float = struct.unpack("d", self._progress[:8])[0]
        return time.monotonic() - last

    def close(self) -> None:
        """Close both pipes."""
        self._read.close()
        self._write.close()


class Worker:
    """One worker process. Not thread-safe: one conversation at a time."""

    def __init__(
        self, config: pytest.Config, nodeids: Sequence[str], environment: Mapping[str, str], extra: Mapping[str, Any]
    ) -> None:
        """Start it; ``extra`` is handed to the plugin in the worker as it is (JSON).

        Raises:
            WorkerDied: it ended at once.
            OSError: this machine starts no more processes.
        """
        self._drain = _Drain()
        self.inside: str | None = None
        with tempfile.TemporaryFile() as progress:
            progress.write(bytes(8))  # a hole would end whoever writes to it, where the disk is full
            progress.flush()
            down_read, down_write = os.pipe()
            up_read, up_write = os.pipe()
            passed = (down_read, up_write, progress.fileno())
            self._channel = Channel(up_read, down_write, progress.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest_compileiq.workers.inside", *map(str, passed)],
                stdin=subprocess.DEVNULL, stdout=self._drain.write_fd, stderr=subprocess.STDOUT,
                env=_worker_environment(environment), pass_fds=passed, start_new_session=True,
            )  # fmt: skip
        os.close(down_read)
        os.close(up_write)
        self._drain.start()
        self._ready = False
        try:
            self._send({
                **start_message(config), "sys_path": sys.path, "extra": dict(extra),
                "args": [f"{config.rootpath}{os.sep}{nodeid}" for nodeid in nodeids],
            })  # fmt: skip
        except WorkerDied:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def enter(self, nodeid: str, given: Mapping[str, Any]) -> None:
        """Set up the test's fixtures, leaving the test that the worker was in; ``given`` waits inside (JSON).

        Raises:
            WorkerDied: the set-up failed (kind ``wrong``, saying how) or ended the process.
        """
        self.wait_ready()
        self.leave()
        self._send({"do": "enter", "nodeid": nodeid, "given": dict(given)})
        answer = self._receive(START_TIMEOUT_S)
        if answer.get("event") != "entered":
            raise WorkerDied("wrong", answer.get("reason") or "the test could not be set up")
        self.inside = nodeid

    def wait_ready(self) -> None:
        """Wait until it has collected its tests.

        Raises:
            WorkerDied: it could not.
        """
        if not self._ready:
            self._expect("ready", START_TIMEOUT_S)
            self._ready = True

    def ask(self, task: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Have the entered test do ``task``; ``timeout_s`` bounds the time without progress.

        Raises:
            WorkerDied: it crashed, exited, hung, or printed without end.
        """
        self._drain.reset()
        self._send({"do": "task", "task": dict(task)})
        answer = self._receive(timeout_s)
        if "event" in answer:  # the test is over, which no task ends by itself
            self.inside = None
            raise WorkerDied("crash", f"the test ended within its task: {answer.get('reason') or 'no reason given'}")
        return answer

    def leave(self) -> None:
        """Tear the entered test's fixtures down."""
        if self.inside is not None:
            self.inside = None
            self._send({"do": "leave"})
            self._expect("left", START_TIMEOUT_S)

    def dismiss(self) -> None:
        """Ask it to tear its fixtures down and to end, without waiting."""
        with contextlib.suppress(WorkerDied):
            if self.inside is not None:
                self._send({"do": "leave"})
            self._send({"do": "quit"})

    def close(self) -> None:
        """Wait for the end of a dismissed one; killed when it does not end within ten seconds of its last teardown."""
        with contextlib.suppress(WorkerDied, subprocess.TimeoutExpired):
            if self.inside is not None:
                self._expect("left", START_TIMEOUT_S)
            self._process.wait(timeout=_EXIT_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """End it now, its process group included."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._channel.close()
        self._drain.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        self._channel.tick()
        try:
            self._channel.send(message)
        except OSError as error:
            raise self._death() from error

    def _expect(self, event: str, timeout_s: float) -> None:
        answer = self._receive(timeout_s)
        if answer.get("event") != event:
            raise WorkerDied("crash", str(answer.get("reason", answer)))

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        while not self._channel.poll(_POLL_S):
            if self._drain.count > MAX_PRINTED_BYTES:
                self._end()
                raise WorkerDied("wrong", f"printed more than {MAX_PRINTED_BYTES // 2**20} MB")
            if self._channel.idle_s() > timeout_s:
                self._end()
                raise WorkerDied("timeout", f"no progress for {timeout_s:g} s")
        try:
            answer = self._channel.receive()
        except (EOFError, OSError, ValueError) as error:
            raise self._death() from error
        if self._drain.count > MAX_PRINTED_BYTES:
            raise WorkerDied("wrong", f"printed more than {MAX_PRINTED_BYTES // 2**20} MB")
        return answer

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _death(self) -> WorkerDied:
        try:
            status = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return WorkerDied("crash", "closed its pipe")
        if status < 0:
            return WorkerDied("crash", f"killed by {signal.Signals(-status).name}")
        said = self._drain.tail().strip().splitlines()
        return WorkerDied("crash", f"exited with status {status}" + (f": {said[-1][:300]}" if said and status else ""))


class _Drain(threading.Thread):
    """Reads what the worker prints, keeps the tail, counts the rest."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="compileiq-drain")
        self._read_fd, self.write_fd = os.pipe()
        self._tail = b""
        self.count = 0

    def start(self) -> None:
        os.close(self.write_fd)
        super().start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(self._read_fd, 1 << 16):
                self.count += len(chunk)
                self._tail = (self._tail + chunk)[-4096:]

    def reset(self) -> None:
        """Count anew."""
        self.count = 0

    def tail(self) -> str:
        """The end of what was printed."""
        self.join(timeout=1)
        return self._tail.decode(errors="replace")

    def close(self) -> None:
        """Stop reading; a process that still holds the pipe is on its own."""
        self.join(timeout=1)
        if not self.is_alive():
            os.close(self._read_fd)


def _worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in environment.items() if not key.startswith(("PYTEST_XDIST_", "COV_"))}
    kept.pop("PYTEST_ADDOPTS", None)
    return kept | {"PYTHONUNBUFFERED": "1"}
