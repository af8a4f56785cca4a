"""Locks the clocks of one GPU for as long as the process that started it lives, and restores them.

``timing.nvml`` runs it (``python -m pytest_compileiq.timing.clock_keeper UUID MHZ PARENT_PID``). It says
``locked``, or the number of the NVML error that kept it from that, and restores when its standard input closes or
brings anything. Only what kills it as well (``kill -9``, a container that ends as a whole, the machine) leaves the lock
behind.
"""

from __future__ import annotations

import signal
import sys

from pytest_compileiq.system.watchdog import pidfd_of, wait_for_the_end_of
from pytest_compileiq.timing.nvml import LOCKED, whole_gpu


def _keep(device: str, mhz: int, parent_pid: int) -> None:
    gpu = whole_gpu(device)
    if gpu is None:
        raise SystemExit(f"NVML shows no GPU {device}")
    try:
        gpu.nvml.nvmlDeviceSetGpuLockedClocks(gpu.handle, mhz, mhz)
    except gpu.nvml.NVMLError as error:
        print(error.value, flush=True)
        return
    try:
        print(LOCKED, flush=True)
        with pidfd_of(parent_pid) as pidfd:
            wait_for_the_end_of(parent_pid, pidfd)
    finally:
        gpu.nvml.nvmlDeviceResetGpuLockedClocks(gpu.handle)


if __name__ == "__main__":
    for ending in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)  # its parent gets them too, and the lock lasts as long as that
    _keep(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
