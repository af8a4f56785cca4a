"""The clock on a GPU: kernels of known length within bounds above and below, cold and warm, on several streams."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pytest_compileiq.errors import CannotMeasure
from pytest_compileiq.timing.checked import CheckedArm, asked_for
from pytest_compileiq.timing.cuda import CudaClock
from pytest_compileiq.timing.cuda_context import cuda_core, current_uuid, launching_on, visible_gpu
from pytest_compileiq.timing.launching import choose_launching
from pytest_compileiq.timing.nvml import read_clocks, settle
from pytest_compileiq.timing.sampler import Timed
from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray
from tests.gpu.conftest import assemble

LEAST, MOST = 0.9, 1.15  # of what a kernel of known length takes: the clocks move
BESIDE_S = {"warm": 2e-6, "flush": 6e-6}  # what a call has beside its kernel: a gap to the next one, or two events
EMPTY_AT_MOST_S = 6e-6
LENGTHS_S = (2e-6, 10e-6, 100e-6, 5e-3)


@pytest.fixture(scope="module")
def mhz(device, cubin) -> int:
    """The SM clock under load."""
    from pytest_compileiq.toolchains.nvidia.launch import CubinModule

    cycles = CubinModule(cubin, set()).cycles
    load = lambda: cycles(1, 1, 2_000_000)  # noqa: E731
    clock = CudaClock(choose_launching({"tuned": load}, None), l2="warm")
    settled = settle(lambda: clock.once(load), lambda: read_clocks(current_uuid()))
    if settled.reading is None or settled.reading.sm_mhz is None:
        pytest.skip("NVML does not tell this GPU's clock")
    return settled.reading.sm_mhz


@pytest.fixture
def lasting(kernels, mhz):
    """A call of a kernel that takes so many seconds, whatever the cache holds."""
    return lambda seconds: lambda: kernels.cycles(1, 1, int(seconds * mhz * 1e6))


def measured(call, wanted=None, *, l2="flush", repeats=8, samples=5) -> tuple[float, CudaClock]:
    """Seconds of the median sample, and the clock that took them."""
    clock = CudaClock(choose_launching({"tuned": call}, wanted), l2=l2)
    return float(np.median([clock.seconds(call, repeats) for _ in range(samples)])), clock


def test_the_kernels_assemble_for_every_architecture_from_turing_on(tmp_path):
    for architecture in ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"):
        assert assemble(tmp_path, architecture).stat().st_size > 0


def test_the_device_is_named_as_its_artifacts_are(device):
    assert device.name
    assert re.fullmatch(r"sm_(7\d|8\d|9\da|1\d\da)", device.architecture)
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", device.driver)


@pytest.mark.parametrize("length_s", LENGTHS_S, ids="{:g}".format)
@pytest.mark.parametrize(("l2", "launch"), [("warm", "graph"), ("flush", "graph"), ("flush", "eager")])
def test_a_kernel_of_known_length_is_measured_within_bounds(lasting, l2, launch, length_s):
    seconds, clock = measured(lasting(length_s), launch, l2=l2)

    assert LEAST * length_s <= seconds <= MOST * length_s + BESIDE_S[l2]
    assert clock.why_void() is None


@pytest.mark.parametrize("length_s", LENGTHS_S[2:], ids="{:g}".format)
def test_what_is_long_enough_is_measured_launched_one_by_one_too(lasting, length_s):
    seconds, clock = measured(lasting(length_s), "eager", l2="warm")

    assert LEAST * length_s <= seconds <= MOST * length_s + BESIDE_S["warm"]
    assert clock.why_void() is None


@pytest.mark.parametrize("l2", ["warm", "flush"])
def test_an_empty_kernel_is_its_own_offset(kernels, l2):
    seconds, clock = measured(lambda: kernels.empty(1, 1), l2=l2)

    assert 0.2e-6 < clock.conditions().empty_s < EMPTY_AT_MOST_S
    assert 0.5 < seconds / clock.conditions().empty_s < 2


@pytest.mark.usefixtures("_computes")
@pytest.mark.parametrize("launch", ["graph", "eager"])
def test_a_kernel_that_skips_its_work_where_its_output_is_done_is_timed_as_working(kernels, mhz, launch):
    out, length_s = DeviceArray(np.zeros(1, np.int32)), LENGTHS_S[2]
    call = lambda: kernels.skips(1, 1, int(length_s * mhz * 1e6), out)  # noqa: E731
    seconds, clock = measured(call, launch)
    assert seconds < length_s / 2  # the output is not overwritten

    timed = Timed("tuned", call, clock, lambda: None)
    arm = CheckedArm(timed, asked_for([out], None, None))
    arm.learn()
    arm.overwrite_before_each()
    assert LEAST * length_s <= timed.sample(8) <= MOST * length_s + BESIDE_S["flush"]
    arm.look()


def test_calls_shorter_than_their_launch_are_void_one_by_one_and_right_in_a_graph(lasting):
    call = lasting(LENGTHS_S[0] / 2)
    _, eager = measured(call, "eager", l2="warm", repeats=100)
    assert "host-bound" in eager.why_void()

    seconds, graph = measured(call, l2="warm", repeats=100)
    assert graph.conditions().launch == "graph"
    assert seconds <= MOST * LENGTHS_S[0] / 2 + BESIDE_S["warm"]


def test_a_chain_of_loads_takes_longer_cold_than_warm_in_every_call(kernels):
    stride, nodes = 4096, 512
    order = np.random.default_rng(0).permutation(nodes)
    memory = DeviceArray(np.zeros(nodes * stride // 8, np.uint64))
    chain = memory.host()
    chain[order * (stride // 8)] = memory.data_ptr() + np.roll(order, -1).astype(np.uint64) * np.uint64(stride)
    memory.copy_from(chain)
    first = memory.data_ptr() + int(order[0]) * stride
    call = lambda: kernels.reuse(1, 1, 50 * nodes, first)  # noqa: E731
    short = lambda: kernels.reuse(1, 1, nodes, first)  # noqa: E731

    warm, cold = (measured(short, "graph", l2=l2, repeats=1)[0] for l2 in ("warm", "flush"))
    assert 1.3 < cold / warm < 10
    assert measured(call, "graph", l2="warm")[0] > 10 * warm


def test_work_on_a_non_blocking_stream_is_timed_or_refused(lasting):
    core = cuda_core()
    side = visible_gpu(core).create_stream(options=core.StreamOptions(nonblocking=True))
    long, short = lasting(1e-3), lasting(20e-6)

    def call():
        short()
        with launching_on(side):
            long()

    try:
        seconds, clock = measured(call)
    except CannotMeasure as refused:
        assert "non-blocking stream" in str(refused)
    else:
        assert LEAST * 1e-3 <= seconds <= MOST * 1e-3 + 50e-6
        assert clock.conditions().all_streams


def test_work_on_a_blocking_stream_lies_between_the_events(lasting):
    core = cuda_core()
    stream = visible_gpu(core).create_stream(options=core.StreamOptions(nonblocking=False))
    long = lasting(1e-3)

    def call():
        with launching_on(stream):
            long()

    assert LEAST * 1e-3 <= measured(call)[0] <= MOST * 1e-3 + 50e-6


def test_a_call_that_launches_nothing_is_no_time(device):
    with pytest.raises(CannotMeasure, match="launches nothing"):
        measured(lambda: None)


def test_a_launch_on_the_legacy_stream_cannot_escape_a_capture(lasting):
    legacy, long = cuda_core().LEGACY_DEFAULT_STREAM, lasting(1e-3)

    def call():
        with launching_on(legacy):
            long()

    with pytest.raises(CannotMeasure, match="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"):
        measured(call, "graph")
    assert measured(call)[0] >= LEAST * 1e-3
