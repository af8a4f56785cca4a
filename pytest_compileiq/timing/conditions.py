"""What surrounds a measurement on this machine: other processes, the frequency governor, variables that libraries read.

Sources of the last: the OpenMP specification and libgomp's manual, "The GNU C Library" on tunables and ``ld.so(8)``,
and the "CUDA C++ Programming Guide" on CUDA's environment variables.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_compileiq.model import LONGEST_TEXT
from pytest_compileiq.system.files import text_of
from pytest_compileiq.system.printing import harmless
from pytest_compileiq.system.watchdog import descendants, of_each_process

_BUSY = 0.5  # the load of each core beside the one that measures
_WINDOW_S = 0.1


def cpu_conditions(system: Path = Path("/sys/devices/system/cpu")) -> list[str]:
    """One sentence of advice for each disturbance; empty where nothing is wrong or nothing can be read."""
    sentences = busy_machine()
    governor = text_of(system / "cpu0/cpufreq/scaling_governor")
    if governor and governor != "performance":
        sentences.append(f"the frequency governor is {governor!r}: cpupower frequency-set -g performance")
    if text_of(system / "intel_pstate/no_turbo") == "0" or text_of(system / "cpufreq/boost") == "1":
        sentences.append("the clock may boost, and then falls with heat: turn boost off while you measure")
    return sentences


def busy_machine() -> list[str]:
    """A sentence of advice where others keep this machine's cores busy; empty where they do not."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    # The load average costs nothing to read, but includes this run's own builds and workers.
    if load <= 1 + _BUSY * (cores - 1) or (others := others_in(_WINDOW_S)) is None:
        return []
    if others.cores <= _BUSY * max(1, cores - 1):
        return []
    names = f" ({harmless(', '.join(others.names))})" if others.names else ""
    return [f"other processes{names} keep {others.cores:.1f} of {cores} cores busy: stop them"]


# ── processor time of other processes: all but this one and its descendants ──────────────────────────────────────

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
    parents = {pid: process.parent for pid, process in after.processes.items()}
    ours = {own, *descendants(own, parents)} & parents.keys()
    none = Process(0, "", 0, 0)
    used = {pid: each.own - before.processes.get(pid, none).own for pid, each in after.processes.items()}
    reaped = sum(after.processes[pid].children - before.processes.get(pid, none).children for pid in ours)
    rest = after.busy - before.busy - sum(used[pid] for pid in ours) - max(0, reaped)
    most = sorted((pid for pid, took in used.items() if took > 0 and pid not in ours), key=lambda pid: -used[pid])
    names = dict.fromkeys(after.processes[pid].name for pid in most)
    return Others(max(0.0, rest / ticks), tuple(names)[:_MOST_NAMED])


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


# ── the environment of a run, which is part of a claim ───────────────────────────────────────────────────────────

_FAMILIES = ("OMP_", "GOMP_", "KMP_", "MALLOC_", "MKL_", "OPENBLAS_", "BLIS_")
_NAMES = frozenset(
    ("GLIBC_TUNABLES", "LD_PRELOAD", "LD_BIND_NOW", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING",
     "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_FORCE_PTX_JIT")
)  # fmt: skip
_OF_THREADPOOLCTL = ("KMP_INIT_AT_FORK", "KMP_DUPLICATE_LIB_OK")  # which a search imports, and which sets them


def run_environment() -> dict[str, str]:
    """Name → value of those that are set here, sorted; of files that are preloaded the names alone."""
    own = (name for name in sorted(os.environ) if name not in _OF_THREADPOOLCTL)
    read = (name for name in own if name in _NAMES or name.startswith(_FAMILIES))
    return {name: _recorded(name, os.environ[name]) for name in read if os.environ[name]}


def _recorded(name: str, value: str) -> str:
    preloaded = value.replace(":", " ").split()
    return (" ".join(PurePath(file).name for file in preloaded) if name == "LD_PRELOAD" else value)[:LONGEST_TEXT]
