"""Bytes of a GPU's memory that are overwritten there, without a copy from the host: within a graph, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.timing.cuda_context import cuda_core, visible_gpu
from pytest_compileiq.timing.cuda_driver import Driver
from pytest_compileiq.timing.device_kernels import device_kernels

if TYPE_CHECKING:
    from pytest_compileiq.timing.outputs import Bytes

_THREADS = 256  # of one byte each


class Flip:
    """Flips ``bits`` of the bytes at ``address`` of the GPU in use.

    Raises:
        EnvironmentFault: the GPU has no memory for the bits.
    """

    def __init__(self, address: int, bits: Bytes) -> None:
        self._core = cuda_core()
        gpu = visible_gpu(self._core)
        self._kernel = device_kernels(gpu.device_id)["flip"]
        self._blocks = self._core.LaunchConfig(grid=-(-bits.size // _THREADS), block=_THREADS)
        self._address, self._size = address, bits.size
        try:
            self._bits = gpu.allocate(bits.size, stream=self._core.LEGACY_DEFAULT_STREAM)
        except Exception as error:
            raise EnvironmentFault(
                f"outputs of {bits.size} bytes are overwritten before each call by as many bytes of GPU memory, which "
                f"are not free ({error}): free some, or measure with l2='warm'"
            ) from error
        Driver().copy_from_host(int(self._bits.handle), bits.ctypes.data, bits.size)

    def __call__(self, stream: Any) -> None:
        """Enqueue it on ``stream``."""
        self._core.launch(stream, self._blocks, self._kernel, self._address, self._bits, self._size)
