"""What NVML says about the GPU: clocks, throttling, power, energy, processes; and its clocks, settled and locked.

What a device or its driver does not support is None, never an exception. A GPU takes a while to raise its clocks under
load, and lowers them again by power and heat. What was measured before they are steady, or at other clocks than the
other arm, says little about the code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from msgspec import Struct

from pytest_compileiq.errors import EnvironmentFault, NoDevice
from pytest_compileiq.samples import ClockReading

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


# ── clocks: read, waited for until they are steady, and locked ───────────────────────────────────────────────────

LOCKED = "locked"  # what `timing.clock_keeper` says once it holds them
_KEY = "acf_lock_clocks"
_STEP_MHZ = 15  # NVIDIA's clocks move in steps of 15 MHz, or half of that
_TOLERANCE = 0.01
_STEADY_S = 0.2
_READINGS = 3  # at least, where one call takes longer than all of that
_BETWEEN_READINGS_S = 0.02  # NVML renews its reading about this often; a question after every call would thin the load


def read_clocks(device: str) -> ClockReading | None:
    """The clocks of the GPU with this UUID, or of the one that this MIG device is a part of; None without NVML."""
    gpu = whole_gpu(device)  # cheaper than a snapshot, which asks about processes, power and heat
    if gpu is None:
        return None
    return ClockReading(
        sm_mhz=gpu.ask("nvmlDeviceGetClockInfo", gpu.nvml.NVML_CLOCK_SM),
        memory_mhz=gpu.ask("nvmlDeviceGetClockInfo", gpu.nvml.NVML_CLOCK_MEM),
        reasons=gpu.throttle_reasons() or (),
    )


class Settled(Struct, frozen=True):
    """What came of waiting for a steady clock."""

    seconds: float  # how long it took
    settled: bool | None  # whether the SM clock was steady at the end; None where the device does not tell its clock
    reading: ClockReading | None  # the last one; None where there was none


def settle(
    load: Callable[[], object],
    read: Callable[[], ClockReading | None],
    *,
    now: Callable[[], float] = time.perf_counter,
    most_s: float = 3.0,
) -> Settled:
    """Keep the device busy until its SM clock is steady: within 1 %, or one step, through 0.2 s of load."""
    # `load` should be what will be measured: a clock is steady for the load that it was seen under.
    started = now()
    steady: list[tuple[float, int]] = []
    while (reading := read()) is not None and reading.sm_mhz is not None:
        taken = now()
        steady = _steady_end([*steady, (taken, reading.sm_mhz)])
        if len(steady) >= _READINGS and taken - steady[0][0] >= _STEADY_S:
            return Settled(taken - started, True, reading)
        if taken - started >= most_s:
            return Settled(taken - started, False, reading)
        begun = now()
        load()
        while now() - begun < _BETWEEN_READINGS_S:
            load()
    return Settled(now() - started, None, reading)


def _steady_end(readings: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """The longest end of ``readings`` whose clocks are all near one another: a slow drift is not steady."""
    start = 0
    while not _near([mhz for _, mhz in readings[start:]]):
        start += 1
    return readings[start:]


def _near(clocks_mhz: Sequence[int]) -> bool:
    highest = max(clocks_mhz)
    return highest - min(clocks_mhz) <= max(_STEP_MHZ, _TOLERANCE * highest)


def why_not_held(asked_mhz: int, settled: Settled) -> str | None:
    """In words, that clocks locked at ``asked_mhz`` are others under load; None when they are, or when nobody knows."""
    # An idle GPU need not show its lock, and power and heat lower a locked clock too.
    seen = settled.reading
    if seen is None or seen.sm_mhz is None or _near([asked_mhz, seen.sm_mhz]):
        return None
    reasons = f" ({', '.join(seen.reasons)})" if seen.reasons else ""
    return f"the clocks are locked at {asked_mhz} MHz, and under load the GPU runs at {seen.sm_mhz} MHz{reasons}"


def base_clock_mhz(device: str) -> int:
    """The clock that ``acf_lock_clocks = base`` means: the default application clock of the GPU with this UUID."""
    gpu = _shown(device)
    mhz: int | None = gpu.ask("nvmlDeviceGetDefaultApplicationsClock", gpu.nvml.NVML_CLOCK_GRAPHICS)
    if mhz is None:
        raise EnvironmentFault(
            f"{_KEY} = base: NVML tells no base clock of {device}; write a number of MHz that "
            f"nvidia-smi -q -d SUPPORTED_CLOCKS lists"
        )
    return mhz


@contextmanager
def locked_clocks(device: str, mhz: int) -> Iterator[None]:
    """Hold the clocks of the GPU with this UUID at ``mhz``, as near as the GPU has it, while the context is open."""
    # A lock is the GPU's and outlives whoever set it: a process of its own (`timing.clock_keeper`) sets it and takes it
    # back, even if this one dies by `kill -9`. NVML tells nobody of locks, so that an administrator's (nvidia-smi -lgc)
    # goes with it. The end of the first of two contexts would free the second one's clocks: hold the device's lock.
    gpu = _lockable(device)
    with _start_keeper(device, mhz) as keeper:
        assert keeper.stdout is not None
        said = keeper.stdout.readline().strip()
        if said != LOCKED:
            _, complaint = keeper.communicate()
            raise EnvironmentFault(_refusal(gpu.nvml, device, mhz, said, complaint))
        try:
            yield
        finally:
            keeper.communicate("done")  # a word, for a fork of this process may hold the pipe open as well
            if keeper.returncode:  # somebody has killed it, or it was refused
                try:
                    gpu.nvml.nvmlDeviceResetGpuLockedClocks(gpu.handle)
                except gpu.nvml.NVMLError as error:
                    raise EnvironmentFault(
                        f"the clocks of {device} are still locked at {mhz} MHz ({error}): nvidia-smi -i {device} -rgc "
                        "frees them"
                    ) from error


def _shown(device: str) -> WholeGpu:
    gpu = whole_gpu(device)
    if gpu is None:
        raise NoDevice(f"NVML shows no GPU {device}, whose clocks {_KEY} sets; see what nvidia-smi -L lists")
    return gpu


def _lockable(device: str) -> WholeGpu:
    if device.startswith("MIG-"):
        raise EnvironmentFault(
            f"{_KEY}: {device} is a part of a GPU, and its clocks are everybody's on that GPU; set it to off, or "
            f"measure on a whole GPU"
        )
    gpu = _shown(device)
    ordinary, current = (
        gpu.ask(query, gpu.nvml.NVML_CLOCK_GRAPHICS)
        for query in ("nvmlDeviceGetDefaultApplicationsClock", "nvmlDeviceGetApplicationsClock")
    )
    if None not in (ordinary, current) and ordinary != current:
        raise EnvironmentFault(
            f"{_KEY}: an administrator has set the application clocks of {device} to {current} MHz (by default "
            f"{ordinary}); set it to off, or undo that: nvidia-smi -i {device} -rac"
        )
    return gpu


def _start_keeper(device: str, mhz: int) -> subprocess.Popen[str]:
    """The process that locks, and restores when its standard input closes."""
    # Hardly any environment: what sweeps up by a variable, as a guard around this process does, must not find it.
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if "LD_LIBRARY_PATH" in os.environ:  # where libnvidia-ml may be
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pytest_compileiq.timing.clock_keeper", device, str(mhz), str(os.getpid())],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _refusal(nvml: Any, device: str, mhz: int, said: str, complaint: str) -> str:
    """Why the keeper has not locked: it said the number of an NVML error, or ended with a complaint."""
    if not said.isdecimal():
        last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
        return f"{_KEY}: the process that locks the clocks of {device} ended at once ({last}); set it to off"
    error = nvml.NVMLError(int(said))
    reasons: Mapping[int, str] = {
        nvml.NVML_ERROR_NO_PERMISSION: "only root may lock its clocks; run as root, or set it to off and have an "
        f"administrator lock them: nvidia-smi -i {device} -lgc {mhz}",
        nvml.NVML_ERROR_INVALID_ARGUMENT: f"it has no clock near {mhz} MHz; nvidia-smi -q -d SUPPORTED_CLOCKS lists "
        "its clocks",
    }
    return f"{_KEY}: {device}: {reasons.get(error.value, f'its clocks cannot be locked ({error}); set it to off')}"
