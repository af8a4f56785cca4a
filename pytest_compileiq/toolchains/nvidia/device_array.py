"""An array in the GPU's memory, for benchmarks that need no framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_compileiq.errors import BodyError
from pytest_compileiq.timing.cuda_context import Driver, cuda_core, visible_gpu


class DeviceArray:
    """A copy of ``host`` on the GPU; kernels take it as its address.

    Args:
        host: any array; its shape and dtype are kept.

    Raises:
        EnvironmentFault: no driver, no visible device, or no cuda-core.
        BodyError: the copy fails, e.g. for want of memory.
    """

    def __init__(self, host: npt.ArrayLike) -> None:
        array = np.asarray(host)
        core = cuda_core()
        gpu = visible_gpu(core)
        gpu.set_current()
        self.shape, self.dtype = array.shape, array.dtype
        self._driver = Driver()
        self._buffer = gpu.allocate(max(1, array.nbytes), stream=core.LEGACY_DEFAULT_STREAM)
        self.copy_from(array)

    def data_ptr(self) -> int:
        """The address."""
        return int(self._buffer.handle)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array as other packages take it: CUDA Array Interface, version 3."""
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.data_ptr(), False), "version": 3}

    def copy_from(self, host: npt.ArrayLike) -> None:
        """Overwrite the content; BodyError for another shape or dtype, or where the copy fails."""
        given = np.asarray(host, order="C")
        if (given.shape, given.dtype) != (self.shape, self.dtype):
            raise BodyError(f"expected {self.dtype}{self.shape}, got {given.dtype}{given.shape}")
        self._driver.copy_from_host(self.data_ptr(), given.ctypes.data, given.nbytes)

    def host(self) -> np.ndarray[Any, Any]:
        """The content, after everything launched on blocking streams has ended.

        Raises:
            BodyError: the copy fails, also because a kernel failed before.
        """
        copy = np.empty(self.shape, self.dtype)
        self._driver.copy_to_host(copy.ctypes.data, self.data_ptr(), copy.nbytes)
        return copy
