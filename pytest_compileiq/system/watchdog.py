"""Kills every process of one run, found by a token in its environment, and removes the run's folder.

Imports only the standard library, because ``pytest_compileiq.system.process.Guard`` also runs this file as a script
(``python -I -S watchdog.py TOKEN PARENT_PID FOLDER``) that outlives the pytest process it watches.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

RUN_TOKEN_VARIABLE = "PYTEST_COMPILEIQ_RUN"

_PARENT_CHECK_S = 5.0
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


def wait_for_the_end_of(parent_pid: int) -> None:
    """Return when standard input closes or brings anything, or when the parent is gone.

    The parent may be gone and the pipe open, since a fork of it holds it too.
    """
    while os.getppid() == parent_pid:
        readable, _, _ = select.select([0], [], [], _PARENT_CHECK_S)
        if readable:
            return


if __name__ == "__main__":
    wait_for_the_end_of(int(sys.argv[2]))
    kill_carriers(sys.argv[1])
    shutil.rmtree(sys.argv[3], ignore_errors=True)
