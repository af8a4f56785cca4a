"""Kernels of our own on a GPU, as PTX, which the driver compiles for whatever GPU there is."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.timing.cuda_context import Driver, cuda_core, visible_gpu

if TYPE_CHECKING:
    from pytest_compileiq.timing.outputs import Bytes

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
