"""Which GPU is measured, and what NVML says of it: one, several, a part of one."""

from __future__ import annotations

import os

import pytest

from pytest_compileiq.system.files import is_in_container
from pytest_compileiq.timing.cuda import CudaClock, architecture, cuda_device
from pytest_compileiq.timing.cuda_context import cuda_core, current_uuid, visible_gpu
from pytest_compileiq.timing.launching import choose_launching
from pytest_compileiq.timing.nvml import read_clocks, snapshot
from pytest_compileiq.toolchains.nvidia.launch import CubinModule
from tests.gpu.conftest import assemble


def test_nvml_sees_the_gpu_that_cuda_uses_and_this_process_on_it(device, kernels):
    uuid = current_uuid()
    before = snapshot(uuid)
    call = lambda: kernels.cycles(1, 1, 1_000_000)  # noqa: E731
    CudaClock(choose_launching({"tuned": call}, None)).seconds(call, 50)
    after = snapshot(uuid)

    assert visible_gpu(cuda_core()).uuid in uuid
    assert after.sm_clock_mhz is None or after.sm_clock_mhz > 0
    assert after.temperature_c is None or 0 < after.temperature_c < 120
    assert before.energy_mj is None or after.energy_mj >= before.energy_mj
    assert after.compute_pids is None or os.getpid() in after.compute_pids or is_in_container()
    assert read_clocks(uuid) is not None


def test_the_second_gpu_is_measured_where_the_body_works_on_it(device, tmp_path):
    core = cuda_core()
    gpus = core.Device.get_all_devices()
    if len(gpus) < 2:
        pytest.skip("one GPU is visible")
    first, second = gpus[:2]
    second.set_current()
    try:
        kernels = CubinModule(assemble(tmp_path, architecture(*second.compute_capability)), set())
        call = lambda: kernels.cycles(1, 1, 1_000_000)  # noqa: E731
        clock = CudaClock(choose_launching({"tuned": call}, None))
        assert clock.seconds(call, 1) > 0
        assert second.uuid in current_uuid()
        assert clock.conditions().device == cuda_device().name == second.name
    finally:
        first.set_current()


def test_a_part_of_a_gpu_is_a_device_of_its_own(device):
    if not current_uuid().startswith("MIG-"):
        pytest.skip("this GPU is a whole one")
    assert snapshot(current_uuid()).energy_mj is None
