"""The GPU that CUDA shows, through cuda-core, and the stream that this package's own launches go to."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from time import perf_counter
from typing import Any

from pytest_compileiq.errors import EnvironmentFault, NoDevice, install

INSTALL = install("cuda")
_DRIVER = "libcuda.so.1"
_capture_stream: ContextVar[Any] = ContextVar("capture_stream")
_launches: ContextVar[Launches | None] = ContextVar("launches", default=None)


@dataclass
class Launches:
    """What this package's launcher launched within one call.

    Attributes:
        made: kernel, grid, block, shared memory and parameters of each launch, as values that compare.
        seconds: of the host, in all launches together.
    """

    made: list[tuple[object, ...]] = field(default_factory=list)
    seconds: float = 0.0


def cuda_core() -> Any:
    """The module ``cuda.core``.

    Raises:
        NoDevice: this machine has no NVIDIA driver.
        EnvironmentFault: cuda-core is not installed, or does not import.
    """
    # Checked first: without a driver, cuda-core's first call fails and its second one never returns (seen with 1.2.2).
    try:
        ctypes.CDLL(_DRIVER)
    except OSError as error:
        raise NoDevice(f"there is no NVIDIA driver here ({_DRIVER} is not found)") from error
    try:
        return import_module("cuda.core")
    except ImportError as error:
        raise EnvironmentFault(f"cuda-core, which drives the GPU, does not import ({error}): {INSTALL}") from error


def visible_gpu(core: Any) -> Any:
    """The ``cuda.core.Device`` in use: the current context's, else the first visible one. Makes no context.

    Raises:
        NoDevice: CUDA shows none.
    """
    try:
        return core.Device()
    except Exception as error:  # CUDAError, or ValueError when the driver counts none
        mask = os.environ.get("CUDA_VISIBLE_DEVICES")
        shown = "CUDA_VISIBLE_DEVICES is not set" if mask is None else f"CUDA_VISIBLE_DEVICES={mask!r}"
        raise NoDevice(f"CUDA shows no device ({error}; {shown}): see what nvidia-smi -L lists") from error


def current_uuid() -> str:
    """The UUID of ``visible_gpu``, as NVML spells it: ``GPU-…``, or ``MIG-…`` of a part of a GPU.

    Raises:
        EnvironmentFault: no driver, no visible device (both ``NoDevice``), or no cuda-core.
    """
    return uuid_of(visible_gpu(cuda_core()))


def uuid_of(gpu: Any) -> str:
    """The UUID of a ``cuda.core.Device``, as NVML spells it; the driver names a part of a GPU ``… MIG 1g.10gb``."""
    return f"{'MIG' if 'MIG' in gpu.name.split() else 'GPU'}-{gpu.uuid}"


def holds_context() -> bool:
    """Whether this thread has a CUDA context, whoever made it, so that this process computes on a GPU."""
    try:
        cuda_core()
        driver: Any = import_module("cuda.bindings.driver")
    except (EnvironmentFault, ImportError):
        return False
    result, context = driver.cuCtxGetCurrent()
    return bool(result == driver.CUresult.CUDA_SUCCESS and int(context))


def current_stream(core: Any) -> Any:
    """Where to launch now: the stream being captured, else the legacy default stream."""
    return _capture_stream.get(core.LEGACY_DEFAULT_STREAM)


@contextmanager
def launching_on(stream: Any) -> Iterator[None]:
    """Make ``stream`` the current one."""
    token = _capture_stream.set(stream)
    try:
        yield
    finally:
        _capture_stream.reset(token)


@contextmanager
def noting_launches() -> Iterator[Launches]:
    """Note what is launched meanwhile."""
    token = _launches.set(launches := Launches())
    try:
        yield launches
    finally:
        _launches.reset(token)


@contextmanager
def launch_noted(what: Callable[[], tuple[object, ...]]) -> Iterator[None]:
    """Around a launch of ``what``, which is asked for only where somebody takes note."""
    if (launches := _launches.get()) is None:
        yield
        return
    begun = perf_counter()
    yield
    launches.seconds += perf_counter() - begun
    launches.made.append(what())
