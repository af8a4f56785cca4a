"""Ends every process of one run, found by a token in its environment and killed without appeal, and clears up.

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
    """Live processes whose environment at their start held ``token``; survives double forks and ``setsid``.

    Reads ``/proc/*/environ``: elsewhere than on Linux the list is empty. Zombies have no environment, so they are out.
    """
    wanted = f"{RUN_TOKEN_VARIABLE}={token}".encode()
    return sorted(pid for pid, environ in of_each_process("environ") if wanted in environ.split(b"\0"))


def of_each_process(name: str) -> Iterator[tuple[int, bytes]]:
    """The content of ``/proc/PID/NAME`` for each process that can be read; none elsewhere than on Linux.

    A process may end at any step: no glob, since looking through its directory then fails with ESRCH, which
    ``Path.exists`` does not take for absence.
    """
    try:
        entries = list(Path("/proc").iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.isdecimal():
            try:
                content = (entry / name).read_bytes()
            except OSError:  # it has ended meanwhile, or belongs to another user
                continue
            if content:
                yield int(entry.name), content


def not_in(sessions: Collection[int], pids: Collection[int]) -> set[int]:
    """Those of ``pids`` that live and belong to none of ``sessions``."""
    found = set()
    for pid in pids:
        try:
            if os.getsid(pid) not in sessions:
                found.add(pid)
        except ProcessLookupError:
            continue
    return found


def kill_carriers(token: str, spare: Collection[int] = (), sessions: Collection[int] = ()) -> list[int]:
    """SIGKILL the carriers of ``token`` until none but ``spare`` is left, and return those that were killed.

    Whatever belongs to one of ``sessions`` is spared too, since that may fork at any time.
    Repeats, since a process can fork between the look and the kill. Gives up after 30 s: a process stuck in the
    kernel cannot be killed.
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


def _wait_for_the_end_of(parent_pid: int) -> None:
    """Return when standard input closes, or when the parent is gone though a fork of it still holds the pipe."""
    while os.getppid() == parent_pid:
        readable, _, _ = select.select([0], [], [], _PARENT_CHECK_S)
        if readable and not os.read(0, 1):
            return


if __name__ == "__main__":
    _wait_for_the_end_of(int(sys.argv[2]))
    kill_carriers(sys.argv[1])
    shutil.rmtree(sys.argv[3], ignore_errors=True)
