"""Children whose end is known, also in a process that ignores SIGCHLD.

Where that is so, which a fixture may do and a parent hands on, the kernel keeps no exit status: ``waitid`` fails with
"No child processes", ``subprocess`` takes that for success, and a compiler that inherits it fails in the same way.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


class _Awaited:
    """How many ask for it at the moment; the signal is the whole process's."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal's handler may start programs while this thread is in here
        self.open = 0


_awaited = _Awaited()


@contextlib.contextmanager
def awaited() -> Iterator[None]:
    """Do not ignore SIGCHLD, in any thread; afterwards it is ignored again if it was. A handler stays as it is."""
    with _awaited.lock:
        _awaited.open += 1
        if _is_ignored():
            _become(signal.SIG_DFL)
    try:
        yield
    finally:
        with _awaited.lock:
            _awaited.open -= 1
            if not _awaited.open and _is_ignored():
                _become(signal.SIG_IGN)


def _is_ignored() -> bool:
    """Whether the program wants it ignored: what Python was told, or found at its start, which ``_become`` spares."""
    return signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN


def _become(handler: signal.Handlers) -> None:
    import ctypes  # heavy, and hardly any process ignores it

    # Python's own is for the main thread alone.
    ctypes.CDLL(None).signal(int(signal.SIGCHLD), ctypes.c_void_p(int(handler)))
