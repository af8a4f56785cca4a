"""A cubin's kernels by name, on a fake cuda-core: names, sizes and parameters as they reach the launch."""

from __future__ import annotations

import copy
import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq.errors import BodyError, NoDevice
from pytest_compileiq.timing.cuda_context import launching_on
from pytest_compileiq.toolchains import cubin_module
from pytest_compileiq.toolchains.cubin_module import CubinModule
from tests.unit.timing.fake_cuda import SHARED_ATTRIBUTE, FakeBuffer, FakeCuda, FakeStream, install, install_driver


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    monkeypatch.setattr(cubin_module, "read_cubin", lambda path: SimpleNamespace(entries={"saxpy": 1, "_Z4axpyv": 2}))
    return install(monkeypatch)


@pytest.fixture
def used() -> set[str]:
    return set()


@pytest.fixture
def module(cuda: FakeCuda, tmp_path: Path, used: set[str]) -> CubinModule:
    (tmp_path / "kernel.cubin").write_bytes(b"code")
    return CubinModule(tmp_path / "kernel.cubin", used)


def parameters(cuda: FakeCuda, module: CubinModule, *args) -> tuple:
    module.saxpy(1, 32, *args)
    return cuda.launches[-1][3]


def test_a_kernel_taken_as_attribute_or_item_is_used(module, used):
    assert used == set()
    assert module.saxpy is module["saxpy"]
    assert used == {"saxpy"}
    assert module["_Z4axpyv"]
    assert used == {"saxpy", "_Z4axpyv"}


def test_an_unknown_kernel_names_those_that_exist(module, used):
    with pytest.raises(AttributeError, match=r"kernel\.cubin has no kernel 'sax'; its kernels: _Z4axpyv, saxpy"):
        _ = module.sax
    with pytest.raises(AttributeError):
        module["sax"]
    assert used == set()
    assert dir(module) == ["_Z4axpyv", "saxpy"]


def test_a_module_can_be_copied_without_asking_for_kernels(module):
    assert copy.copy(module).saxpy is module.saxpy


def test_the_context_is_current_before_anything_is_loaded(cuda, module):
    assert cuda.log[0] == "set_current"


@pytest.mark.parametrize(
    ("extent", "sizes"),
    [(7, (7,)), (np.int64(7), (7,)), ((7, 2), (7, 2)), ([7, np.int32(2), 1], (7, 2, 1))],
)
def test_grid_and_block_are_an_int_or_up_to_three(cuda, module, extent, sizes):
    module.saxpy(extent, extent)

    assert cuda.launches == [("legacy", {"grid": sizes, "block": sizes, "shmem_size": 0}, "saxpy", ())]


def test_a_launch_goes_to_the_stream_that_the_clock_captures(cuda, module):
    with launching_on(FakeStream(cuda, "capture")):
        module.saxpy(1, 1)
    module.saxpy(1, 1)

    assert [launch[0] for launch in cuda.launches] == ["capture", "legacy"]


def test_arrays_of_any_library_become_addresses(cuda, module):
    cupy = SimpleNamespace(__cuda_array_interface__={"data": (0x700, False), "shape": (2,)})
    torch = SimpleNamespace(data_ptr=lambda: 0x800, is_cuda=True)
    buffer = FakeBuffer(cuda, 4)

    assert parameters(cuda, module, cupy, torch, buffer) == (0x700, 0x800, buffer)


def test_scalars_of_a_known_width_pass_as_they_are(cuda, module):
    scalars = (np.float32(2), np.float64(2), np.int32(3), np.complex128(1), ctypes.c_float(2), 5, True)

    assert parameters(cuda, module, *scalars) == scalars


def test_a_float_of_unknown_width_is_refused_and_says_what_to_pass(cuda, module):
    with pytest.raises(TypeError, match=r"saxpy: 2\.5 may be 32 or 64 bits wide: pass numpy\.float32\(2\.5\)"):
        module.saxpy(1, 1, 2.5)
    assert cuda.launches == []


def test_a_tensor_in_host_memory_is_refused(cuda, module):
    with pytest.raises(TypeError, match=r"saxpy: a tensor on cpu has no address on the GPU: pass tensor\.cuda\(\)"):
        module.saxpy(1, 1, SimpleNamespace(data_ptr=lambda: 1, is_cuda=False, device="cpu"))
    assert cuda.launches == []


def test_dynamic_shared_memory_raises_the_kernels_limit_when_it_grows(cuda, module, monkeypatch):
    limits = install_driver(monkeypatch, most_shared_bytes=200_000)

    for shared_bytes in (0, 100_000, 100_000, 4_000, 150_000):
        module.saxpy(1, 1, shared_bytes=shared_bytes)

    assert limits == [(SHARED_ATTRIBUTE, size, "handle of saxpy", 0) for size in (100_000, 150_000)]
    assert [launch[1]["shmem_size"] for launch in cuda.launches] == [0, 100_000, 100_000, 4_000, 150_000]


def test_more_shared_memory_than_the_device_has_names_the_cuda_error(cuda, module, monkeypatch):
    install_driver(monkeypatch, most_shared_bytes=200_000)

    with pytest.raises(
        BodyError, match=r"saxpy: shared_bytes=300000 is refused on NVIDIA H200: CUDA_ERROR_INVALID_VALUE"
    ):
        module.saxpy(1, 1, shared_bytes=300_000)
    assert cuda.launches == []


def test_without_a_driver_loading_says_that_no_device_runs_it(tmp_path, monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setitem(sys.modules, "cuda.core", None)

    with pytest.raises(NoDevice):
        CubinModule(tmp_path / "kernel.cubin", set())
