"""The GPU's clock above the driver without a GPU, where 256 bytes of code take 2 ms and a memset takes 1000."""

from __future__ import annotations

import pytest

from pytest_compileiq.errors import BodyError
from pytest_compileiq.timing.cuda import CudaClock
from pytest_compileiq.timing.cuda_context import cuda_core, current_stream, launching_on, visible_gpu
from pytest_compileiq.timing.registry import waiting_clock
from pytest_compileiq.timing.sampler import call_again

KERNEL_S = pytest.approx(2e-3)
FLUSH = "cuMemsetD8Async 8192 bytes to 0 on legacy"  # twice the L2
LAUNCH = "cuLaunchKernelEx nothing grid 1,1,1 block 32,1,1 shared 0 on {}:"
EVENT = "cuEventRecord on legacy"
SYNC = "cuEventSynchronize"  # the driver refuses the time of an end that was not waited for


def test_a_sample_flushes_then_records_around_the_calls_and_gives_the_seconds_of_one(kernels, calls):
    clock, nothing = CudaClock(), kernels.nothing
    calls()

    assert clock.seconds(lambda: nothing(1, 32), 2) == KERNEL_S
    assert calls() == [FLUSH, EVENT, *[LAUNCH.format("legacy")] * 2, EVENT, SYNC]


def test_the_flush_buffer_is_twice_the_cache_and_allocated_once(kernels, calls):
    clock = CudaClock()
    for _ in range(3):
        clock.seconds(lambda: kernels.nothing(1, 32), 1)

    asked = calls()
    assert asked.count(FLUSH) == 3
    assert [one for one in asked if "Alloc" in one] == ["cuMemAllocFromPoolAsync 8192 bytes on legacy"]
    assert "cuCtxSetCurrent device 0" in asked


def test_warm_leaves_the_cache_alone(kernels, calls):
    assert CudaClock(l2="warm").seconds(lambda: kernels.nothing(1, 32), 1) == KERNEL_S
    assert not [one for one in calls() if "Memset" in one or "Alloc" in one]


def test_a_graph_is_captured_and_uploaded_once_and_replayed_between_the_events(kernels, calls):
    clock, nothing = CudaClock(graph=True), kernels.nothing
    call = lambda: nothing(1, 32)  # noqa: E731
    calls()

    built = [
        LAUNCH.format("legacy"),
        "cuStreamBeginCapture thread_local on blocking",
        *[LAUNCH.format("blocking")] * 4,
        "cuStreamEndCapture on blocking",
        "cuGraphInstantiateWithParams 4 kernels",
        "cuGraphUpload 4 kernels on legacy",
    ]
    replayed = [FLUSH, EVENT, "cuGraphLaunch 4 kernels on legacy", EVENT, SYNC]
    assert (clock.seconds(call, 4), calls()) == (KERNEL_S, built + replayed)
    assert (clock.seconds(call, 4), calls()) == (KERNEL_S, replayed)
    assert clock.seconds(call, 2) == KERNEL_S
    assert "cuGraphInstantiateWithParams 2 kernels" in calls()


def test_callables_that_compare_equal_are_still_two_graphs(kernels, calls):
    class Call:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        def __call__(self):
            kernels.nothing(1, 32)

    clock = CudaClock(graph=True)
    for _ in range(2):
        clock.seconds(Call(), 1)

    assert calls().count("cuGraphUpload 1 kernels on legacy") == 2


def test_a_capture_of_nothing_is_refused(kernels):
    clock = CudaClock(graph=True)
    with pytest.raises(BodyError, match="captured nothing"):
        clock.seconds(lambda: None, 1)

    assert clock.seconds(lambda: kernels.nothing(1, 32), 1) == KERNEL_S


def test_a_launch_that_would_escape_the_capture_is_cudas_own_error_and_ends_the_capture(kernels):
    clock, legacy = CudaClock(graph=True), cuda_core().LEGACY_DEFAULT_STREAM

    def escape():
        with launching_on(legacy):
            kernels.nothing(1, 32)

    with pytest.raises(Exception, match="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"):
        clock.seconds(escape, 1)

    assert current_stream(cuda_core()) is legacy
    assert clock.seconds(lambda: kernels.nothing(1, 32), 1) == KERNEL_S


def test_an_error_of_the_call_itself_ends_the_capture(kernels):
    clock, calls_made = CudaClock(graph=True), []

    def fails_when_captured():
        calls_made.append(kernels.nothing(1, 32))
        if len(calls_made) > 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        clock.seconds(fails_when_captured, 1)

    assert clock.seconds(lambda: kernels.nothing(1, 32), 1) == KERNEL_S


def test_a_call_that_is_not_timed_is_waited_for_too(kernels, calls):
    nothing = kernels.nothing
    sampling, plain = CudaClock(), waiting_clock("cuda")
    calls()

    call_again("tuned", lambda: nothing(1, 32), sampling, lambda: None)
    assert calls() == [FLUSH, EVENT, LAUNCH.format("legacy"), EVENT, SYNC]
    plain.seconds(lambda: nothing(1, 32), 1)
    assert calls() == [EVENT, LAUNCH.format("legacy"), EVENT, SYNC]


def test_work_on_another_blocking_stream_is_launched_there(kernels, calls):
    core = cuda_core()
    stream = visible_gpu(core).create_stream(options=core.StreamOptions(nonblocking=False))
    with launching_on(stream):
        kernels.nothing(1, 32)

    assert calls()[-1] == LAUNCH.format("blocking")
