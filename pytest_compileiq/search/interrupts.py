"""Ctrl-C while a search is under way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noting_interrupts(note: Callable[[], None]) -> Iterator[None]:
    """Note a Ctrl-C as well as raising it: an exception that is raised within a destructor is lost."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        note()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # no other thread may set a handler
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
