"""Kills every process of one run, found by a token in its environment, and removes the run's folder.

Imports only the standard library, because ``pytest_compileiq.system.process.Guard`` also runs this file as a script
(``python -I -S watchdog.py TOKEN WATCHED_PID PIDFD FOLDER``) that outlives the process it watches. It is no child of
that, since Ray kills the children of a worker of its own that ends, before they could clean up after it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

RUN_TOKEN_VARIABLE = "PYTEST_COMPILEIQ_RUN"

_CHECK_S = 5.0
_ROUND_PAUSE_S = 0.02
_GIVE_UP_S = 30.0


def carriers(token: str) -> list[int]:
    """Ids of live processes that started with ``token`` in their environment, even after double forks and ``setsid``.

    Read from ``/proc/*/environ``, so the list is empty on systems other than Linux. Zombies have no environment, so
    they are not listed.
    """
    wanted = f"{RUN_TOKEN_VARIABLE}={token}".encode()
    return sorted(pid for pid, environ in of_each_process("environ") if wanted in environ.split(b"\0"))


def of_each_process(name: str) -> Iterator[tuple[int, bytes]]:
    """Id and content of ``/proc/PID/NAME`` of each readable process; nothing on systems other than Linux.

    A process may end at any step. This is no glob, because listing the directory of an ended process fails with ESRCH,
    which ``Path.exists`` does not treat as absence.
    """
    try:
        entries = list(Path("/proc").iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.isdecimal():
            try:
                content = (entry / name).read_bytes()
            except OSError:  # the process has ended, or belongs to another user
                continue
            if content:
                yield int(entry.name), content


def not_in(sessions: Collection[int], pids: Collection[int]) -> set[int]:
    """Those of ``pids`` that are alive and in none of ``sessions``."""
    outside = set()
    for pid in pids:
        try:
            if os.getsid(pid) not in sessions:
                outside.add(pid)
        except ProcessLookupError:
            continue
    return outside


def kill_carriers(token: str, spare: Collection[int] = (), sessions: Collection[int] = ()) -> list[int]:
    """SIGKILL the carriers of ``token`` until only ``spare`` is left, and return the ids of those killed.

    Processes in ``sessions`` are spared as well, even those forked meanwhile. It repeats, since a process may fork
    between the listing and the kill. It gives up after 30 s: a process stuck in the kernel cannot be killed.
    """
    killed: set[int] = set()
    give_up_at = time.monotonic() + _GIVE_UP_S
    while (living := not_in(sessions, set(carriers(token)) - set(spare))) and time.monotonic() < give_up_at:
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:
                spare = {*spare, pid}
                continue
            killed.add(pid)
        time.sleep(_ROUND_PAUSE_S)
    return sorted(killed)


@contextmanager
def pidfd_of(pid: int) -> Iterator[int]:
    """A descriptor that is readable once the process has ended; -1 where there is none."""
    try:
        pidfd = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old one; a container that forbids it; it has ended
        yield -1
        return
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def wait_for_the_end_of(watched_pid: int, pidfd: int) -> None:
    """Return when standard input closes or brings anything, or when the watched process is gone.

    It may be gone and the pipe open, since a fork of it holds it too.

    Args:
        pidfd: of the watched process, readable once it has ended; -1 where the system has none.
    """
    watched = [0] if pidfd < 0 else [0, pidfd]
    while not select.select(watched, [], [], _CHECK_S)[0] and _is_alive(watched_pid):
        pass


def _is_alive(pid: int) -> bool:
    """Whether there is such a process; a zombie, or another one with its number, counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def leave_the_parent() -> None:
    """Go on as a child of nobody who is watched."""
    if os.fork():
        os._exit(0)


if __name__ == "__main__":
    leave_the_parent()
    wait_for_the_end_of(int(sys.argv[2]), int(sys.argv[3]))
    kill_carriers(sys.argv[1])
    shutil.rmtree(sys.argv[4], ignore_errors=True)
