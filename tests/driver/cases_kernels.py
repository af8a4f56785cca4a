"""Kernels of a real cubin, and arrays, above the driver without a GPU: what reaches the launch, byte for byte."""

from __future__ import annotations

import copy
import ctypes
import json
import shutil
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq.errors import BodyError
from pytest_compileiq.timing.cuda_context import cuda_core, visible_gpu
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray
from pytest_compileiq.toolchains.nvidia.launch import CubinModule
from pytest_compileiq.toolchains.nvidia.markers import Nvcc
from pytest_compileiq.toolchains.triton.kernel import TritonKernel
from tests import needs

PRIVATE = "_ZN38_GLOBAL__N__00000000_7_anon_cu__Z2goPf5innerEPf"


def address_bytes(address: int) -> str:
    return struct.pack("<Q", address).hex()


@pytest.fixture
def buffer():
    core = cuda_core()
    visible_gpu(core).set_current()
    return visible_gpu(core).allocate(16, stream=core.LEGACY_DEFAULT_STREAM)


def test_a_kernel_taken_as_attribute_or_item_is_loaded_once_and_used(cubin, calls):
    used: set[str] = set()
    module = CubinModule(cubin, used)
    assert calls() == ["cuCtxSetCurrent device 0"]

    assert module.scale is module["scale"] is copy.copy(module).scale
    assert used == {"scale"}
    assert calls() == ["cuLibraryLoadData 8 kernels", "cuLibraryGetKernel scale"]


def test_a_kernel_private_to_its_file_is_taken_by_its_name_here_and_by_its_name_in_every_checkout(cubin, calls):
    used: set[str] = set()
    module = CubinModule(cubin, used)
    here = PRIVATE.replace("00000000", "b88bd397")

    module[PRIVATE](1, 1, 0)
    assert module[PRIVATE] is module[here] is getattr(module, here)
    assert used == {PRIVATE}
    assert calls()[-1].startswith(f"cuLaunchKernelEx {here} grid 1,1,1")


@needs.nvcc
def test_of_several_architectures_the_kernel_that_runs_here_is_launched_and_all_of_them_are_taken(tmp_path, calls):
    (tmp_path / "k.cuh").write_text("template <class T> __global__ void set(T *x) { *x = 1; }")
    nvcc = Nvcc("k.cuh", arch=["sm_80", "sm_90a"], instantiate=["set<float>"]).resolve(Place(tmp_path, tmp_path))
    built = nvcc.build(None, tmp_path / "out", timeout_s=200)
    used: set[str] = set()
    kernels = nvcc.load(built, used)
    kernels["set<float>"](1, 1, 0x700)

    assert dir(kernels) == ["set<float>"]
    assert kernels.set is kernels["set<float>"] is kernels["_Z3setIfEvPT_"]
    assert used == set(built.code) == {"set<float>@sm_80", "set<float>@sm_90a"}
    assert calls()[-1].startswith("cuLaunchKernelEx _Z3setIfEvPT_ grid 1,1,1")


def test_an_unknown_kernel_names_those_that_exist(cubin):
    used: set[str] = set()
    module = CubinModule(cubin, used)

    with pytest.raises(
        AttributeError,
        match=r"kernels\.cubin has no kernel 'sca' \(did you mean 'scale'\?\); its kernels: \(anonymous namespace\)::inner, "
        "each, fault, nothing, padded, reuse, scale, spin",
    ):
        _ = module.sca
    with pytest.raises(AttributeError):
        module["sca"]
    assert used == set()
    assert dir(module) == [PRIVATE, "each", "fault", "nothing", "padded", "reuse", "scale", "spin"]


@pytest.mark.parametrize(
    ("extent", "sizes"),
    [(7, "7,1,1"), (np.int64(7), "7,1,1"), ((7, 2), "7,2,1"), ([7, np.int32(2), 4], "7,2,4")],
)
def test_grid_and_block_are_an_int_or_up_to_three(kernels, calls, extent, sizes):
    kernels.nothing(extent, extent)

    assert calls()[-1] == f"cuLaunchKernelEx nothing grid {sizes} block {sizes} shared 0 on legacy:"


def test_a_parameter_has_the_bytes_of_its_own_type(kernels, calls):
    kernels.each(1, 32, 5, np.float32(2.5), np.float64(-1), True, np.int16(-2), np.int32(3))
    kernels.each(1, 32, 5, ctypes.c_float(2.5), ctypes.c_double(-1), np.uint8(1), ctypes.c_int16(-2), ctypes.c_int(3))

    values = {"Q": 5, "f": 2.5, "d": -1, "B": 1, "h": -2, "i": 3}
    expected = " ".join(struct.pack(f"<{kind}", value).hex() for kind, value in values.items())
    assert [one.partition(": ")[2] for one in calls()[-2:]] == [expected] * 2
    assert kernels.each.parameters == 6


