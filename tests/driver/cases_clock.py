"""The GPU's clock above the driver without a GPU: 256 bytes of code take 2 ms, a sweep or a memset takes 1000.

The host's clock is the driver's too, so that what the host takes is as exact as what the GPU takes.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq.errors import CannotMeasure, EnvironmentFault
from pytest_compileiq.timing import cuda, cuda_context, launching
from pytest_compileiq.timing.cuda import CudaClock, finish
from pytest_compileiq.timing.cuda_context import cuda_core, current_stream, launching_on, visible_gpu
from pytest_compileiq.timing.launching import Launching, choose_launching
from pytest_compileiq.timing.sampler import ArmError, Timed
from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray

KERNEL_S = pytest.approx(2e-3)
LAUNCH = "cuLaunchKernelEx nothing grid 1,1,1 block 32,1,1 shared 0 on {}:"
SWEEP = "cuLaunchKernelEx sweep grid 2,1,1 block 256,1,1 shared 0 on {}"  # 8192 bytes, twice the L2
EVENT = "cuEventRecord on {}"
SYNC = "cuEventSynchronize"  # the driver refuses the time of an end that was not waited for
EAGER = Launching("eager", all_streams=False, kernel_s=2e-3, eager_ratio=None, why_eager="")
GRAPH = Launching("graph", all_streams=False, kernel_s=2e-3, eager_ratio=None, why_eager=None)
EMPTY_S = pytest.approx(1.5e-6)


@pytest.fixture(autouse=True)
def _virtual_host(monkeypatch):
    host_ns = ctypes.CDLL("libcuda.so.1").stub_host_ns
    host_ns.restype = ctypes.c_int64
    for module in (cuda, cuda_context, launching):
        monkeypatch.setattr(module, "perf_counter", lambda: host_ns() * 1e-9)


@pytest.fixture
def asked(calls):
    """What the driver was asked, but for the address that a sweep reads."""

    def since():
        return [call.partition(": ")[0] if " sweep " in call else call for call in calls()]

    return since


def on(stream, *calls):
    return [call.format(stream) for call in calls]


def launching_of(call, wanted=None):
    return choose_launching({"baseline": call}, wanted)


def side_stream(nonblocking=True):
    core = cuda_core()
    return visible_gpu(core).create_stream(options=core.StreamOptions(nonblocking=nonblocking))


# ── one sample ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_call_of_a_cold_sample_comes_after_a_sweep_and_between_events_of_its_own(kernels, asked):
    clock, nothing = CudaClock(EAGER), kernels.nothing
    asked()

    assert clock.seconds(lambda: nothing(1, 32), 2) == KERNEL_S
    assert asked() == on("legacy", *[SWEEP, EVENT, LAUNCH, EVENT] * 2, SYNC)


def test_a_warm_sample_begins_with_a_call_that_is_not_timed_and_leaves_the_cache_alone(kernels, asked):
    clock, nothing = CudaClock(EAGER, l2="warm"), kernels.nothing
    asked()

    assert clock.seconds(lambda: nothing(1, 32), 2) == KERNEL_S
    assert asked() == on("legacy", LAUNCH, EVENT, LAUNCH, LAUNCH, EVENT, SYNC)


@pytest.mark.parametrize("how", [EAGER, GRAPH])
def test_cold_is_cold_in_every_call_and_clean_and_warm_is_warm_in_every_call(kernels, how):
    reuse = kernels.reuse
    cold, warm = (CudaClock(how, l2=l2).seconds(lambda: reuse(1, 32, 100_000), 7) for l2 in ("flush", "warm"))

    assert (cold, warm) == (pytest.approx(300e-6), pytest.approx(100e-6))


def test_the_memory_of_a_sweep_is_written_once_and_twice_the_cache(asked):
    clock = CudaClock(EAGER)
    clock.seconds(lambda: None, 3)

    assert [call for call in asked() if "Alloc" in call or "Memset" in call] == [
        "cuMemAllocFromPoolAsync 8192 bytes on legacy",
        "cuMemsetD8Async 8192 bytes to 0 on legacy",
    ]


def test_a_graph_is_captured_and_uploaded_once_and_replayed_with_its_sweeps_and_events(kernels, asked):
    clock, nothing = CudaClock(GRAPH), kernels.nothing
    call = lambda: nothing(1, 32)  # noqa: E731
    asked()

    captured = on("blocking", LAUNCH, "cuStreamBeginCapture thread_local on {}", *[SWEEP, EVENT, LAUNCH, EVENT] * 4,
                  "cuStreamEndCapture on {}")  # fmt: skip
    built = ["cuGraphInstantiateWithParams 8 kernels", "cuGraphUpload 8 kernels on legacy"]
    replayed = ["cuGraphLaunch 8 kernels on legacy", "cuCtxSynchronize"]
    assert (clock.seconds(call, 4), asked()) == (KERNEL_S, captured + built + replayed)
    assert (clock.seconds(call, 4), asked()) == (KERNEL_S, replayed)
    assert clock.seconds(call, 2) == KERNEL_S
    assert "cuGraphInstantiateWithParams 4 kernels" in asked()


def test_callables_that_compare_equal_are_still_two_graphs(kernels, asked):
    class Call:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        def __call__(self):
            kernels.nothing(1, 32)

    clock = CudaClock(GRAPH, l2="warm")
    for _ in range(2):
        clock.seconds(Call(), 1)

    assert asked().count("cuGraphUpload 2 kernels on legacy") == 2


@pytest.mark.parametrize("how", [EAGER, GRAPH])
def test_a_call_that_is_not_timed_is_made_once_as_it_is_timed_and_waited_for(kernels, asked, how):
    nothing, clock = kernels.nothing, CudaClock(how)
    call = lambda: nothing(1, 32)  # noqa: E731
    clock.once(call)
    asked()

    Timed("tuned", call, clock, lambda: None).once()
    launched = LAUNCH.format("legacy") if how is EAGER else "cuGraphLaunch 1 kernels on legacy"
    assert asked() == [launched, "cuCtxSynchronize"]
    finish()
    assert asked()[-1] == "cuCtxSynchronize"


def test_too_little_memory_is_told_before_anything_is_timed(kernels, monkeypatch):
    monkeypatch.setenv("STUB_FREE_BYTES", str(10_000))
    with pytest.raises(EnvironmentFault, match=r"GPU memory are free, and flushing the L2 .*l2='warm'"):
        CudaClock(EAGER)
    assert CudaClock(EAGER, l2="warm").seconds(lambda: kernels.nothing(1, 32), 1) == KERNEL_S

    monkeypatch.setenv("STUB_FREE_BYTES", "100")
    with pytest.raises(EnvironmentFault, match="free some"):
        CudaClock(EAGER, l2="warm")


# ── how a call is launched ───────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_only_launches_is_captured(kernels):
    nothing, x = kernels.nothing, np.float32(1)
    assert launching_of(lambda: nothing(1, 32)).launch == "graph"
    assert (
        launching_of(lambda: kernels.each(1, 32, 5, x, np.float64(-1), True, np.int16(-2), np.int32(3))).launch
        == "graph"
    )


def test_what_a_call_takes_longer_without_a_graph_is_told(kernels, monkeypatch):
    monkeypatch.setenv("STUB_LAUNCH_NS", "9000")
    how = launching_of(lambda: kernels.spin(1, 32, 3000))

    assert how.launch == "graph"
    assert how.kernel_s == pytest.approx(3e-6)
    assert how.eager_ratio == pytest.approx(3, rel=0.1)


def changing_argument(kernels):
    numbers = iter(range(1000, 2000))
    return lambda: kernels.spin(1, 32, next(numbers))


def copying(kernels):
    x = DeviceArray(np.ones(8))
    return lambda: (x.copy_from(np.ones(8)), kernels.nothing(1, 32))


def on_the_legacy_stream(kernels):
    def call():
        with launching_on(cuda_core().LEGACY_DEFAULT_STREAM):
            kernels.nothing(1, 32)

    return call


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (changing_argument, "same kernels with the same arguments each time"),
        (copying, r"captured into a CUDA graph \(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT\): it works on the legacy"),
        (on_the_legacy_stream, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"),
    ],
)
def test_a_call_that_does_more_is_launched_one_by_one_and_refused_where_a_graph_is_asked_for(kernels, make, why):
    how = launching_of(make(kernels))
    assert how.launch == "eager"
    with pytest.raises(CannotMeasure, match=why):
        launching_of(make(kernels), "graph")
    assert current_stream(cuda_core()) is cuda_core().LEGACY_DEFAULT_STREAM
    assert launching_of(lambda: kernels.nothing(1, 32)).launch == "graph"  # the failed capture has ended


def test_a_call_whose_host_works_is_launched_one_by_one(kernels, monkeypatch):
    host_s = 0.0
    monkeypatch.setattr(launching, "perf_counter", lambda: host_s)

    def call():
        nonlocal host_s
        host_s += 80e-6
        kernels.nothing(1, 32)

    how = launching_of(call)
    assert (how.launch, how.why_eager) == ("eager", "the host works for 80 µs in each call beside launching")


def test_a_host_that_takes_a_break_once_is_not_at_work(kernels, monkeypatch):
    host_s, breaks = 0.0, iter([0, 900e-6])  # in the call that is looked at first
    monkeypatch.setattr(launching, "perf_counter", lambda: host_s)

    def call():
        nonlocal host_s
        host_s += next(breaks, 5e-6)
        kernels.nothing(1, 32)

    assert launching_of(call).launch == "graph"


def test_graph_false_is_not_looked_into(kernels, asked):
    assert launching_of(lambda: kernels.nothing(1, 32), "eager").launch == "eager"
    assert not [call for call in asked() if "Capture" in call]


def test_both_arms_are_launched_alike(kernels):
    how = choose_launching({"baseline": lambda: kernels.nothing(1, 32), "tuned": copying(kernels)}, None)
    assert how.launch == "eager"


def test_an_error_of_the_call_is_its_arms_and_ends_the_capture(kernels):
    made = []

    def fails_when_captured():
        made.append(kernels.nothing(1, 32))
        if len(made) % 8 == 7:
            raise ZeroDivisionError

    with pytest.raises(ArmError) as caught:
        choose_launching({"tuned": lambda: 1 / 0}, None)
    assert caught.value.arm == "tuned"
    clock = CudaClock(GRAPH)
    with pytest.raises(ZeroDivisionError):
        for repeats in range(1, 9):
            clock.seconds(fails_when_captured, repeats)
    assert clock.seconds(lambda: kernels.nothing(1, 32), 1) == KERNEL_S


def test_what_neither_call_can_do_is_the_baselines_fault_and_what_one_cannot_is_its_own(kernels):
    fine, odd = (lambda: kernels.nothing(1, 32)), copying(kernels)
    for calls, arm in (({"tuned": odd, "baseline": odd}, "baseline"), ({"tuned": odd, "baseline": fine}, "tuned")):
        with pytest.raises(CannotMeasure) as caught:
            choose_launching(calls, "graph")
        assert caught.value.arm == arm


@pytest.mark.parametrize("wanted", ["graph", "eager", None])
def test_a_call_that_launches_nothing_is_an_error_and_no_time(wanted):
    with pytest.raises(CannotMeasure, match="the measured call launches nothing on Stub H200"):
        launching_of(lambda: None, wanted)


class Torch:
    """A torch whose launches go to its current stream, the legacy one at first."""

    def __init__(self, kernels) -> None:
        self._kernels, self._current = kernels, 0
        self.cuda = SimpleNamespace(is_available=lambda: True, ExternalStream=int, stream=self._stream)

    @contextmanager
    def _stream(self, handle):
        self._current, before = handle, self._current
        yield
        self._current = before

    def launch(self) -> None:
        core = cuda_core()
        with launching_on(core.Stream.from_handle(self._current) if self._current else core.LEGACY_DEFAULT_STREAM):
            self._kernels.spin(1, 32, 3000)


def test_what_torch_launches_on_its_current_stream_is_captured_where_a_graph_is_asked_for(kernels, monkeypatch):
    torch = Torch(kernels)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("STUB_LAUNCH_NS", "9000")

    how = launching_of(torch.launch, "graph")
    assert how.launch == "graph"
    assert CudaClock(how, l2="warm").seconds(torch.launch, 20) == pytest.approx(3e-6)


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────


def on_two_streams(kernels, side):
    """A kernel of 10 µs on the default stream, beside one of 40 µs on another."""

    def call():
        kernels.spin(1, 32, 10_000)
        with launching_on(side):
            kernels.spin(1, 32, 40_000)

    return call


def test_work_on_a_non_blocking_stream_is_timed_too(kernels, monkeypatch):
    monkeypatch.setenv("STUB_EVENT_NS", "500")
    call = on_two_streams(kernels, side_stream())
    how = launching_of(call)

    assert (how.launch, how.all_streams) == ("eager", True)
    for l2 in ("flush", "warm"):
        assert CudaClock(how, l2=l2).seconds(call, 1) == pytest.approx(40e-6, rel=0.02)


def test_work_on_a_non_blocking_stream_alone_is_timed_too(kernels):
    side = side_stream()

    def call():
        with launching_on(side):
            kernels.spin(1, 32, 40_000)

    how = launching_of(call)
    assert how.all_streams
    assert CudaClock(how).seconds(call, 1) == pytest.approx(40e-6)


def test_work_on_a_blocking_stream_lies_between_the_events(kernels, asked):
    stream = side_stream(nonblocking=False)

    def call():
        with launching_on(stream):
            kernels.nothing(1, 32)

    assert not launching_of(call).all_streams
    assert CudaClock(EAGER).seconds(call, 1) == KERNEL_S
    assert LAUNCH.format("blocking") in asked()


def test_a_driver_without_events_of_all_streams_refuses_what_they_would_cover(kernels, monkeypatch):
    monkeypatch.setattr(launching.Driver, "covers_all_streams", lambda self, event: False)
    assert launching_of(lambda: kernels.nothing(1, 32)).launch == "graph"
    side = side_stream()
    monkeypatch.setattr(launching, "_MOST_SWEEPS", 0)

    def long():
        kernels.spin(1, 32, 10_000)
        with launching_on(side):
            kernels.spin(1, 32, 5_000_000)

    with pytest.raises(CannotMeasure, match=r"works on for \d+ µs after the default stream.*wait_stream"):
        launching_of(long)


# ── the host ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sample_for_which_the_gpu_waited_for_the_host_is_void(kernels, monkeypatch):
    monkeypatch.setenv("STUB_LAUNCH_NS", "4100")
    call = lambda: kernels.spin(1, 32, 2300)  # noqa: E731
    how = launching_of(call, "eager")
    clock = CudaClock(how, l2="warm")
    for _ in range(4):  # when the first is enqueued, the GPU is still busy with what was before
        clock.seconds(call, 20)

    assert clock.why_void() == (
        "the call is host-bound: the host takes 4.1 µs to enqueue what the GPU does in 2.3 µs, launched one by one "
        "(as measure(graph=False) says, or as in the blocks before); use measure(…, graph=True), or give each call more work"
    )


@pytest.mark.parametrize(("l2", "launch"), [("warm", "graph"), ("flush", "graph"), ("flush", "eager")])
def test_a_graph_and_a_sweep_leave_the_host_out_of_a_short_kernels_time(kernels, monkeypatch, l2, launch):
    monkeypatch.setenv("STUB_LAUNCH_NS", "4100")
    call = lambda: kernels.spin(1, 32, 2300)  # noqa: E731
    clock = CudaClock(launching_of(call, launch), l2=l2)

    assert clock.seconds(call, 20) == pytest.approx(2.3e-6)
    assert clock.why_void() is None


@pytest.mark.parametrize("l2", ["warm", "flush"])
def test_the_conditions_tell_how_and_what_an_empty_kernel_takes(kernels, l2):
    call = lambda: kernels.spin(1, 32, 3000)  # noqa: E731
    clock = CudaClock(launching_of(call), l2=l2)
    clock.seconds(call, 17)
    taken = clock.conditions()

    assert (taken.launch, taken.l2, taken.all_streams, taken.empty_s) == ("graph", l2, False, EMPTY_S)
