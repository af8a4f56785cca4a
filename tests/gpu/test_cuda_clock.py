"""The clock, the launcher and NVML on a real GPU. ``make gpu`` makes a missing GPU a failure; elsewhere they skip."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.timing.base import Device
from pytest_compileiq.timing.cuda import CudaClock, cuda_device
from pytest_compileiq.timing.cuda_context import cuda_core, current_uuid, holds_context, launching_on, visible_gpu
from pytest_compileiq.timing.nvml import snapshot
from pytest_compileiq.toolchains.nvidia.cubin_module import CubinModule
from pytest_compileiq.toolchains.nvidia.tools import installed

SPIN_NS = 2_000_000
# The GPU's timer may tick only every microsecond.
SPIN_AT_LEAST_S = 1.9e-3

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

.visible .entry spin(.param .u64 ns) {
    .reg .pred %p; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [ns]; mov.u64 %rd2, %globaltimer; add.u64 %rd1, %rd1, %rd2;
again:
    mov.u64 %rd2, %globaltimer; setp.lt.u64 %p, %rd2, %rd1; @%p bra again;
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


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Device:
    try:
        return cuda_device()
    except EnvironmentFault as fault:
        give_up = pytest.fail if request.config.getini("acf_no_device") == "fail" else pytest.skip
        give_up(f"needs a GPU: {fault}")


def assemble(directory: Path, architecture: str) -> Path:
    tool = next(installed("ptxas"), None)
    if tool is None:
        pytest.skip("no ptxas: pip install 'pytest-compileiq[cuda]'")
    source, made = directory / "kernels.ptx", directory / "kernels.cubin"
    source.write_text(KERNELS, encoding="ascii")
    subprocess.run([tool.program, f"-arch={architecture}", str(source), "-o", str(made)], check=True)
    return made


@pytest.fixture(scope="module")
def cubin(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assemble(tmp_path_factory.mktemp("cubin"), device.architecture)


@pytest.fixture
def kernels(cubin: Path) -> CubinModule:
    return CubinModule(cubin, set())


@pytest.fixture
def pinned(kernels: CubinModule) -> Callable[..., tuple[Any, np.ndarray]]:
    """Memory that both sides see: the buffer for the kernel and the array for the test."""
    resource = cuda_core().LegacyPinnedMemoryResource()

    def allocate(values, dtype) -> tuple[Any, np.ndarray]:
        values = np.asarray(values, dtype=dtype)
        buffer = resource.allocate(values.nbytes)
        raw = (ctypes.c_uint8 * values.nbytes).from_address(int(buffer.handle))
        array = np.frombuffer(raw, dtype=dtype)
        array[:] = values
        return buffer, array

    return allocate


def wait() -> None:
    cuda_core().LEGACY_DEFAULT_STREAM.sync()


def spin(kernels: CubinModule) -> Callable[[], None]:
    return lambda: kernels.spin(1, 1, SPIN_NS)


def test_the_kernels_assemble_for_every_architecture_from_turing_on(tmp_path):
    for architecture in ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"):
        assert assemble(tmp_path, architecture).stat().st_size > 0


def test_the_device_is_named_as_its_artifacts_are(device):
    assert device.name
    assert re.fullmatch(r"sm_(7\d|8\d|9\da|1\d\da)", device.architecture)
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", device.driver)


def test_a_kernel_computes_what_it_is_given(kernels, pinned):
    n = 1000
    (x, xs), (y, ys) = pinned(np.arange(n), np.float32), pinned(np.ones(n), np.float32)

    kernels.saxpy((n + 127) // 128, 128, np.float32(2), x, y, np.int32(n))
    wait()

    np.testing.assert_array_equal(ys, 2 * xs + 1)


def test_an_address_serves_as_a_pointer_whatever_library_it_comes_from(kernels, pinned):
    buffer, counter = pinned([0], np.uint32)
    address = int(buffer.handle)
    interface = {"data": (address, False), "shape": (1,), "typestr": "<u4", "version": 3}

    kernels.count(1, 1, SimpleNamespace(__cuda_array_interface__=interface))
    kernels.count(1, 1, address)
    wait()

    assert counter[0] == 2


def test_more_than_48_kib_of_shared_memory_can_be_asked_for(kernels, pinned):
    size = 60_000
    out, value = pinned([0], np.uint32)

    kernels.last_shared_word(1, 1, np.uint32(size), out, shared_bytes=size)
    wait()

    assert value[0] == size


@pytest.mark.parametrize("l2", ["flush", "warm"])
@pytest.mark.parametrize("graph", [False, True], ids=["launched", "graph"])
@pytest.mark.parametrize("repeats", [1, 3])
def test_the_clock_never_reads_less_than_the_kernel_took(kernels, l2, graph, repeats):
    clock = CudaClock(l2=l2, graph=graph)

    assert clock.seconds(spin(kernels), repeats) >= SPIN_AT_LEAST_S


def test_work_on_a_blocking_stream_lies_between_the_events(kernels):
    core = cuda_core()
    stream = visible_gpu(core).create_stream(options=core.StreamOptions(nonblocking=False))

    def call():
        with launching_on(stream):
            spin(kernels)()

    assert CudaClock().seconds(call, 1) >= SPIN_AT_LEAST_S


def test_a_graph_replays_every_repeat(kernels, pinned):
    buffer, counter = pinned([0], np.uint32)
    clock, call = CudaClock(graph=True), lambda: kernels.count(1, 1, buffer)

    clock.seconds(call, 5)
    clock.seconds(call, 5)

    assert counter[0] == 1 + 5 + 5  # one before the capture, which itself runs nothing


def test_a_launch_on_the_legacy_stream_cannot_escape_a_capture(kernels):
    legacy = cuda_core().LEGACY_DEFAULT_STREAM

    def call():
        with launching_on(legacy):
            spin(kernels)()

    with pytest.raises(Exception, match="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"):
        CudaClock(graph=True).seconds(call, 1)

    assert CudaClock(graph=True).seconds(spin(kernels), 1) >= SPIN_AT_LEAST_S


def test_a_faulting_kernel_names_the_cuda_error_and_poisons_the_context(cubin):
    # In a process of its own: the fault poisons the context.
    script = (
        "import sys, pathlib\n"
        "from pytest_compileiq.timing.cuda import CudaClock, context_is_poisoned\n"
        "from pytest_compileiq.toolchains.nvidia.cubin_module import CubinModule\n"
        "print(context_is_poisoned())\n"
        "fault = CubinModule(pathlib.Path(sys.argv[1]), set()).fault\n"
        "try:\n"
        "    CudaClock().seconds(lambda: fault(1, 1), 1)\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "print(context_is_poisoned())\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(cubin)], capture_output=True, text=True, timeout=120)

    before, error, after = done.stdout.splitlines()
    assert (before, after) == ("False", "True"), done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in error


def test_nvml_sees_the_gpu_that_cuda_uses(device, kernels):
    before = snapshot(current_uuid())
    CudaClock().seconds(spin(kernels), 50)
    after = snapshot(current_uuid())

    assert holds_context()
    assert after.sm_clock_mhz is None or after.sm_clock_mhz > 0
    assert after.temperature_c is None or 0 < after.temperature_c < 120
    assert before.energy_mj is None or after.energy_mj >= before.energy_mj