def test_arrays_of_any_library_become_addresses(kernels, calls, buffer):
    array = DeviceArray(np.zeros(4))
    cupy = SimpleNamespace(__cuda_array_interface__={"data": (0x700, False), "shape": (2,)})
    torch = SimpleNamespace(data_ptr=lambda: 0x7FFF_FFFF_F800, is_cuda=True)
    calls()
    for one in (array, buffer, cupy, torch, np.uint64(0)):
        kernels.scale(1, 1, one)

    addresses = (array.data_ptr(), int(buffer.handle), 0x700, 0x7FFF_FFFF_F800, 0)
    launched = [one.partition(": ")[2] for one in calls() if "Launch" in one]
    assert launched == [address_bytes(address) for address in addresses]


def test_a_float_of_unknown_width_is_refused_and_says_what_to_pass(kernels, calls):
    with pytest.raises(TypeError, match=r"scale: 2\.5 may be 32 or 64 bits wide: pass numpy\.float32\(2\.5\)"):
        kernels.scale(1, 1, 2.5)
    assert not [one for one in calls() if "Launch" in one]


def test_a_tensor_in_host_memory_is_refused(kernels):
    with pytest.raises(TypeError, match=r"scale: a tensor on cpu has no address on the GPU: pass tensor\.cuda\(\)"):
        kernels.scale(1, 1, SimpleNamespace(data_ptr=lambda: 1, is_cuda=False, device="cpu"))


@pytest.mark.parametrize("arguments", [(), (1, 2)])
def test_the_arguments_are_as_many_as_the_kernel_takes(kernels, calls, arguments):
    with pytest.raises(TypeError, match=f"scale takes 1 parameter, and {len(arguments)} are given"):
        kernels.scale(1, 1, *arguments)
    assert not [one for one in calls() if "Launch" in one]


@pytest.mark.parametrize("argument", [[1], "text", None, object()])
def test_what_no_kernel_takes_is_refused(kernels, argument):
    with pytest.raises(TypeError):
        kernels.scale(1, 1, argument)


def test_dynamic_shared_memory_raises_the_kernels_limit_when_it_grows(kernels, calls):
    nothing = kernels.nothing
    calls()
    for shared_bytes in (0, 100_000, 100_000, 4_000, 150_000):
        nothing(1, 1, shared_bytes=shared_bytes)

    launch = "cuLaunchKernelEx nothing grid 1,1,1 block 1,1,1 shared {} on legacy:"
    allow = "cuKernelSetAttribute nothing 8={} on device 0"  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert calls() == [
        launch.format(0),
        allow.format(100_000),
        launch.format(100_000),
        launch.format(100_000),
        launch.format(4_000),
        allow.format(150_000),
        launch.format(150_000),
    ]


def test_more_shared_memory_than_the_device_has_names_the_cuda_error(kernels, calls):
    with pytest.raises(
        BodyError, match=r"nothing: shared_bytes=300000 is refused on Stub H200: CUDA_ERROR_INVALID_VALUE"
    ):
        kernels.nothing(1, 1, shared_bytes=300_000)
    assert not [one for one in calls() if "Launch" in one]


@pytest.fixture
def triton(cubin, tmp_path):
    """A kernel as Triton leaves it: the cubin, and its launch parameters beside it."""

    def described(name: str = "padded", arguments: dict[str, object] | None = None, **changed: int) -> TritonKernel:
        shutil.copy(cubin, tmp_path / "kernel.cubin")
        description = {
            "name": name, "num_warps": 4, "shared": 65_536, "num_ctas": 1, "arguments": arguments or {"x": "*fp32"},
            "global_scratch_size": 0, "global_scratch_align": 1, "profile_scratch_size": 0, "meta": {"BLOCK": 64},
        }  # fmt: skip
        (tmp_path / "kernel.json").write_text(json.dumps(description | changed))
        return TritonKernel(tmp_path / "kernel.cubin", set())

    return described


def test_a_triton_kernel_gets_its_threads_its_shared_memory_and_its_scratch_pointers(triton, calls):
    triton()((7, 2), 0x700)

    launched = "cuLaunchKernelEx padded grid 7,2,1 block 128,1,1 shared 65536 on legacy"
    assert calls()[-1] == f"{launched}: {address_bytes(0x700)} {address_bytes(0)} {address_bytes(0)}"


