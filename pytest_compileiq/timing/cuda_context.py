"""The GPU that CUDA shows, through cuda-core: its stream and kernels of our own; the driver's own API."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pytest_compileiq.errors import BodyError, EnvironmentFault, NoDevice, install

if TYPE_CHECKING:
    from pytest_compileiq.timing.outputs import Bytes

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


# ── kernels of our own, as PTX, which the driver compiles for whatever GPU there is ──────────────────────────────

# What a sweep reads is zero, so that nothing is ever stored: the store keeps the load from being optimised away.
_PTX = b"""\
.version 6.3
.target sm_75
.address_size 64
.visible .entry sweep(.param .u64 memory)
{
    .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<3>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
    ld.param.u64 %rd1, [memory]; mul.wide.u32 %rd2, %r1, 16; add.u64 %rd1, %rd1, %rd2;
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];
    or.b32 %r4, %r4, %r5; or.b32 %r6, %r6, %r7; or.b32 %r4, %r4, %r6;
    setp.ne.u32 %p, %r4, 0; @%p st.global.u32 [%rd1], 0;
    ret;
}
.visible .entry flip(.param .u64 memory, .param .u64 bits, .param .u64 size)
{
    .reg .pred %p; .reg .b16 %h<3>; .reg .b32 %r<4>; .reg .b64 %rd<5>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd1, %r1, %r2; cvt.u64.u32 %rd2, %r3; add.u64 %rd1, %rd1, %rd2;
    ld.param.u64 %rd2, [size]; setp.ge.u64 %p, %rd1, %rd2; @%p ret;
    ld.param.u64 %rd3, [memory]; ld.param.u64 %rd4, [bits]; add.u64 %rd3, %rd3, %rd1; add.u64 %rd4, %rd4, %rd1;
    ld.global.u8 %h1, [%rd3]; ld.global.u8 %h2, [%rd4]; xor.b16 %h1, %h1, %h2; st.global.u8 [%rd3], %h1;
    ret;
}
.visible .entry empty() { ret; }
"""


@lru_cache(maxsize=8)
def device_kernels(device: int) -> dict[str, Any]:
    """``sweep``, ``flip`` and ``empty``, compiled for CUDA's ``device``, whose context is current."""
    try:
        code = cuda_core().ObjectCode.from_ptx(_PTX)
        return {name: code.get_kernel(name) for name in ("sweep", "flip", "empty")}
    except Exception as error:
        raise EnvironmentFault(
            f"the driver does not compile PTX ({error}): a container needs the driver capability 'compute'"
        ) from error


_L2_MULTIPLE = 2  # a buffer of the cache's own size may leave lines of the kernel's in it
_FREE_SHARE = 0.5  # what is free may be wanted by the call, too
_THREADS, _BYTES_A_THREAD = 256, 16


class L2Cache:
    """The L2 cache of the GPU in use."""

    def __init__(self) -> None:
        self._core = cuda_core()
        gpu = visible_gpu(self._core)
        gpu.set_current()
        self._kernels = device_kernels(gpu.device_id)
        # A sweep reads and never writes: the kernel that displaces written lines would be timed for their write-back.
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
        """Nothing, where a sweep is a whole one."""
        if not self.flushable:
            raise EnvironmentFault(self._short())

    def _short(self) -> str:
        return (
            f"{self._free_bytes >> 20} MiB of GPU memory are free, and flushing the L2 cache takes "
            f"{self._wanted_bytes / _FREE_SHARE / 2**20:.0f}: free some, or measure with l2='warm'"
        )


_FLIP_THREADS = 256  # of one byte each


class Flip:
    """Flips ``bits`` of the bytes at ``address`` of the GPU in use."""

    def __init__(self, address: int, bits: Bytes) -> None:
        self._core = cuda_core()
        gpu = visible_gpu(self._core)
        self._kernel = device_kernels(gpu.device_id)["flip"]
        self._blocks = self._core.LaunchConfig(grid=-(-bits.size // _FLIP_THREADS), block=_FLIP_THREADS)
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
