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
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

RUN_TOKEN_VARIABLE = "PYTEST_COMPILEIQ_RUN"

_CHECK_S = 5.0
_ROUND_PAUSE_S = 0.02
_GIVE_UP_S = 30.0


def carriers(token: str) -> list[int]:
    """Ids of live processes that started with ``token`` in their environment, even after double forks and ``setsid``.

    Empty on systems without ``/proc``. Zombies have no environment, so they are not listed.
    """
    wanted = f"{RUN_TOKEN_VARIABLE}={token}".encode()
    return sorted(pid for pid, environ in of_each_process("environ") if wanted in environ.split(b"\0"))


def of_each_process(name: str) -> Iterator[tuple[int, bytes]]:
    """Id and content of ``/proc/PID/NAME`` of each readable process; nothing on systems other than Linux."""
    try:
        # No glob: listing the directory of an ended process fails with ESRCH, which it does not treat as absence.
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


def parent_of(stat: bytes) -> int:
    """The parent in the content of ``/proc/PID/stat``, whose name in parentheses may hold any byte."""
    return int(stat.rpartition(b")")[2].split()[1])


def descendants(root: int, parents: Mapping[int, int]) -> Iterator[int]:
    """Every process below ``root``, without it, by the parent of each."""
    above = {root}
    while above := {pid for pid, parent in parents.items() if parent in above}:
        yield from above


def kill_carriers(token: str, spare: Collection[int] = (), sessions: Collection[int] = ()) -> list[int]:
    """SIGKILL the carriers of ``token``, except ``spare`` and all in ``sessions``; return the ids of those killed."""
    killed: set[int] = set()
    give_up_at = time.monotonic() + _GIVE_UP_S  # a process stuck in the kernel cannot be killed
    is_over = False
    while not is_over and time.monotonic() < give_up_at:  # a process may fork between the listing and the kill
        is_over = True
        for pid in set(carriers(token)) - set(spare):
            try:
                if os.getsid(pid) in sessions:
                    continue
                is_over = False
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except ProcessLookupError:
                continue
            except PermissionError:
                spare = {*spare, pid}
        if not is_over:
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
    """Return when standard input closes or brings anything, or when the watched process, of ``pidfd``, is gone."""
    watched = [0] if pidfd < 0 else [0, pidfd]  # not the pipe alone: a fork of the process may hold it open
    while not select.select(watched, [], [], _CHECK_S)[0] and _is_alive(watched_pid):
        pass


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


if __name__ == "__main__":
    if os.fork():  # go on as a child of nobody who is watched
        os._exit(0)
    wait_for_the_end_of(int(sys.argv[2]), int(sys.argv[3]))
    kill_carriers(sys.argv[1])
    shutil.rmtree(sys.argv[4], ignore_errors=True)
