"""Locks a GPU's clocks while something is measured, and restores them whatever becomes of this process.

A lock is the GPU's, not the process's: it outlives whoever set it, and everybody on the GPU has it. So a small process
of its own sets it and takes it back (``timing.clock_keeper``).

NVML does not tell whether the clocks are locked. Taking our lock back therefore takes back one that an administrator
had set before (``nvidia-smi -lgc``). Application clocks are told, and who has set those is not overruled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pytest_compileiq.errors import EnvironmentFault, NoDevice
from pytest_compileiq.timing.clock_keeper import LOCKED
from pytest_compileiq.timing.nvml import WholeGpu, whole_gpu

_KEY = "acf_lock_clocks"


def base_clock_mhz(device: str) -> int:
    """The clock that ``acf_lock_clocks = base`` means: the default application clock of the GPU with this UUID.

    Raises:
        EnvironmentFault: NVML tells none, or (``NoDevice``) does not show the GPU.
    """
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
    """Hold the clocks of the GPU with this UUID at ``mhz``, as near as the GPU has it, while the context is open.

    They are restored even when this process dies by ``kill -9``. Whoever opens it holds the device's lock: when the
    first of two such contexts ends, the second one's clocks are free as well. ``clocks.why_not_held`` tells whether the
    GPU runs at ``mhz`` then.

    Raises:
        EnvironmentFault: the clocks may not or cannot be locked, or could not be restored; ``NoDevice`` where NVML does
            not show the GPU.
    """
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
                _restore(gpu, device, mhz)


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


def _restore(gpu: WholeGpu, device: str, mhz: int) -> None:
    try:
        gpu.nvml.nvmlDeviceResetGpuLockedClocks(gpu.handle)
    except gpu.nvml.NVMLError as error:
        raise EnvironmentFault(
            f"the clocks of {device} are still locked at {mhz} MHz ({error}): nvidia-smi -i {device} -rgc frees them"
        ) from error
