"""NVML through the real pynvml, above the NVML without a GPU; which device is meant is tested against a fake."""

from __future__ import annotations

import os

import pytest

from pytest_compileiq.timing.clock import Device
from pytest_compileiq.timing.cuda import CudaEnergy, cuda_device
from pytest_compileiq.timing.launching import choose_launching
from pytest_compileiq.timing.nvml import GpuState, driver_version, power_limit_w, snapshot

REASONS = ("software power cap", "hardware thermal slowdown")
STEP_J = 0.6  # by which the energy counter moves whenever it is read


@pytest.fixture(autouse=True)
def _throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_NVML_REASONS", "0x44")


def test_a_snapshot_speaks_in_megahertz_words_watts_and_millijoules():
    before, after = snapshot(), snapshot("GPU-aaaa")

    assert before == GpuState(1980, 3201, REASONS, 412.5, 61, before.energy_mj, (os.getpid(),))
    assert after.energy_mj - before.energy_mj == pytest.approx(STEP_J * 1e3)


def test_the_device_is_what_cuda_and_nvml_say_and_needs_no_context(calls):
    assert cuda_device() == Device("Stub H200", "sm_90a", "580.65.06", 700.0)
    assert calls() == []
    assert (driver_version(), power_limit_w(1), power_limit_w(2)) == ("580.65.06", 700.0, None)


@pytest.mark.parametrize("mask", ["7", "GPU-c", "MIG-b"])
def test_what_nvml_does_not_know_is_no_device(monkeypatch, mask):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)

    assert snapshot() is None


def test_a_mig_device_has_the_clocks_of_its_gpu_and_no_power_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-aaaa")

    assert snapshot() == GpuState(1980, 3201, REASONS, None, 61, None, (os.getpid(),))
    assert power_limit_w() == 700.0


def test_energy_is_what_the_counter_moved_by_for_each_call(kernels):
    clock = CudaEnergy(choose_launching({"tuned": lambda: kernels.nothing(1, 32)}, None))

    call = lambda: kernels.nothing(1, 32)  # noqa: E731
    assert clock.seconds(call, 5000) == pytest.approx(2e-3)  # as a sampler asks first: seconds of it in graphs of 1000
    assert clock.sample(call, 5000) == pytest.approx(STEP_J / 5000)
    assert clock.sample(lambda: kernels.nothing(1, 32), 3) == pytest.approx(STEP_J / 3)
    assert clock.seconds(lambda: kernels.nothing(1, 32), 3) == pytest.approx(2e-3)
