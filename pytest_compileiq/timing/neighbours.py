"""Whose the processes are that compute on a GPU: ours, others' that this ``/proc`` knows, or others' that it does not.

NVML may number processes as the host does, whatever the namespace of this one, as it does below some container
runtimes; or list nothing at all there. A neighbour that cannot be told from ourselves counts as one of ours only as
long as there are enough of us.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.watchdog import of_each_process

_DRIVER = b"libcuda.so"


@dataclass(frozen=True)
class Family:
    """The processes of one run as one of its workers sees them.

    Attributes:
        own: this process.
        holds_context: whether it computes on the GPU, so that NVML ought to list it.
        root: the process whose descendants are ours, and its ancestors too.
        lineage: a process, its parent and so on; empty where ``/proc`` does not know it.
        on_gpu: how many of us compute on a GPU, at most.
    """

    own: int
    holds_context: bool
    root: int
    lineage: Callable[[int], Sequence[int]]
    on_gpu: Callable[[], int]

    @classmethod
    def of_worker(cls, *, holds_context: bool, parent_holds_context: bool) -> Family:
        """This process, its parent, and all that the parent has started."""
        root = os.getppid()

        def on_gpu() -> int:
            return parent_holds_context + sum(map(_has_driver, _descendants(root)))

        return cls(os.getpid(), holds_context, root, lambda pid: tuple(_lineage(pid)), on_gpu)


@dataclass(frozen=True)
class Neighbours:
    """Who else computes on a GPU.

    Attributes:
        known: pids of others, as this ``/proc`` numbers them.
        unknown: how many more there are at least, which this ``/proc`` does not know.
        among: the pids, as NVML numbers them, that the unknown ones are among.
        visible: whether NVML shows processes here; if not, there may be neighbours all the same.
        is_listed: whether NVML shows this process, if it computes there, under its own number.
    """

    known: tuple[int, ...] = ()
    unknown: int = 0
    among: tuple[int, ...] = ()
    visible: bool = True
    is_listed: bool = True

    def __str__(self) -> str:
        """Who they are, in words; empty where there is nobody."""
        known = ", ".join(map(str, self.known))
        pids = f"{'pids on the host' if self.unknown == len(self.among) else 'among the pids on the host'} "
        processes = f"{quantity(self.unknown, 'process')} of another container or user"
        unknown = f"{processes} ({pids}{', '.join(map(str, self.among))})" if self.unknown else ""
        return " and ".join(filter(None, (known, unknown)))


def neighbours(listed: Collection[int] | None, family: Family) -> Neighbours:
    """Who of the processes that NVML lists is not of ``family``; ``listed`` is None where NVML does not tell."""
    if listed is None:
        return Neighbours(visible=False)
    lineages = {pid: family.lineage(pid) for pid in sorted(set(listed))}
    ancestors = family.lineage(family.root)
    known = tuple(pid for pid, line in lineages.items() if line and pid not in ancestors and family.root not in line)
    if family.own in lineages:  # its numbers are ours, so that no process of ours is unknown
        unknown = tuple(pid for pid, line in lineages.items() if not line)
        return Neighbours(known, len(unknown), unknown)
    is_listed = not family.holds_context
    # The numbers are of another namespace, in which one of us may have any.
    others = tuple(pid for pid in lineages if pid not in known)
    surplus = len(others) - family.on_gpu() if others else 0
    among = others if surplus > 0 else ()
    return Neighbours(known, max(0, surplus), among, visible=bool(lineages) or is_listed, is_listed=is_listed)


def _lineage(pid: int) -> Iterator[int]:
    """``pid``, its parent and so on, as far as this ``/proc`` knows them."""
    while pid:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return
        yield pid
        pid = _parent(stat)


def _descendants(root: int) -> Iterator[int]:
    """Every process below ``root``, without it."""
    parents = {pid: _parent(stat) for pid, stat in of_each_process("stat")}
    wanted = {root}
    while below := {pid for pid, parent in parents.items() if parent in wanted}:
        yield from below
        wanted = below


def _parent(stat: bytes) -> int:
    return int(stat.rpartition(b")")[2].split()[1])


def _has_driver(pid: int) -> bool:
    """Whether a process has loaded the CUDA driver, without which it computes on no GPU."""
    with contextlib.suppress(OSError):
        return _DRIVER in Path(f"/proc/{pid}/maps").read_bytes()
    return False
