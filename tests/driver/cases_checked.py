"""Outputs in a GPU's memory, above the driver without a GPU, which copies and executes no code."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_compileiq.timing.checked import CheckedArm, CheckFailed, asked_for
from pytest_compileiq.timing.cuda import CudaClock
from pytest_compileiq.timing.launching import Launching
from pytest_compileiq.timing.outputs import as_outputs
from pytest_compileiq.timing.registry import make_clock
from pytest_compileiq.timing.sampler import Timed
from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray

EAGER = Launching("eager", all_streams=False, kernel_s=2e-3, eager_ratio=None, why_eager="")
GRAPH = Launching("graph", all_streams=False, kernel_s=2e-3, eager_ratio=None, why_eager=None)


def test_a_device_array_is_read_and_overwritten_where_it_is():
    array = DeviceArray(np.arange(6, dtype=np.int32))
    (output,) = as_outputs([array])

    assert output.now().view(np.int32).tolist() == [0, 1, 2, 3, 4, 5] and output.item_bytes == 4
    output.write(np.full(24, 0xFF, np.uint8))
    assert array.host().tolist() == [-1] * 6


@pytest.mark.parametrize("how", [EAGER, GRAPH])
def test_reset_is_enqueued_before_what_is_timed_and_is_no_part_of_a_graph(kernels, calls, how):
    x, given = DeviceArray(np.ones(8)), np.ones(8)
    timed = Timed("tuned", lambda: kernels.nothing(1, 32), CudaClock(how), lambda: None, lambda: x.copy_from(given))
    timed.sample(1)
    calls()

    assert timed.sample(1) == pytest.approx(2e-3)
    asked = [call.split()[0] for call in calls()]
    if how is GRAPH:
        assert asked == ["cuMemcpyHtoD", "cuGraphLaunch", "cuCtxSynchronize"]
    else:
        launches = ["cuLaunchKernelEx", "cuEventRecord", "cuLaunchKernelEx", "cuEventRecord"]
        assert asked == ["cuMemcpyHtoD", *launches, "cuEventSynchronize"]


@pytest.mark.parametrize("how", [EAGER, GRAPH])
def test_outputs_are_overwritten_before_the_call_and_looked_at_when_the_gpu_has_done_it(kernels, calls, how):
    x = DeviceArray(np.ones(8))
    timed = Timed("tuned", lambda: kernels.nothing(1, 32), CudaClock(how), lambda: None)
    timed.once()
    calls()

    with pytest.raises(CheckFailed, match=r"leaves outputs\[0\] as it finds it"):  # no code is executed here
        CheckedArm(timed, asked_for([x], None, None)).learn()
    asked = [call.split()[0] for call in calls() if not call.startswith("cuCtxSetCurrent")]
    launched = "cuGraphLaunch" if how is GRAPH else "cuLaunchKernelEx"
    write, call, read = (
        ["cuMemcpyHtoD", "cuCtxSynchronize"],
        [launched, "cuCtxSynchronize"],
        ["cuCtxSynchronize", "cuMemcpyDtoH"],
    )
    assert "".join(asked).count("".join(write + call + read)) == 3  # two to learn by, one to tell why


@pytest.mark.parametrize("launch", ["eager", "graph"])
def test_one_call_lies_between_each_reset_and_the_look_at_what_it_wrote(kernels, calls, launch):
    x, given = DeviceArray(np.ones(8)), np.ones(8)
    call = lambda: kernels.nothing(1, 32)  # noqa: E731
    clock = make_clock("cuda", "runtime", {"tuned": call}, l2="flush", launch=launch)
    asked = asked_for([x], None, lambda: x.copy_from(given))
    calls()

    CheckedArm(Timed("tuned", call, clock, lambda: None, asked.reset), asked).learn()
    names = {"cuMemcpyHtoD": "write", "cuGraphLaunch": "call", "cuLaunchKernelEx": "call", "cuMemcpyDtoH": "look"}
    done = [names[name] for call in calls() if (name := call.split()[0]) in names]
    assert done == ["look", *["write", "write", "call", "look"] * 2]  # overwritten, and then reset


def test_what_a_captured_call_returned_is_what_its_replays_return(kernels):
    def call():
        kernels.nothing(1, 32)
        return "given"

    assert [Timed("tuned", call, CudaClock(how), lambda: None).once() for how in (EAGER, GRAPH)] == ["given"] * 2


@pytest.mark.parametrize("how", [EAGER, GRAPH])
def test_what_a_call_writes_is_overwritten_before_each_sweep_of_a_timed_call(kernels, calls, how):
    x = DeviceArray(np.ones(300, np.uint8))
    timed = Timed("tuned", lambda: kernels.nothing(1, 32), CudaClock(how), lambda: None)
    (output,) = as_outputs([x])
    timed.clock.overwrite_before(timed.call, [lambda: output.flip_of(np.full(300, 0xFF, np.uint8))])
    calls()

    assert timed.sample(2) == pytest.approx(2e-3)  # of the call alone
    asked = [call.split()[1] for call in calls() if call.startswith("cuLaunchKernelEx")]
    first = ["nothing"] if how is GRAPH else []  # before the capture
    assert asked == [*first, *["flip", "sweep", "nothing"] * 2]


def test_a_warm_cache_is_not_overwritten_nor_what_reset_restores(kernels, calls):
    x = DeviceArray(np.ones(8))
    call = lambda: kernels.nothing(1, 32)  # noqa: E731
    warm = CudaClock(EAGER, l2="warm")
    warm.overwrite_before(call, [lambda: pytest.fail("a warm cache needs no memory for flips")])
    cold = Timed("tuned", call, CudaClock(EAGER), lambda: None, lambda: None)
    CheckedArm(cold, asked_for([x], None, cold.reset)).overwrite_before_each()
    calls()

    warm.sample(call, 2), cold.sample(2)
    assert not [call for call in calls() if " flip " in call]


def test_slots_begin_with_single_calls_on_a_gpu_only_where_nothing_tells_that_calls_work(kernels):
    x = DeviceArray(np.ones(8))
    for l2, outputs, kinds in (("flush", [x], []), ("flush", [], ["pause"]), ("warm", [], [])):
        timed = Timed("tuned", lambda: kernels.nothing(1, 32), CudaClock(EAGER, l2=l2), lambda: None)
        arm = CheckedArm(timed, asked_for(outputs, None, None))
        assert [kind for kind in ("dirty", "sham", "pause") if arm.begins_with(kind)] == kinds


def test_a_gpu_stores_no_more_than_its_multiprocessors_move(kernels):
    limit = CudaClock(EAGER).store_limit()
    assert limit.words == "128 bytes a cycle of each of its multiprocessors" and 1e12 < limit.bytes_per_s < 1e14
