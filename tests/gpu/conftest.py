"""A GPU, and kernels on it. ``make gpu`` makes a missing GPU a failure; elsewhere these tests skip.

They also run above the driver without a GPU (``tests/driver/test_gpu_tests.py``), which executes no code: what a kernel
computes is tested on a GPU alone.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.timing.clock import Device
from pytest_compileiq.timing.cuda import cuda_device
from pytest_compileiq.toolchains.nvidia.launch import CubinModule
from pytest_compileiq.toolchains.nvidia.tools import installed

KERNELS = """
.version 7.5
.target sm_75
.address_size 64

.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n) {
    .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .f32 %f<4>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n]; setp.ge.u32 %p, %r4, %r5; @%p ret;
    ld.param.f32 %f1, [a]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
    mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd5]; fma.rn.f32 %f3, %f1, %f2, %f3; st.global.f32 [%rd5], %f3;
    ret;
}

.visible .entry empty() { ret; }

// Takes so many cycles of the SM's clock.
.visible .entry cycles(.param .u64 wanted) {
    .reg .pred %p; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [wanted]; mov.u64 %rd2, %clock64;
again:
    mov.u64 %rd3, %clock64; sub.u64 %rd3, %rd3, %rd2; setp.lt.u64 %p, %rd3, %rd1; @%p bra again;
    ret;
}

// Takes so many cycles and writes 7, but where 7 is there already.
.visible .entry skips(.param .u64 wanted, .param .u64 out) {
    .reg .pred %p; .reg .b32 %r1; .reg .b64 %rd<5>;
    ld.param.u64 %rd4, [out]; ld.global.u32 %r1, [%rd4]; setp.eq.u32 %p, %r1, 7; @%p ret;
    ld.param.u64 %rd1, [wanted]; mov.u64 %rd2, %clock64;
again:
    mov.u64 %rd3, %clock64; sub.u64 %rd3, %rd3, %rd2; setp.lt.u64 %p, %rd3, %rd1; @%p bra again;
    st.global.u32 [%rd4], 7;
    ret;
}

// Follows a chain of addresses: each load waits for the one before.
.visible .entry reuse(.param .u64 steps, .param .u64 start) {
    .reg .pred %p; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [steps]; ld.param.u64 %rd2, [start];
again:
    ld.global.u64 %rd2, [%rd2]; sub.u64 %rd1, %rd1, 1; setp.ne.u64 %p, %rd1, 0; @%p bra again;
    setp.eq.u64 %p, %rd2, 0; @%p st.global.u64 [%rd2], %rd1;
    ret;
}

.visible .entry count(.param .u64 counter) {
    .reg .b32 %r1; .reg .b64 %rd1;
    ld.param.u64 %rd1, [counter]; ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;
    ret;
}

.extern .shared .align 4 .b8 scratch[];
.visible .entry last_shared_word(.param .u32 bytes, .param .u64 out) {
    .reg .b32 %r<4>; .reg .b64 %rd1;
    ld.param.u32 %r1, [bytes]; ld.param.u64 %rd1, [out]; mov.u32 %r2, scratch; add.u32 %r2, %r2, %r1; sub.u32 %r2, %r2, 4;
    st.shared.u32 [%r2], %r1; ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd1], %r3;
    ret;
}

.visible .entry fault() {
    .reg .b64 %rd1;
    mov.u64 %rd1, 0; st.global.u32 [%rd1], 1;
    ret;
}
"""


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    try:
        return cuda_device()
    except EnvironmentFault as fault:
        give_up = pytest.fail if request.config.getini("acf_no_device") == "fail" else pytest.skip
        give_up(f"needs a GPU: {fault}")


@pytest.fixture
def _computes(device: Device) -> None:
    if device.name.startswith("Stub"):
        pytest.skip("the driver without a GPU executes no code")


def assemble(directory: Path, architecture: str) -> Path:
    tool = next(installed("ptxas"), None)
    if tool is None:
        pytest.skip("no ptxas: pip install 'pytest-compileiq[cuda]'")
    source, made = directory / "kernels.ptx", directory / "kernels.cubin"
    source.write_text(KERNELS, encoding="ascii")
    subprocess.run([tool.program, f"-arch={architecture}", str(source), "-o", str(made)], check=True)
    return made


@pytest.fixture(scope="session")
def cubin(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assemble(tmp_path_factory.mktemp("cubin"), device.architecture)


@pytest.fixture
def kernels(cubin: Path) -> CubinModule:
    return CubinModule(cubin, set())
