"""Watches and locks the GPU that a body launches on, and tells whose the processes are that compute there.

They are ours, others' that this ``/proc`` knows, or others' that it does not. NVML may number processes as the host
does, whatever the namespace of this one, as it does below some container runtimes; or list nothing at all there. A
neighbour that cannot be told from ourselves counts as one of ours only as long as there are enough of us.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import LockClocks
from pytest_compileiq.samples import ClockReading
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.files import is_in_container, is_lock_dir_given, locked_in_turn, machine_lock
from pytest_compileiq.system.wait import TOLD_S, holder_of, wait_text
from pytest_compileiq.system.watchdog import descendants, of_each_process, parent_of
from pytest_compileiq.timing.cuda_context import INSTALL, current_uuid, holds_context
from pytest_compileiq.timing.nvml import (
    GpuState,
    Settled,
    base_clock_mhz,
    hardware_slowdown,
    locked_clocks,
    read_clocks,
    settle,
    snapshot,
    why_not_held,
)
from pytest_compileiq.timing.sampler import Disturbance, Watch

_DRIVER = b"libcuda.so"


@dataclass(frozen=True)
class Family:
    """The processes of one run as one of its workers sees them."""

    own: int  # this process
    holds_context: bool  # whether it computes on the GPU, so that NVML ought to list it
    root: int  # the process whose descendants are ours, and its ancestors too
    lineage: Callable[[int], Sequence[int]]  # a process, its parent and so on; empty where /proc does not know it
    on_gpu: Callable[[], int]  # how many of us compute on a GPU, at most

    @classmethod
    def of_worker(cls, *, holds_context: bool, parent_holds_context: bool) -> Family:
        """This process, its parent, and all that the parent has started."""
        root = os.getppid()

        def on_gpu() -> int:
            parents = {pid: parent_of(stat) for pid, stat in of_each_process("stat")}
            return parent_holds_context + sum(map(_has_driver, descendants(root, parents)))

        return cls(os.getpid(), holds_context, root, lambda pid: tuple(_lineage(pid)), on_gpu)


@dataclass(frozen=True)
class Neighbours:
    """Who else computes on a GPU."""

    known: tuple[int, ...] = ()  # pids of others, as this /proc numbers them
    unknown: int = 0  # how many more there are at least, which this /proc does not know
    among: tuple[int, ...] = ()  # the pids, as NVML numbers them, that the unknown ones are among
    visible: bool = True  # whether NVML shows processes here; if not, there may be neighbours all the same
    is_listed: bool = True  # whether NVML shows this process, if it computes there, under its own number

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
        pid = parent_of(stat)


def _has_driver(pid: int) -> bool:
    """Whether a process has loaded the CUDA driver, without which it computes on no GPU."""
    with contextlib.suppress(OSError):
        return _DRIVER in Path(f"/proc/{pid}/maps").read_bytes()
    return False


SHARED = "other containers may measure on this GPU at the same time: set ACF_LOCK_DIR to a directory that they share"
_UNSEEN = (
    "NVML does not show which processes compute on this GPU, so that nobody would see a neighbour: in a container, "
    "share the host's process ids (--pid=host)"
)


class GpuWatch(Watch):
    """Watches the GPU in use from the first ``before`` on."""

    def __init__(
        self, waiting: Callable[[], object], *, parent_holds_context: bool, lock_clocks: LockClocks = None
    ) -> None:
        self._waiting = waiting
        self._parent_holds_context = parent_holds_context
        self._lock_clocks = lock_clocks
        self._held = ExitStack()
        self._uuid: str | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def before(self) -> None:
        if self._uuid is None:
            self._uuid = current_uuid()
            try:
                self._hold(self._uuid)
            except EnvironmentFault as error:
                raise Disturbance(str(error)) from error
        self._look(self._uuid)

    def settle(self, load: Callable[[], object]) -> Settled | None:
        if self._uuid is None:
            return None
        settled = settle(load, functools.partial(read_clocks, self._uuid))
        if settled.settled is False:
            self._remark(f"the GPU's clocks were not steady after {settled.seconds:.1f} s of load")
        if self.locked_mhz is not None:
            self._remark(why_not_held(self.locked_mhz, settled))
        return settled

    def after_slot(self) -> ClockReading | None:
        return read_clocks(self._uuid) if self._uuid else None

    def after_quad(self) -> str | None:
        return hardware_slowdown(self._look(self._uuid)) if self._uuid else None

    def _look(self, uuid: str) -> GpuState:
        seen = snapshot(uuid)
        if seen is None:
            raise Disturbance(
                f"NVML does not show {uuid}, and so nobody sees what disturbs it: {INSTALL}, and a driver"
            )
        family = Family.of_worker(holds_context=holds_context(), parent_holds_context=self._parent_holds_context)
        found = neighbours(seen.compute_pids, family)
        is_shared = is_in_container() or not found.is_listed
        self._remark(None if found.visible else _UNSEEN, SHARED if is_shared and not is_lock_dir_given() else None)
        if others := str(found):
            raise Disturbance(f"other processes compute on the GPU: {others}")
        return seen

    def _hold(self, uuid: str) -> None:
        lock, began, holder = machine_lock(f"device {uuid}"), time.monotonic(), ""

        def waiting() -> None:
            nonlocal holder
            holder = holder_of(lock)
            self._waiting()

        self._held.enter_context(locked_in_turn(lock, waiting))
        if holder and (waited_s := time.monotonic() - began) >= TOLD_S[0]:
            self._remark(wait_text(waited_s, "the GPU", holder))
        if self._lock_clocks is not None:
            self.locked_mhz = base_clock_mhz(uuid) if self._lock_clocks == "base" else self._lock_clocks
            self._held.enter_context(locked_clocks(uuid, self.locked_mhz))

    def _remark(self, *sentences: str | None) -> None:
        self.remarks = tuple(dict.fromkeys((*self.remarks, *filter(None, sentences))))
