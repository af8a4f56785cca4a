"""Processor time of other processes: all but this one and its descendants."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.system.watchdog import of_each_process

_IDLE, _IO_WAIT = 3, 4  # columns of /proc/stat
_MOST_NAMED = 2


@dataclass(frozen=True)
class Process:
    """One process. ``own`` and ``children`` (those waited for) are processor time in ticks."""

    parent: int
    name: str
    own: int
    children: int


@dataclass(frozen=True)
class ProcessorTimes:
    """Processor time since boot, in ticks, and the visible processes by id."""

    busy: int  # all cores together, including other containers and time stolen by the host
    processes: Mapping[int, Process]


@dataclass(frozen=True)
class Others:
    """The number of cores kept busy by other processes, and the names of the busiest visible ones."""

    cores: float
    names: tuple[str, ...]


def others_in(window_s: float) -> Others | None:
    """Measure other processes for ``window_s`` seconds; None without ``/proc/stat``."""
    before, begun = _snapshot(), time.monotonic()
    time.sleep(window_s)
    after, elapsed_s = _snapshot(), time.monotonic() - begun
    if before is None or after is None:
        return None
    return others_between(before, after, elapsed_s * os.sysconf("SC_CLK_TCK"), os.getpid())


def others_between(before: ProcessorTimes, after: ProcessorTimes, ticks: float, own: int) -> Others:
    """Subtract the process ``own`` and its descendants from two snapshots, ``ticks`` apart."""
    ours = _tree(after.processes, own)
    none = Process(0, "", 0, 0)
    used = {pid: each.own - before.processes.get(pid, none).own for pid, each in after.processes.items()}
    reaped = sum(after.processes[pid].children - before.processes.get(pid, none).children for pid in ours)
    rest = after.busy - before.busy - sum(used[pid] for pid in ours) - max(0, reaped)
    most = sorted((pid for pid, took in used.items() if took > 0 and pid not in ours), key=lambda pid: -used[pid])
    names = dict.fromkeys(after.processes[pid].name for pid in most)
    return Others(max(0.0, rest / ticks), tuple(names)[:_MOST_NAMED])


def _tree(processes: Mapping[int, Process], root: int) -> set[int]:
    tree: set[int] = set()
    found = {root} & processes.keys()
    while found:
        tree |= found
        found = {pid for pid, process in processes.items() if process.parent in found} - tree
    return tree


def _snapshot() -> ProcessorTimes | None:
    try:
        columns = [int(text) for text in Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    busy = sum(columns) - columns[_IDLE] - columns[_IO_WAIT]
    return ProcessorTimes(busy, {pid: _process(stat) for pid, stat in of_each_process("stat")})


def _process(stat: bytes) -> Process:
    """Parse ``/proc/PID/stat``, proc(5): the name is in parentheses, and may hold any byte."""
    head, _, rest = stat.rpartition(b")")
    fields = rest.split()
    user, system, children_user, children_system = map(int, fields[11:15])
    name = head.partition(b"(")[2].decode(errors="replace")
    return Process(int(fields[1]), name, user + system, children_user + children_system)
