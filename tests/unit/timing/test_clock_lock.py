"""What may not be locked is refused before anything is; ``tests/driver`` locks."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from pytest_compileiq.errors import EnvironmentFault, NoDevice
from pytest_compileiq.timing.nvml import base_clock_mhz, locked_clocks

UUID = "GPU-aaaa"


class NVMLError(Exception):
    pass


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """NVML with one GPU whose application clock is ``application``; nothing is started on it."""
    told = SimpleNamespace(base=1755, application=1755)
    nvml = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_GRAPHICS=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda number: "handle",
        nvmlDeviceGetUUID=lambda handle: UUID,
        nvmlDeviceGetDefaultApplicationsClock=lambda handle, kind: told.base,
        nvmlDeviceGetApplicationsClock=lambda handle, kind: told.application,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a keeper was started"))
    return told


def refused(device: str, mhz: int = 1500) -> str:
    with pytest.raises(EnvironmentFault) as raised, locked_clocks(device, mhz):
        pytest.fail("it was entered")
    return str(raised.value)


def test_a_mig_device_is_refused_since_its_clocks_are_not_its_own(gpu):
    assert "MIG-aaaa is a part of a GPU" in refused("MIG-aaaa")


def test_application_clocks_that_somebody_has_set_are_left_alone(gpu):
    gpu.application = 1200

    assert refused(UUID) == (
        "acf_lock_clocks: an administrator has set the application clocks of GPU-aaaa to 1200 MHz (by default 1755); "
        "set it to off, or undo that: nvidia-smi -i GPU-aaaa -rac"
    )


def test_a_gpu_that_nvml_does_not_show_has_no_clocks(gpu, monkeypatch):
    assert "NVML shows no GPU GPU-gone" in refused("GPU-gone")
    with pytest.raises(NoDevice, match="GPU-gone"):
        base_clock_mhz("GPU-gone")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "NVML shows no GPU GPU-aaaa" in refused(UUID)


def test_the_base_clock_is_nvmls_and_a_gpu_that_tells_none_needs_a_number(gpu, monkeypatch):
    assert base_clock_mhz(UUID) == 1755

    monkeypatch.delattr(sys.modules["pynvml"], "nvmlDeviceGetDefaultApplicationsClock")
    with pytest.raises(EnvironmentFault, match=r"NVML tells no base clock of GPU-aaaa; write a number of MHz"):
        base_clock_mhz(UUID)
