"""Kernels of our own on a GPU, as PTX, which the driver compiles for whatever GPU there is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.timing.cuda_context import cuda_core

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
    """``sweep``, ``flip`` and ``empty``, compiled for CUDA's ``device``, whose context is current.

    Raises:
        EnvironmentFault: the driver does not compile PTX.
    """
    try:
        code = cuda_core().ObjectCode.from_ptx(_PTX)
        return {name: code.get_kernel(name) for name in ("sweep", "flip", "empty")}
    except Exception as error:
        raise EnvironmentFault(
            f"the driver does not compile PTX ({error}): a container needs the driver capability 'compute'"
        ) from error