def test_a_grid_may_be_computed_from_what_was_compiled_and_counts_programs_of_several_blocks(triton, calls):
    kernel = triton(num_ctas=2, global_scratch_size=96)
    kernel(lambda meta: (448 // meta["BLOCK"], 2), 0x700)

    asked = calls()
    assert kernel.meta == {"BLOCK": 64}
    assert "cuLaunchKernelEx padded grid 14,2,1 block 128,1,1" in asked[-1]
    assert f"cuMemAllocFromPoolAsync {7 * 2 * 2 * 96 + 1} bytes on legacy" in asked


def test_a_tuple_becomes_the_parameters_that_are_no_constants(triton, calls):
    triton(arguments={"shape": ["i64:16", "i64:1", None], "x": "*fp32"})(1, (32, 1, None), 0x700)

    assert calls()[-1].endswith(f": {address_bytes(32)} {address_bytes(0x700)} {address_bytes(0)}")


def scratch_address(call: str) -> int:
    (address,) = struct.unpack("<Q", bytes.fromhex(call.rpartition(": ")[2].split()[1]))
    return address


def test_a_triton_kernel_gets_scratch_memory_for_every_program_and_keeps_it(triton, calls):
    kernel = triton(global_scratch_size=96, global_scratch_align=128)
    kernel((7, 2), 0x700)
    kernel((7, 2), 0x700)
    kernel(3, 0x700)

    asked = calls()
    assert [one for one in asked if "Alloc" in one] == [
        f"cuMemAllocFromPoolAsync {14 * 96 + 128} bytes on legacy",
        f"cuMemAllocFromPoolAsync {3 * 96 + 128} bytes on legacy",
    ]
    addresses = [scratch_address(one) for one in asked if "Launch" in one]
    assert addresses[0] == addresses[1] != addresses[2]
    assert all(address and address % 128 == 0 for address in addresses)


def test_a_triton_kernel_takes_the_arguments_of_its_signature_no_more_and_no_less(triton, calls):
    kernel = triton(arguments={"x": "*fp32", "scratch": "*fp32"})
    for given in ((), (1,), (1, 2, 3)):
        with pytest.raises(TypeError, match=rf"padded takes 2 arguments \(x, scratch\), and {len(given)} are given"):
            kernel(1, *given)
    assert not [one for one in calls() if "Launch" in one]
    with pytest.raises(BodyError, match=r"padded has 3 parameters for 4 arguments, .*: launch it by Triton's JIT"):
        triton(arguments=dict.fromkeys("abcd", "i32"))(1, 1, 1, 1, 1)
    with pytest.raises(BodyError, match=r"scale has 1 parameter for 1 argument,"):
        triton("scale", global_scratch_size=8)(1, 0x700)


def test_an_argument_that_is_1_is_given_and_is_no_parameter(triton, calls):
    kernel = triton(arguments={"stride": "i32:1", "x": "*fp32:16", "n": "i32:16"})
    kernel(1, np.int32(1), 0x700, ctypes.c_int64(32))

    assert calls()[-1].endswith(f": {address_bytes(0x700)} {address_bytes(32)} {address_bytes(0)}")
    with pytest.raises(TypeError, match=r"padded: stride is 'i32:1' in the signature, and 2 is given"):
        kernel(1, 2, 0x700, 32)
    with pytest.raises(TypeError, match=r"padded: n is 'i32:16' in the signature, and 17 is given"):
        kernel(1, 1, 0x700, 17)
    assert not [one for one in calls() if "Launch" in one]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"launch_pdl": True}, r"padded is launched as a whole grid at once, or .*: launch it by Triton's JIT"),
        (
            {"arguments": {"x": ["*fp32", "tensordesc<fp16[64, 64]>"]}},
            "padded takes a tensor descriptor of the host, x:",
        ),
        ({"profile_scratch_size": 64}, r"padded is instrumented and writes a profile: launch it by Triton's JIT"),
    ],
)
def test_a_triton_kernel_that_needs_more_of_a_launch_is_not_launched(triton, changed, said):
    with pytest.raises(BodyError, match=said):
        triton(**changed)


@pytest.mark.parametrize("host", [np.arange(12.0).reshape(3, 4).T, np.float32(3), np.zeros((0, 4)), [1, 2, 3]])
def test_an_array_comes_back_as_it_went(host):
    array = DeviceArray(host)

    np.testing.assert_array_equal(array.host(), host)
    assert (array.shape, array.dtype) == (np.shape(host), np.asarray(host).dtype)
    array.copy_from(np.ones_like(host))
    np.testing.assert_array_equal(array.host(), np.ones_like(host))


def test_an_array_keeps_its_shape_and_dtype():
    with pytest.raises(BodyError, match=r"expected float64\(2,\), got float64\(3,\)"):
        DeviceArray(np.zeros(2)).copy_from(np.zeros(3))
