"""The GPU that CUDA shows, through cuda-core; the stream of our own launches; the driver's own API."""

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

from pytest_compileiq.errors import BodyError, EnvironmentFault, NoDevice, install

_NO_COPY = "a copy between host and GPU fails:"


class Driver:
    """The driver's API through cuda-bindings, in the current context; BodyError names a CUDA error of any call."""

    def __init__(self) -> None:
        self._api: Any = import_module("cuda.bindings.driver")
        self._external = self._api.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL

    def record(self, event: Any, stream: Any, *, within_capture: bool) -> None:
        """Record ``event`` on ``stream``; within a capture, as a node of the graph, whose time can be asked for."""
        flags = int(self._external) if within_capture else 0
        self._answer(self._api.cuEventRecordWithFlags(event.handle, stream.handle, flags))

    def hold_all_streams(self, event: Any) -> None:
        """Let whatever is given to any stream of the context from now on wait for ``event``."""
        self._answer(self._api.cuCtxWaitEvent(self._context(), event.handle))

    def record_all_streams(self, event: Any) -> None:
        """Let ``event`` stand for all that was given to any stream of the context so far."""
        self._answer(self._api.cuCtxRecordEvent(self._context(), event.handle))

    def covers_all_streams(self, event: Any) -> bool:
        """Whether the driver has events of all streams: CUDA 12.5 brought them."""
        try:
            self.record_all_streams(event)
        except (BodyError, RuntimeError, AttributeError):  # the driver lacks it, or cuda-bindings does
            return False
        return True

    def free_bytes(self) -> int:
        """The GPU memory that nobody uses."""
        free, _ = self._answer(self._api.cuMemGetInfo())
        return int(free)

    def copy_to_host(self, target: int, source: int, size: int) -> None:
        """Copy ``size`` bytes from the GPU's address ``source`` to the host's address ``target``."""
        self._answer(self._api.cuMemcpyDtoH(target, source, size), _NO_COPY)

    def copy_from_host(self, target: int, source: int, size: int) -> None:
        """Copy ``size`` bytes from the host's address ``source`` to the GPU's address ``target``."""
        self._answer(self._api.cuMemcpyHtoD(target, source, size), _NO_COPY)

    def finish(self) -> None:
        """Wait for all streams of the context."""
        self._answer(self._api.cuCtxSynchronize())

    def _context(self) -> Any:
        (context,) = self._answer(self._api.cuCtxGetCurrent())
        return context

    def _answer(self, answer: tuple[Any, ...], said: str = "the GPU reports") -> tuple[Any, ...]:
        if answer[0] != self._api.CUresult.CUDA_SUCCESS:
            raise BodyError(f"{said} {answer[0].name}")
        return answer[1:]


INSTALL = install("cuda")
_DRIVER = "libcuda.so.1"
_capture_stream: ContextVar[Any] = ContextVar("capture_stream")
_launches: ContextVar[NotedLaunches | None] = ContextVar("launches", default=None)


@dataclass
class NotedLaunches:
    """What this package's launcher launched within one call."""

    # Kernel, grid, block, shared memory and parameters of each launch, as values that compare.
    made: list[tuple[object, ...]] = field(default_factory=list)
    seconds: float = 0.0  # of the host, in all launches together


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
    """The UUID of ``visible_gpu``, as NVML spells it: ``GPU-…``, or ``MIG-…`` of a part of a GPU."""
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
def noting_launches() -> Iterator[NotedLaunches]:
    """Note what is launched meanwhile."""
    token = _launches.set(launches := NotedLaunches())
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
