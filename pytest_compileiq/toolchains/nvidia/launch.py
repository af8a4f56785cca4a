"""A cubin on the GPU: its kernels by name, launched with cuda-core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib import import_module
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

from pytest_compileiq.errors import BodyError
from pytest_compileiq.machine_code.cubin import Cubin, read_cubin
from pytest_compileiq.spelling import quantity
from pytest_compileiq.timing.cuda_context import cuda_core, current_stream, launch_noted, visible_gpu
from pytest_compileiq.toolchains.nvidia.instantiations import NoSuchKernel, kernel_named

Extent = SupportsIndex | Iterable[SupportsIndex]


class CubinModule:
    """The kernels of one cubin, as attributes (``module.saxpy``) or items (``module["reduce<float, 256>"]``).

    Args:
        path: the cubin.
        used: the names of the kernels taken are added to it, without module ids, as a build names its entries.
        suffixes: the suffixes that a build of several architectures appends to these names, e.g. ``@sm_90a``.
        named: gives the cubin's entries the names that the build has for them.

    Raises:
        EnvironmentFault: no driver, no visible device (both ``NoDevice``), or no cuda-core.
        BuildError: it is not a cubin.
    """

    def __init__(
        self,
        path: Path,
        used: set[str],
        suffixes: Sequence[str] = ("",),
        named: Callable[[Cubin], Cubin] = lambda cubin: cubin,
    ) -> None:
        self._core = cuda_core()
        self._gpu = visible_gpu(self._core)
        self._gpu.set_current()
        self._path = path
        self._used = used
        self._suffixes = suffixes
        self._symbols = named(read_cubin(path)).symbols
        self._code = self._core.ObjectCode.from_cubin(path.read_bytes())
        self._kernels: dict[str, CubinKernel] = {}
        self._meant: dict[str, str] = {}  # a name that was asked for → the symbol

    def __getattr__(self, name: str) -> CubinKernel:
        if name.startswith("__"):  # Python's own protocols read such names, copy even before __init__
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> CubinKernel:
        """The kernel ``name``: as the build or the file calls it, or its C++ name, if only one kernel has that."""
        if name not in self._meant:
            try:
                self._meant[name] = kernel_named(name, self._symbols)
            except NoSuchKernel as error:
                raise AttributeError(f"{self._path.name} has {error}") from None
        symbol = self._meant[name]
        keys = [key for key, other in self._symbols.items() if other == symbol]
        if symbol not in self._kernels:
            self._kernels[symbol] = CubinKernel(self._core, self._gpu, keys[0], self._code.get_kernel(symbol))
        self._used.update(f"{key}{suffix}" for key in keys for suffix in self._suffixes)
        return self._kernels[symbol]

    def __dir__(self) -> list[str]:
        return sorted(self._symbols)


class CubinKernel:
    """One kernel, callable."""

    def __init__(self, core: Any, gpu: Any, name: str, kernel: Any) -> None:
        self._core = core
        self._gpu = gpu
        self._name = name
        self._kernel = kernel
        self._most_shared_bytes = 0

    @cached_property
    def parameters(self) -> int:
        return int(self._kernel.num_arguments)

    def __call__(
        self, grid: Extent, block: Extent, *args: Any, shared_bytes: int = 0, cluster: Extent | None = None
    ) -> None:
        """Launch on the current stream: the legacy default stream, or the one that the clock captures.

        Args:
            grid: number of blocks, an int or up to three; with ``cluster``, number of clusters.
            block: threads per block, an int or up to three.
            args: the parameters in order: cuda.core buffers; numpy scalars and ctypes numbers of the parameter's own
                type; an int as a 64-bit integer or an address; anything with ``data_ptr()`` (torch) or
                ``__cuda_array_interface__`` as its address.
            shared_bytes: dynamic shared memory per block, in bytes.
            cluster: blocks per cluster, an int or up to three; None to launch without clusters.

        Raises:
            TypeError: there are too few or too many arguments, or an argument's size in bits is not known, or it does
                not lie on the GPU.
            BodyError: the device does not have that much shared memory.
            Exception: cuda-core's ``CUDAError``, whose text names the CUDA error, when the launch is refused.
        """
        if len(args) != self.parameters:  # the driver would read past the end of too few
            raise TypeError(f"{self._name} takes {quantity(self.parameters, 'parameter')}, and {len(args)} are given")
        if shared_bytes > self._most_shared_bytes:
            self._allow(shared_bytes)
        shape = (sizes(grid), sizes(block), shared_bytes, cluster if cluster is None else sizes(cluster))
        clusters = {} if cluster is None else {"cluster": shape[3]}
        config = self._core.LaunchConfig(grid=shape[0], block=shape[1], shmem_size=shared_bytes, **clusters)
        stream = current_stream(self._core)
        parameters = [_parameter(self._name, arg) for arg in args]
        with launch_noted(lambda: (self, *shape, *map(_content, parameters))):
            self._core.launch(stream, config, self._kernel, *parameters)

    def _allow(self, shared_bytes: int) -> None:
        """Raise the kernel's limit of shared memory, without which a launch with more than 48 KiB is refused."""
        driver: Any = import_module("cuda.bindings.driver")  # cuda-core reads this attribute and cannot set it
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (result,) = driver.cuKernelSetAttribute(attribute, shared_bytes, self._kernel.handle, self._gpu.device_id)
        if result != driver.CUresult.CUDA_SUCCESS:
            raise BodyError(f"{self._name}: shared_bytes={shared_bytes} is refused on {self._gpu.name}: {result.name}")
        self._most_shared_bytes = shared_bytes


def sizes(extent: Extent) -> tuple[int, ...]:
    """``extent`` as up to three numbers."""
    return tuple(map(index, extent)) if isinstance(extent, Iterable) else (index(extent),)


def _parameter(kernel: str, arg: Any) -> Any:
    """``arg`` as cuda-core takes it; cuda-core itself raises TypeError for types that it does not take."""
    if type(arg) is float:  # numpy.float64 is a subclass
        raise TypeError(
            f"{kernel}: {arg!r} may be 32 or 64 bits wide: pass numpy.float32({arg!r}) or numpy.float64({arg!r})"
        )
    if hasattr(arg, "data_ptr"):
        if not getattr(arg, "is_cuda", True):
            raise TypeError(f"{kernel}: a tensor on {arg.device} has no address on the GPU: pass tensor.cuda()")
        return int(arg.data_ptr())
    interface = getattr(arg, "__cuda_array_interface__", None)
    return arg if interface is None else int(interface["data"][0])


def _content(parameter: Any) -> object:
    """A launch's parameter as a value that compares: an address, or a number of a certain width."""
    if isinstance(parameter, int):
        return parameter
    if hasattr(parameter, "handle"):
        return int(parameter.handle)
    return type(parameter), parameter.tobytes() if hasattr(parameter, "tobytes") else bytes(parameter)
