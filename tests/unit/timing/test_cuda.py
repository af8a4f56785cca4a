"""The GPU's side of the package where there is no driver; ``tests/driver`` runs it above one, ``tests/gpu`` on a GPU."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq.errors import EnvironmentFault, NoDevice
from pytest_compileiq.timing.cuda import CudaClock, architecture, context_is_poisoned, cuda_device
from pytest_compileiq.timing.cuda_context import current_stream, holds_context, launching_on, uuid_of
from pytest_compileiq.timing.launching import Launching, choose_launching
from pytest_compileiq.timing.registry import Untimed
from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray
from pytest_compileiq.toolchains.nvidia.launch import CubinModule


def test_the_current_stream_is_restored_after_an_error():
    core = SimpleNamespace(LEGACY_DEFAULT_STREAM="legacy")
    with pytest.raises(KeyError), launching_on("another"):
        assert current_stream(core) == "another"
        raise KeyError

    assert current_stream(core) == "legacy"


LAUNCHING = Launching("graph", all_streams=False, kernel_s=1e-3, eager_ratio=None, why_eager=None)


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((7, 5), "sm_75"),
        ((8, 9), "sm_89"),
        ((9, 0), "sm_90a"),
        ((10, 0), "sm_100a"),
        ((10, 3), "sm_103a"),
        ((12, 1), "sm_121a"),
    ],
)
def test_architectures_from_hopper_on_are_feature_specific(capability, target):
    assert architecture(*capability) == target


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("NVIDIA H200", "GPU-"), ("NVIDIA H200 MIG 1g.18gb", "MIG-"), ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "MIG-")],
)
def test_a_uuid_is_spelled_as_nvml_does(name, prefix):
    assert uuid_of(SimpleNamespace(name=name, uuid="c7f6-0d1e")) == f"{prefix}c7f6-0d1e"


@pytest.mark.parametrize(
    "use",
    [
        cuda_device,
        lambda: CudaClock(LAUNCHING),
        lambda: choose_launching({}, None),
        lambda: CubinModule(Path("kernel.cubin"), set()),
        lambda: DeviceArray(np.zeros(2)),
    ],
)
def test_a_machine_without_a_driver_has_no_device_and_cuda_core_is_never_asked(monkeypatch, use):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setitem(sys.modules, "cuda.core", None)

    with pytest.raises(NoDevice, match=r"no NVIDIA driver here \(libcuda\.so\.1 is not found\)"):
        use()


def test_where_there_is_no_device_nothing_is_waited_for():
    Untimed("cuda").once(lambda: None)


def test_a_missing_cuda_core_names_the_extra(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)
    monkeypatch.setitem(sys.modules, "cuda.core", None)

    with pytest.raises(EnvironmentFault, match=r"cuda-core.*pip install 'pytest-compileiq\[cuda\]'") as caught:
        cuda_device()
    assert not isinstance(caught.value, NoDevice)
    assert context_is_poisoned()
    assert not holds_context()


def test_importing_the_modules_imports_neither_cuda_nor_nvml():
    code = (
        "import sys, pytest_compileiq.timing.cuda, pytest_compileiq.timing.nvml, pytest_compileiq.toolchains.nvidia.launch;"
        "assert not {'cuda', 'pynvml', 'numpy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
