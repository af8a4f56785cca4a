"""What NVML says about the GPU: clocks, throttling, power, energy, and which processes compute on it.

What a device or its driver does not support is None, never an exception.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any

# nvmlClocksEventReason*: why the clocks are not higher.
_REASONS = {
    0x01: "idle",
    0x02: "application clocks",
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
# A power cap is left out: a tuned kernel that draws more power may cause it, and then it belongs to the result.
_DISTURBING = (0x08, 0x20, 0x40, 0x80)


@dataclass(frozen=True)
class GpuState:
    """A GPU at one moment; None where NVML does not say."""

    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    throttle_reasons: tuple[str, ...] | None  # why the clocks are not higher, in words
    power_w: float | None
    temperature_c: int | None
    energy_mj: int | None  # millijoules since the driver was loaded; the counter moves every few ten milliseconds
    compute_pids: tuple[int, ...] | None


@dataclass(frozen=True)
class WholeGpu:
    """A GPU and the library that answers for it, for what ``snapshot`` does not tell or is too slow for."""

    nvml: Any  # the initialised module pynvml
    handle: Any  # NVML's handle of the whole GPU
    part: Any  # of the MIG device that is meant, else of the GPU

    def ask(self, query: str, *arguments: Any) -> Any:
        """The answer to one of NVML's queries; None where the GPU, its driver or this ``pynvml`` has none."""
        return _ask(self.nvml, query, self.handle, *arguments)

    def throttle_reasons(self) -> tuple[str, ...] | None:
        """Why the clocks are not higher, in words."""
        # By the name of 2023 or, in an older `pynvml` or above an older driver, by the one before.
        reasons = self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if reasons is None else tuple(word for bit, word in _REASONS.items() if reasons & bit)


def whole_gpu(device: int | str = 0) -> WholeGpu | None:
    """The GPU that ``device`` (as in ``snapshot``) is or is a part of, or None where NVML does not show it."""
    nvml = _library()
    if nvml is None:
        return None
    try:
        part = _find(nvml, device)
        # Clocks, heat and power limit of a MIG device are the whole GPU's.
        is_part = _ask(nvml, "nvmlDeviceIsMigDeviceHandle", part)
        whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part) if is_part else part
    except (nvml.NVMLError, LookupError):
        return None
    return WholeGpu(nvml, whole, part)


def snapshot(device: int | str = 0) -> GpuState | None:
    """The GPU as it is now, or None where NVML or the device is not available."""
    if (gpu := whole_gpu(device)) is None:
        return None
    milliwatts = _ask(gpu.nvml, "nvmlDeviceGetPowerUsage", gpu.part)
    processes = _ask(gpu.nvml, "nvmlDeviceGetComputeRunningProcesses", gpu.part)
    return GpuState(
        sm_clock_mhz=gpu.ask("nvmlDeviceGetClockInfo", gpu.nvml.NVML_CLOCK_SM),
        memory_clock_mhz=gpu.ask("nvmlDeviceGetClockInfo", gpu.nvml.NVML_CLOCK_MEM),
        throttle_reasons=gpu.throttle_reasons(),
        power_w=None if milliwatts is None else milliwatts * 1e-3,
        temperature_c=gpu.ask("nvmlDeviceGetTemperature", gpu.nvml.NVML_TEMPERATURE_GPU),
        energy_mj=_ask(gpu.nvml, "nvmlDeviceGetTotalEnergyConsumption", gpu.part),
        compute_pids=None if processes is None else tuple(process.pid for process in processes),
    )


def hardware_slowdown(seen: GpuState) -> str | None:
    """Why a quad measured around ``seen`` does not count: heat or a power brake, in words; None when it counts."""
    disturbing = {_REASONS[bit] for bit in _DISTURBING}
    return ", ".join(reason for reason in seen.throttle_reasons or () if reason in disturbing) or None


def driver_version() -> str | None:
    """``580.65.06``, or None where NVML is not available."""
    nvml = _library()
    return None if nvml is None else _ask(nvml, "nvmlSystemGetDriverVersion")


def power_limit_w(device: int | str = 0) -> float | None:
    """The power limit of ``device`` (as in ``snapshot``) in watts, or None where it is not known."""
    gpu = whole_gpu(device)
    milliwatts = None if gpu is None else gpu.ask("nvmlDeviceGetPowerManagementLimit")
    return None if milliwatts is None else milliwatts * 1e-3


def _library() -> Any:
    """The initialised module ``pynvml``, or None. Initialising again only counts a reference."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


def _ask(nvml: Any, query: str, *arguments: Any) -> Any:
    """The answer; None where the device, its driver or this ``pynvml`` has none."""
    try:
        return getattr(nvml, query)(*arguments) if hasattr(nvml, query) else None
    except nvml.NVMLError:
        return None


# ── which device: CUDA C++ Programming Guide, "CUDA Environment Variables" ───────────────────────────────────────


def _find(nvml: Any, device: int | str) -> Any:
    """NVML's handle of a UUID, or of CUDA's ``device``-th visible device."""
    if isinstance(device, str):
        return _named(nvml, device)
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    if mask is None:
        return _numbered(nvml, device)
    # The first name that names nothing hides all that follow, so each up to the wanted one has to be found.
    handles = [_named(nvml, name.strip()) for name in mask.split(",")[: device + 1]]
    if len(handles) <= device:
        raise LookupError(f"CUDA_VISIBLE_DEVICES={mask!r} shows no device {device}")
    return handles[device]


def _named(nvml: Any, name: str) -> Any:
    if name.isdecimal():
        return _numbered(nvml, int(name))
    if name.startswith("MIG-"):
        return nvml.nvmlDeviceGetHandleByUUID(name)
    # CUDA takes the beginning of a UUID for the whole one where that is enough.
    named = [gpu for gpu in _gpus(nvml) if name.startswith("GPU-") and nvml.nvmlDeviceGetUUID(gpu).startswith(name)]
    if len(named) != 1:
        raise LookupError(f"{name!r} names {len(named) or 'no'} GPUs")
    return named[0]


def _numbered(nvml: Any, number: int) -> Any:
    """The GPU with CUDA's ``number``; NVML counts in the order of the bus, CUDA the fastest first unless told."""
    by_bus = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not by_bus and len({nvml.nvmlDeviceGetName(gpu) for gpu in _gpus(nvml)}) > 1:
        raise LookupError(
            f"which GPU is number {number} is ambiguous among several models: set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    return nvml.nvmlDeviceGetHandleByIndex(number)


def _gpus(nvml: Any) -> list[Any]:
    return [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
