"""The GPU's clock against a fake cuda-core: the order of operations, and what becomes of failures."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from pytest_compileiq.errors import BodyError, EnvironmentFault, NoDevice
from pytest_compileiq.timing import cuda as cuda_timing
from pytest_compileiq.timing.cuda import CudaClock, architecture, cuda_device
from pytest_compileiq.timing.cuda_context import current_stream, launching_on
from tests.unit.timing.fake_cuda import CUDAError, FakeCuda, install


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return install(monkeypatch)


def kernel(cuda: FakeCuda):
    return lambda: cuda.work(current_stream(cuda))


def sampled(cuda: FakeCuda, clock: CudaClock, call, repeats: int) -> tuple[float, list[str]]:
    cuda.log.clear()
    return clock.seconds(call, repeats), list(cuda.log)


def test_a_sample_flushes_then_records_around_the_calls_and_gives_the_seconds_of_one(cuda):
    seconds, log = sampled(cuda, CudaClock(), kernel(cuda), 2)

    assert log == [
        "fill 100 on legacy",
        "record event1 on legacy",
        "launch on legacy",
        "launch on legacy",
        "record event2 on legacy",
        "sync event2",
    ]
    assert seconds == pytest.approx(3e-3)


def test_the_flush_buffer_is_twice_the_cache_and_allocated_once(cuda):
    clock = CudaClock()
    for _ in range(3):
        clock.seconds(kernel(cuda), 1)

    assert [line for line in cuda.log if "allocate" in line] == ["allocate 100 on legacy"]
    assert cuda.log[0] == "set_current"


def test_warm_leaves_the_cache_alone(cuda):
    clock = CudaClock(l2="warm")
    _, log = sampled(cuda, clock, kernel(cuda), 1)

    assert not any("fill" in line or "allocate" in line for line in (*log, *cuda.log))


def test_a_graph_is_captured_once_for_each_call_and_repeat_count_and_replayed_on_the_legacy_stream(cuda):
    clock, call = CudaClock(l2="warm", graph=True), kernel(cuda)

    first = sampled(cuda, clock, call, 4)
    again = sampled(cuda, clock, call, 4)

    around = ["record event1 on legacy", "replay 4 on legacy", "record event2 on legacy", "sync event2"]
    built = ["launch on legacy", "capture thread_local on capture", "end capture", "close", "upload on legacy"]
    assert first == (pytest.approx(3e-3), [*built, *around])
    assert again == (pytest.approx(3e-3), around)
    assert any("capture" in line for line in sampled(cuda, clock, call, 2)[1])


def test_callables_that_compare_equal_are_still_two_graphs(cuda):
    class Call:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        def __call__(self):
            cuda.work(current_stream(cuda))

    clock = CudaClock(l2="warm", graph=True)
    sampled(cuda, clock, Call(), 1)

    assert any("capture" in line for line in sampled(cuda, clock, Call(), 1)[1])


def test_a_flush_lies_outside_a_replay_too(cuda):
    clock, call = CudaClock(graph=True), kernel(cuda)
    clock.seconds(call, 1)

    assert sampled(cuda, clock, call, 1)[1][:2] == ["fill 100 on legacy", "record event1 on legacy"]


def test_a_capture_of_nothing_is_refused(cuda):
    with pytest.raises(BodyError, match="captured nothing"):
        CudaClock(graph=True).seconds(lambda: None, 1)

    assert cuda.capturing is None


def test_a_failing_call_ends_the_capture_and_keeps_its_own_error(cuda):
    def close(builder):
        builder.cuda.capturing = None
        raise CUDAError("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: again")

    def call():
        cuda.work(cuda.LEGACY_DEFAULT_STREAM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.unit.timing.fake_cuda.FakeBuilder.close", close)
        with pytest.raises(CUDAError, match="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"):
            CudaClock(graph=True).seconds(call, 1)

    assert cuda.capturing is None
    assert current_stream(cuda) is cuda.LEGACY_DEFAULT_STREAM


def test_a_cuda_error_of_the_work_names_itself(cuda):
    cuda.fails_at_sync = "CUDA_ERROR_ILLEGAL_ADDRESS: While executing a kernel, …"

    with pytest.raises(CUDAError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        CudaClock().seconds(kernel(cuda), 1)


def test_the_current_stream_is_restored_after_an_error(cuda):
    stream = object()
    with pytest.raises(KeyError), launching_on(stream):
        assert current_stream(cuda) is stream
        raise KeyError

    assert current_stream(cuda) is cuda.LEGACY_DEFAULT_STREAM


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


def test_the_device_is_what_cuda_and_nvml_say_and_needs_no_context(cuda, monkeypatch):
    monkeypatch.setattr(cuda_timing, "driver_version", lambda: "580.65.06")
    monkeypatch.setattr(cuda_timing, "power_limit_w", lambda device: 700.0 if device == 0 else None)

    device = cuda_device()

    assert (device.name, device.architecture, device.driver, device.power_limit_w) == (
        "NVIDIA H200",
        "sm_90a",
        "580.65.06",
        700.0,
    )
    assert "set_current" not in cuda.log


def test_a_machine_without_a_driver_has_no_device_and_cuda_core_is_never_asked(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setitem(sys.modules, "cuda.core", None)

    with pytest.raises(NoDevice, match=r"no NVIDIA driver here \(libcuda\.so\.1 is not found\)"):
        cuda_device()
    with pytest.raises(NoDevice):
        CudaClock()


def test_a_missing_cuda_core_names_the_extra(cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", None)

    with pytest.raises(EnvironmentFault, match=r"cuda-core.*pip install 'pytest-compileiq\[cuda\]'") as caught:
        cuda_device()
    assert not isinstance(caught.value, NoDevice)


def test_no_visible_device_says_what_hides_it(cuda, monkeypatch):
    cuda.no_device = "CUDA_ERROR_NO_DEVICE: no CUDA-capable device"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")

    with pytest.raises(NoDevice, match=r"CUDA_ERROR_NO_DEVICE.*CUDA_VISIBLE_DEVICES='7'.*nvidia-smi"):
        cuda_device()


def test_importing_the_modules_imports_neither_cuda_nor_nvml():
    code = (
        "import sys, pytest_compileiq.timing.cuda, pytest_compileiq.timing.nvml, pytest_compileiq.toolchains.cubin_module;"
        "assert not {'cuda', 'pynvml', 'numpy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_real_cuda_core_has_every_name_that_is_used():
    core = pytest.importorskip("cuda.core", reason="cuda-core or cuda-bindings is missing", exc_type=ImportError)

    used = {
        core: ("Device", "EventOptions", "StreamOptions", "LaunchConfig", "ObjectCode", "LEGACY_DEFAULT_STREAM", "launch"),
        core.Device: ("set_current", "create_event", "create_stream", "allocate", "properties", "name", "compute_capability", "device_id"),
        core.Stream: ("record", "create_graph_builder"),
        core.Event: ("sync", "__sub__"),
        core.Buffer: ("fill",),
        core.ObjectCode: ("from_cubin", "get_kernel"),
        core.Kernel: ("handle",),
        core.graph.GraphBuilder: ("begin_building", "end_building", "complete", "close", "graph_definition"),
        core.graph.GraphDefinition: ("nodes",),
        core.graph.Graph: ("upload", "launch"),
    }  # fmt: skip
    assert not [(owner, name) for owner, names in used.items() for name in names if not hasattr(owner, name)]
    core.EventOptions(timing_enabled=True), core.StreamOptions(nonblocking=False)
    core.LaunchConfig(grid=(2, 1), block=(32,), shmem_size=0)
