"""Workers as processes of this machine, each in a session of its own; the guard ends them with the run.

What a worker prints goes to a bounded drain, never to the user's terminal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import msgspec

from pytest_compileiq.system.files import machine_lock
from pytest_compileiq.system.process import Guard, awaited
from pytest_compileiq.system.wait import ToldWait
from pytest_compileiq.timing.clock import cpu_device
from pytest_compileiq.workers.messages import Answer, Channel, Order, Start, decode_answer
from pytest_compileiq.workers.transport import Connection, WorkerDied

MAX_PRINTED_BYTES = 8 * 1024 * 1024
_POLL_S = 0.05


@dataclass(frozen=True)
class LocalTransport:
    """Starts workers here."""

    root: Path  # the project's root, which the paths of the messages are relative to
    guard: Guard  # ends every process of the run with the run
    builds: Path  # where the run's builds are
    wait: ToldWait = field(default_factory=ToldWait)  # for the processor, which one run at a time measures on
    devices: ClassVar[int] = 1

    def launch(self, start: Start, number: int) -> LocalConnection:
        return LocalConnection(start, self.root, self.builds, self.guard)

    def alone(self, number: int, kinds: Sequence[str]) -> AbstractContextManager[None]:
        return alone_here(kinds, self.wait)  # a run without a cluster has one conversation at a time

    def refuse(self, number: int, reason: str) -> WorkerDied:
        return WorkerDied("wrong", reason)  # never asked for: this machine is like itself

    def sweep(self, spared: Collection[Connection] = ()) -> None:
        self.guard.sweep(frozenset(line.pid for line in spared if isinstance(line, LocalConnection)))


@contextlib.contextmanager
def alone_here(kinds: Sequence[str], wait: ToldWait) -> Iterator[None]:
    """Hold the processor's lock, which all users of this machine share; a GPU's is its worker's to hold."""
    lock = machine_lock(f"device {cpu_device().name}")
    with wait.holding(lock, "the processor") if "cpu" in kinds else contextlib.nullcontext():
        yield


class LocalConnection:
    """One worker process. Not thread-safe: one conversation at a time."""

    is_outdated: ClassVar[bool] = False
    shares_files: ClassVar[bool] = True

    def __init__(self, start: Start, root: Path, builds: Path, guard: Guard) -> None:
        self._drain = _Drain()
        with tempfile.TemporaryFile() as progress:
            progress.write(bytes(8))  # on a full disk, writing to a hole in the file would end the process
            progress.flush()
            down_read, down_write = os.pipe()
            up_read, up_write = os.pipe()
            passed = (down_read, up_write, progress.fileno())
            self._channel = Channel[Answer](decode_answer, up_read, down_write, progress.fileno())
            with awaited():
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "pytest_compileiq.workers.worker_plugin", root, builds, *map(str, passed)],
                    stdin=subprocess.DEVNULL, stdout=self._drain.write_fd, stderr=subprocess.STDOUT,
                    env=guard.marked(start.environment), pass_fds=passed, start_new_session=True,
                )  # fmt: skip
        os.close(down_read)
        os.close(up_write)
        self._drain.start()
        try:
            self.send(msgspec.structs.replace(start, environment={}))
        except WorkerDied:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, order: Order) -> None:
        self._drain.reset()
        try:
            self._channel.send(order)
        except OSError as error:
            raise self._death() from error

    def receive(self, timeout_s: float) -> Answer:
        while not self._channel.poll(_POLL_S):
            self._expect_little_printed()
            if self._channel.idle_s() > timeout_s:
                self._end()
                raise WorkerDied("timeout", f"no progress for {timeout_s:g} s; see timeout_s")
        try:
            answer = self._channel.receive()
        except (EOFError, OSError, ValueError) as error:
            raise self._death() from error
        self._expect_little_printed()
        return answer

    def bring(self, build: Path) -> None:
        """Nothing: it is there."""

    def close(self, wait_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=wait_s)
        self.kill()

    def kill(self) -> None:
        self._end()
        self._process.wait()
        self._channel.close()
        self._drain.close()

    def _expect_little_printed(self) -> None:
        if self._drain.count > MAX_PRINTED_BYTES:
            self._end()
            raise WorkerDied("wrong", f"printed more than {MAX_PRINTED_BYTES // 2**20} MB")

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
