"""Clocks and devices by the name that a toolchain gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import L2, Arm, Launch, LockClocks
from pytest_compileiq.timing.clock import Clock, CpuClock, Device, Measures, capability, cpu_device
from pytest_compileiq.timing.sampler import Watch, blame

Call = Callable[[], object]


def make_clock(kind: str, metric: str, calls: Mapping[Arm, Call], *, l2: L2, launch: Launch | None) -> Clock:
    """The clock that takes ``metric`` (``runtime`` or ``energy``) of ``calls``, which run on a device of ``kind``.

    On a GPU it makes these calls, to see how they launch: from then on ``once`` is one call.

    Args:
        l2: whether each call finds the GPU's cache cold.
        launch: how the calls are launched on a GPU; by default in a graph, wherever that does the same.

    Raises:
        EnvironmentFault: this machine has none.
        CannotMeasure: a call cannot be timed on a GPU.
        ArmError: a call raised when it was looked at.
    """
    if kind == "cpu":
        if metric == "energy":
            raise EnvironmentFault(why_no_energy(kind) or "")
        return CpuClock()
    from pytest_compileiq.timing.cuda import CudaClock, CudaEnergy  # heavy: the CUDA driver
    from pytest_compileiq.timing.launching import choose_launching

    launching = choose_launching(calls, launch)
    clock = CudaEnergy(launching) if metric == "energy" else CudaClock(launching, l2=l2)
    for arm, call in calls.items():  # what captures a graph makes one call more: here nobody looks at what it wrote
        with blame(arm):
            clock.once(call)
    return clock


class Untimed(CpuClock):
    """Calls as nobody times them, on a device of ``kind``."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def once(self, call: Call) -> object:
        value = call()
        if self._kind != "cpu":
            from pytest_compileiq.timing.cuda import finish

            with suppress(EnvironmentFault):
                finish()
        return value


@lru_cache(maxsize=4)
def why_no_energy(kind: str) -> str | None:
    """Why this machine cannot measure the energy of kernels of ``kind``, or None when it can."""
    if kind == "cpu":
        return "no counter of this processor's energy is read"
    from pytest_compileiq.timing.nvml import snapshot  # heavy: NVML

    seen = snapshot()
    return None if seen is not None and seen.energy_mj is not None else "NVML counts no energy here"


@lru_cache(maxsize=4)
def find_device(kind: str) -> Device:
    """The device that this machine would measure kernels of ``kind`` on.

    Raises:
        EnvironmentFault: it has none.
    """
    if kind == "cpu":
        return cpu_device()
    from pytest_compileiq.timing.cuda import cuda_device

    return cuda_device()


def find_device_or_none(kind: str) -> Device | None:
    """``find_device``, or None where this machine has none."""
    try:
        return find_device(kind)
    except EnvironmentFault:
        return None


def measures(kind: str) -> Measures | None:
    """What this machine measures kernels of ``kind`` on; None where it has none."""
    device = find_device_or_none(kind)
    return None if device is None else Measures(device, why_no_energy(kind))


def is_poisoned(kind: str) -> bool:
    """Whether an error has made the device useless to this process; another process is not affected."""
    if kind == "cpu":
        return False
    from pytest_compileiq.timing.cuda import context_is_poisoned

    return context_is_poisoned()


def holds_context(kind: str) -> bool:
    """Whether this process computes on the device of ``kind``, for kinds whose driver counts processes."""
    if kind == "cpu":
        return False
    from pytest_compileiq.timing.cuda_context import holds_context as holds_cuda_context

    return holds_cuda_context()


def watch_of(
    kind: str, waiting: Callable[[], object], *, parent_holds_context: bool, lock_clocks: LockClocks = None
) -> Watch:
    """What watches the device of ``kind`` for one block, and keeps others that measure off it."""
    if kind == "cpu":
        return Watch()
    from pytest_compileiq.timing.gpu_watch import GpuWatch  # heavy: NVML

    return GpuWatch(waiting, parent_holds_context=parent_holds_context, lock_clocks=lock_clocks)


def why_not_here(kind: str, architecture: str) -> str | None:
    """Why this machine's device does not run machine code for ``architecture``, or None when it does."""
    try:
        device = find_device(kind)
    except EnvironmentFault as error:
        return str(error)
    if runs(device.architecture, architecture):
        return None
    return f"it is compiled for {architecture}; this machine has {device.name} ({device.architecture})"


def runs(device: str, code: str) -> bool:
    """Whether a device of compute capability ``device`` (``sm_90a``) runs a cubin for ``code``."""
    # A plain cubin runs on its major version from its minor version on, one for `a` on exactly its own architecture,
    # one for `f` within the family (CUDA C++ Programming Guide, "Feature Set Compiler Targets").
    have, want = capability(device), capability(code)
    if code.endswith("a"):
        return have == want
    return have[0] == want[0] and have[1] >= want[1]
