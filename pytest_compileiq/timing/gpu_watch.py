"""Watches the GPU that a body launches on, whichever of the visible ones that is, and locks it meanwhile."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import LockClocks
from pytest_compileiq.samples import ClockReading
from pytest_compileiq.system.files import is_in_container, is_lock_dir_given, locked_in_turn, machine_lock
from pytest_compileiq.system.told_wait import TOLD_S, holder_of, wait_text
from pytest_compileiq.timing.clock_lock import base_clock_mhz, locked_clocks
from pytest_compileiq.timing.clocks import Settled, read_clocks, settle, why_not_held
from pytest_compileiq.timing.cuda_context import INSTALL, current_uuid, holds_context
from pytest_compileiq.timing.neighbours import Family, Neighbours, neighbours
from pytest_compileiq.timing.nvml import GpuState, hardware_slowdown, snapshot
from pytest_compileiq.timing.watch import Disturbance, Watch

SHARED = "other containers may measure on this GPU at the same time: set ACF_LOCK_DIR to a directory that they share"
_UNSEEN = (
    "NVML does not show which processes compute on this GPU, so that nobody would see a neighbour: in a container, "
    "share the host's process ids (--pid=host)"
)


class GpuWatch(Watch):
    """Watches the GPU in use from the first ``before`` on.

    Args:
        waiting: called again and again while another run measures on it.
        parent_holds_context: whether the process that started this one computes on a GPU too.
        lock_clocks: where to hold its clocks meanwhile.
    """

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
        """Free its clocks, and unlock it."""
        self._held.close()

    def before(self) -> None:
        """Lock it, once nobody else holds the lock, and its clocks.

        Raises:
            Disturbance: it or its clocks cannot be locked, or others compute on it all the same.
            EnvironmentFault: there is no GPU.
        """
        if self._uuid is None:
            self._uuid = current_uuid()
            try:
                self._hold(self._uuid)
            except EnvironmentFault as error:
                raise Disturbance(str(error)) from error
        self._look(self._uuid)

    def settle(self, load: Callable[[], object]) -> Settled | None:
        """Keep it busy until its clocks are steady, and remark where they are not, or not where they are held."""
        if self._uuid is None:
            return None
        settled = settle(load, functools.partial(read_clocks, self._uuid))
        if settled.settled is False:
            self._remark(f"the GPU's clocks were not steady after {settled.seconds:.1f} s of load")
        if self.locked_mhz is not None:
            self._remark(why_not_held(self.locked_mhz, settled))
        return settled

    def after_slot(self) -> ClockReading | None:
        """Its clocks now."""
        return read_clocks(self._uuid) if self._uuid else None

    def after_quad(self) -> str | None:
        """How it slowed itself down: by heat, or by a power brake.

        Raises:
            Disturbance: others compute on it.
        """
        return hardware_slowdown(self._look(self._uuid)) if self._uuid else None

    def after(self) -> None:
        """Look once more.

        Raises:
            Disturbance: others compute on it.
        """
        self.after_quad()

    def _look(self, uuid: str) -> GpuState:
        seen = snapshot(uuid)
        if seen is None:
            raise Disturbance(
                f"NVML does not show {uuid}, and so nobody sees what disturbs it: {INSTALL}, and a driver"
            )
        family = Family.of_worker(holds_context=holds_context(), parent_holds_context=self._parent_holds_context)
        found = neighbours(seen.compute_pids, family)
        self._remark(*_unseen(found))
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


def _unseen(found: Neighbours) -> tuple[str, ...]:
    """What cannot be seen of others on the GPU, or kept off it."""
    unseen = () if found.visible else (_UNSEEN,)
    is_shared = is_in_container() or not found.is_listed
    return (*unseen, SHARED) if is_shared and not is_lock_dir_given() else unseen
