"""Messages over a pair of pipes, and the time of the last progress in shared memory.

A watcher reads that time without asking the worker, so that watching costs a sample nothing.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from pytest_compileiq.workers.messages import Answer, Order, encode

_MOST_BYTES = 1 << 28
Received = TypeVar("Received")


class Channel(Generic[Received]):
    """One end; ``decode`` reads what the other end sends."""

    def __init__(self, decode: Callable[[bytes], Received], read_fd: int, write_fd: int, progress_fd: int) -> None:
        self._read = Connection(read_fd, writable=False)
        self._write = Connection(write_fd, readable=False)
        self._progress = mmap.mmap(progress_fd, 8)
        self._decode = decode

    def send(self, message: Order | Answer) -> None:
        """Send one message, which is progress.

        Raises:
            OSError: the other end is gone.
        """
        self.tick()
        self._write.send_bytes(encode(message))

    def poll(self, timeout_s: float) -> bool:
        """Whether a message (or the end of the pipe) is there within ``timeout_s``."""
        return self._read.poll(timeout_s)

    def receive(self) -> Received:
        """The next message.

        Raises:
            EOFError, OSError: the other end is gone.
            ValueError: what came is no message.
        """
        return self._decode(self._read.recv_bytes(maxlength=_MOST_BYTES))

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
