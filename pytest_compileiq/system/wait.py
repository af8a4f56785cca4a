"""Waiting: for a moment, or for a lock that another process holds, which is told."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pytest_compileiq.system.files import locked

TOLD_S = (3.0, 30.0, 300.0)  # seconds of waiting, in one piece or in many, after which it is told
_LONGEST_COMMAND = 120


class Timer:
    """This machine's time in seconds from any start; tests have one in which a wait takes none."""

    def now(self) -> float:
        """The time, which never goes back."""
        return time.monotonic()

    def wait_until(self, moment: float) -> None:
        """Return at ``moment``, or at once if it is over."""
        time.sleep(max(0.0, moment - self.now()))

    def spaced(self, numbers: Iterable[int], every_s: float) -> Iterator[int]:
        """Each of ``numbers``, at least ``every_s`` after the one before."""
        moment = self.now()
        for number in numbers:
            self.wait_until(moment)
            moment = self.now() + every_s
            yield number


class ToldWait:
    """Holds locks of this machine in turn with other processes. Safe to use from several threads."""

    def __init__(self, say: Callable[[str], object] = lambda _: None) -> None:
        self.waited_s = 0.0  # seconds that were spent waiting so far
        self._say = say
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def holding(self, path: Path, what: str) -> Iterator[None]:
        """Hold the lock on ``path``, of ``what``, say ``the processor``; raises as ``locked`` does."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locked(path, wait=False))
            except BlockingIOError:
                self._wait(held, path, what)
            yield

    def _wait(self, held: contextlib.ExitStack, path: Path, what: str) -> None:
        began, before = time.monotonic(), self.waited_s
        timers = [threading.Timer(told - before, self._tell, (path, what, told)) for told in TOLD_S if told > before]
        for timer in timers:
            timer.daemon = True
            timer.start()
        try:
            held.enter_context(locked(path))
        finally:
            for timer in timers:
                timer.cancel()
            with self._lock:
                self.waited_s += time.monotonic() - began

    def _tell(self, path: Path, what: str, waited_s: float) -> None:
        self._say(wait_text(waited_s, what, holder_of(path)))


def wait_text(waited_s: float, what: str, holder: str) -> str:
    """A wait in a sentence: for ``the processor``, say, which ``holder`` measures on."""
    return f"waited {waited_s:.0f} s for {what}, one measurement at a time: {holder} measures on it"


def holder_of(path: Path) -> str:
    """Which process holds the lock on ``path``, in words, as Linux tells it; see proc(5) on ``/proc/locks``."""
    with contextlib.suppress(OSError):
        inode = str(path.stat().st_ino)
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode:
                return f"process {words[4]} ({_command_of(words[4])})"
    return "another process"


def _command_of(pid: str) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "of another user or container"
    return " ".join([Path(words[0]).name, *words[1:]]).strip()[:_LONGEST_COMMAND]
