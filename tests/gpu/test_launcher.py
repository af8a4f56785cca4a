"""What kernels compute when the launcher launches them, on a GPU."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_compileiq.timing.checked import CheckedArm, asked_for
from pytest_compileiq.timing.cuda import CudaClock, finish
from pytest_compileiq.timing.cuda_context import cuda_core
from pytest_compileiq.timing.launching import choose_launching
from pytest_compileiq.timing.registry import make_clock
from pytest_compileiq.timing.sampler import Timed
from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray
from pytest_compileiq.toolchains.nvidia.launch import CubinModule

pytestmark = pytest.mark.usefixtures("_computes")


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


def test_a_kernel_computes_what_it_is_given(kernels, pinned):
    n = 1000
    (x, xs), (y, ys) = pinned(np.arange(n), np.float32), pinned(np.ones(n), np.float32)

    kernels.saxpy((n + 127) // 128, 128, np.float32(2), x, y, np.int32(n))
    finish()

    np.testing.assert_array_equal(ys, 2 * xs + 1)


def test_an_address_serves_as_a_pointer_whatever_library_it_comes_from(kernels, pinned):
    buffer, counter = pinned([0], np.uint32)
    address = int(buffer.handle)
    interface = {"data": (address, False), "shape": (1,), "typestr": "<u4", "version": 3}

    kernels.count(1, 1, SimpleNamespace(__cuda_array_interface__=interface))
    kernels.count(1, 1, address)
    finish()

    assert counter[0] == 2


def test_more_than_48_kib_of_shared_memory_can_be_asked_for(kernels, pinned):
    size = 60_000
    out, value = pinned([0], np.uint32)

    kernels.last_shared_word(1, 1, np.uint32(size), out, shared_bytes=size)
    finish()

    assert value[0] == size


def test_a_graph_replays_every_repeat(kernels, pinned):
    buffer, counter = pinned([0], np.uint32)
    call = lambda: kernels.count(1, 1, buffer)  # noqa: E731
    clock = CudaClock(choose_launching({"tuned": call}, "graph"))
    clock.seconds(call, 5)
    before = int(counter[0])

    clock.seconds(call, 5)
    assert counter[0] == before + 5


@pytest.mark.parametrize("launch", ["eager", "graph"])
def test_a_kernel_that_works_in_place_is_made_once_after_each_reset(kernels, launch):
    counter = DeviceArray(np.zeros(1, np.uint32))
    call = lambda: kernels.count(1, 1, counter)  # noqa: E731
    clock = make_clock("cuda", "runtime", {"tuned": call}, l2="flush", launch=launch)
    asked = asked_for([counter], None, lambda: counter.copy_from(np.full(1, 7, np.uint32)))
    arm = CheckedArm(Timed("tuned", call, clock, lambda: None, asked.reset), asked)

    arm.learn()
    arm.timed.sample(1)
    arm.look_at_each_of(3)
    arm.last()
    assert counter.host() == [8]


def test_a_faulting_kernel_names_the_cuda_error_and_poisons_the_context(cubin):
    # In a process of its own: the fault poisons the context.
    script = (
        "import sys, pathlib\n"
        "from pytest_compileiq.timing.cuda import context_is_poisoned, finish\n"
        "from pytest_compileiq.toolchains.nvidia.launch import CubinModule\n"
        "print(context_is_poisoned())\n"
        "fault = CubinModule(pathlib.Path(sys.argv[1]), set()).fault\n"
        "try:\n"
        "    fault(1, 1)\n"
        "    finish()\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "print(context_is_poisoned())\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(cubin)], capture_output=True, text=True, timeout=120)

    before, error, after = done.stdout.splitlines()
    assert (before, after) == ("False", "True"), done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in error
