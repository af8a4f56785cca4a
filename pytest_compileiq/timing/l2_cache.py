"""The L2 cache of a GPU, left cold and clean."""

from __future__ import annotations

from typing import Any

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.timing.cuda_context import cuda_core, visible_gpu
from pytest_compileiq.timing.cuda_driver import Driver
from pytest_compileiq.timing.device_kernels import device_kernels

_L2_MULTIPLE = 2  # a buffer of the cache's own size may leave lines of the kernel's in it
_FREE_SHARE = 0.5  # what is free may be wanted by the call, too
_THREADS, _BYTES_A_THREAD = 256, 16


class L2Cache:
    """The L2 cache of the GPU in use.

    A sweep reads memory of twice its size, so that nothing of a kernel's is left in it. It reads, and does not write:
    lines that were written have to be written back by the kernel that displaces them, and it would be timed for it.

    Attributes:
        flushable: there was memory enough for a whole sweep.

    Raises:
        EnvironmentFault: the GPU has no memory left at all, or its driver does not compile PTX.
    """

    def __init__(self) -> None:
        self._core = cuda_core()
        gpu = visible_gpu(self._core)
        gpu.set_current()
        self._kernels = device_kernels(gpu.device_id)
        wanted_bytes = _L2_MULTIPLE * gpu.properties.l2_cache_size
        self._free_bytes = Driver().free_bytes()
        held_bytes = min(wanted_bytes, int(_FREE_SHARE * self._free_bytes))
        self.flushable = held_bytes == wanted_bytes
        self._wanted_bytes = wanted_bytes
        blocks = max(1, held_bytes // (_THREADS * _BYTES_A_THREAD))
        legacy = self._core.LEGACY_DEFAULT_STREAM
        try:
            self._memory = gpu.allocate(blocks * _THREADS * _BYTES_A_THREAD, stream=legacy)
        except Exception as error:
            raise EnvironmentFault(f"{self._short()} ({error})") from error
        self._memory.fill(0, stream=legacy)
        self._sweep = self._core.LaunchConfig(grid=blocks, block=_THREADS)
        self._empty = self._core.LaunchConfig(grid=1, block=1)

    def sweep(self, stream: Any) -> None:
        """Leave the cache cold and clean; takes the GPU some ten microseconds."""
        self._core.launch(stream, self._sweep, self._kernels["sweep"], self._memory)

    def empty(self, stream: Any) -> None:
        """Launch a kernel that does nothing."""
        self._core.launch(stream, self._empty, self._kernels["empty"])

    def expect_flushable(self) -> None:
        """Nothing, where a sweep is a whole one.

        Raises:
            EnvironmentFault: too little memory is free.
        """
        if not self.flushable:
            raise EnvironmentFault(self._short())

    def _short(self) -> str:
        return (
            f"{self._free_bytes >> 20} MiB of GPU memory are free, and flushing the L2 cache takes "
            f"{self._wanted_bytes / _FREE_SHARE / 2**20:.0f}: free some, or measure with l2='warm'"
        )
