"""What a program prints, read until it has ended: all that was written, the last part of it kept."""

from __future__ import annotations

import os
import selectors
import time
from collections import deque
from typing import Protocol

TAIL_BYTES = 64 * 1024

_CHUNK_BYTES = 64 * 1024
_PIPE_BYTES = 1024 * 1024  # more than a pipe holds, whatever the size of a page
_SHORTEST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.05


class End(Protocol):
    """The end of a program."""

    @property
    def descriptor(self) -> int:
        """Readable once the program has ended; -1 where there is none."""
        ...

    def has_come(self) -> bool:
        """Whether it has ended."""
        ...


class Tail:
    """The last ``limit`` bytes of a stream, in about that much memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._held = 0

    def add(self, chunk: bytes) -> None:
        """Take in what comes next."""
        self._chunks.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._chunks[0]) >= self._limit:
            self._held -= len(self._chunks.popleft())

    def text(self) -> str:
        """All that is kept; what cannot be decoded is replaced."""
        return b"".join(self._chunks)[-self._limit :].decode(errors="replace")


def drain(pipe: int, tail: Tail, end: End, *, deadline: float) -> bool:
    """Read ``pipe`` until the program has ended; False if the deadline, of the monotonic clock, comes first."""
    pause_s = _SHORTEST_PAUSE_S
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        if end.descriptor >= 0:
            selector.register(end.descriptor, selectors.EVENT_READ)
        is_open = True
        while (remaining_s := deadline - time.monotonic()) > 0:
            # Without a descriptor of the process it is asked after: most end within a millisecond of their output.
            longest_s = _LONGEST_PAUSE_S if is_open or end.descriptor >= 0 else pause_s
            ready = {key.fd for key, _ in selector.select(min(remaining_s, longest_s))}
            if pipe in ready:
                if chunk := os.read(pipe, _CHUNK_BYTES):
                    tail.add(chunk)
                else:
                    selector.unregister(pipe)
                    is_open = False
            elif end.has_come():  # even with the pipe open: a daemon left behind may hold it for ever
                if is_open and any(key.fd == pipe for key, _ in selector.select(0)):  # it wrote after the look above
                    tail.add(os.read(pipe, _PIPE_BYTES))
                return True
            elif not is_open:
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return False
