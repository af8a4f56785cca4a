"""Clocks and devices by the name that a toolchain gives."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.timing.base import Clock, Device, capability
from pytest_compileiq.timing.cpu import CpuClock, cpu_device


def make_clock(kind: str, metric: str, *, l2: Literal["flush", "warm"], graph: bool) -> Clock:
    """The clock that takes ``metric`` (``runtime`` or ``energy``) of kernels of ``kind``; the options are for GPUs.

    Raises:
        EnvironmentFault: this machine has none.
    """
    if kind == "cpu":
        if metric == "energy":
            raise EnvironmentFault(why_no_energy(kind) or "")
        return CpuClock()
    from pytest_compileiq.timing.cuda import CudaClock, CudaEnergy  # heavy: the CUDA driver

    return CudaEnergy(l2=l2, graph=graph) if metric == "energy" else CudaClock(l2=l2, graph=graph)


def waiting_clock(kind: str) -> Clock:
    """A clock whose ``seconds`` returns when the device has done what a call launched, for calls that are not timed.

    On a machine without the device, it only makes the call.
    """
    try:
        return make_clock(kind, "runtime", l2="warm", graph=False)
    except EnvironmentFault:
        return CpuClock()


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


def is_poisoned(kind: str) -> bool:
    """Whether an error has made the device useless to this process; another process is not affected."""
    if kind == "cpu":
        return False
    from pytest_compileiq.timing.cuda import context_is_poisoned

    return context_is_poisoned()


def lock_name(kind: str) -> str:
    """The name of the device's lock: the UUID of a GPU, since there may be several; the model of the one processor."""
    if kind == "cpu":
        return cpu_device().name
    from pytest_compileiq.timing.nvml import device_lock_name

    return device_lock_name()


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
    """Whether a device of compute capability ``device`` (``sm_90a``) runs a cubin for ``code``.

    A plain cubin runs on its own major version from its minor version on; a feature-specific one (``a``) on exactly
    its own architecture, a family-specific one (``f``) within the family (CUDA C++ Programming Guide, "Compute
    Capability and Feature Set Compiler Targets").
    """
    have, want = capability(device), capability(code)
    if code.endswith("a"):
        return have == want
    return have[0] == want[0] and have[1] >= want[1]
