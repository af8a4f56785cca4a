"""A ``cuda.core`` that writes down what it is asked, in order; time passes only where a test says so."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import pytest

SHARED_ATTRIBUTE = 8


class CUDAError(Exception):
    pass


class FakeStream:
    def __init__(self, cuda, name):
        self.cuda, self.name = cuda, name

    def record(self, event):
        self.cuda.log.append(f"record {event.name} on {self.name}")
        event.at_ms = self.cuda.now_ms

    def create_graph_builder(self):
        return FakeBuilder(self.cuda, self)


class FakeEvent:
    def __init__(self, cuda, name):
        self.cuda, self.name, self.at_ms = cuda, name, 0.0

    def sync(self):
        self.cuda.log.append(f"sync {self.name}")
        if self.cuda.fails_at_sync:
            raise CUDAError(self.cuda.fails_at_sync)

    def __sub__(self, other):
        return self.at_ms - other.at_ms


class FakeBuffer:
    def __init__(self, cuda, size):
        self.cuda, self.size = cuda, size

    def fill(self, value, *, stream):
        self.cuda.log.append(f"fill {self.size} on {stream.name}")
        self.cuda.now_ms += 1000.0


class FakeGraph:
    def __init__(self, cuda, nodes):
        self.cuda, self.nodes = cuda, nodes

    def upload(self, stream):
        self.cuda.log.append(f"upload on {stream.name}")

    def launch(self, stream):
        self.cuda.log.append(f"replay {len(self.nodes)} on {stream.name}")
        self.cuda.now_ms += self.cuda.kernel_ms * len(self.nodes)


class FakeBuilder:
    def __init__(self, cuda, stream):
        self.cuda, self.stream = cuda, stream
        self.graph_definition = SimpleNamespace(nodes=lambda: set(range(len(self.nodes))))
        self.nodes = []

    def begin_building(self, mode):
        self.cuda.log.append(f"capture {mode} on {self.stream.name}")
        self.cuda.capturing = self

    def end_building(self):
        self.cuda.log.append("end capture")
        self.cuda.capturing = None

    def complete(self):
        return FakeGraph(self.cuda, self.nodes)

    def close(self):
        self.cuda.log.append("close")
        self.cuda.capturing = None


class FakeDevice:
    device_id = 0
    name = "NVIDIA H200"
    compute_capability = (9, 0)

    def __init__(self, cuda):
        self.cuda = cuda
        self.properties = SimpleNamespace(l2_cache_size=50)

    def set_current(self):
        self.cuda.log.append("set_current")

    def create_event(self, options):
        assert options == {"timing_enabled": True}
        self.cuda.events += 1
        return FakeEvent(self.cuda, f"event{self.cuda.events}")

    def create_stream(self, *, options):
        assert options == {"nonblocking": False}
        return FakeStream(self.cuda, "capture")

    def allocate(self, size, *, stream):
        self.cuda.log.append(f"allocate {size} on {stream.name}")
        return FakeBuffer(self.cuda, size)


class FakeCuda:
    """The module; ``kernel_ms`` is what one launch takes on the GPU."""

    def __init__(self):
        self.log, self.launches = [], []
        self.now_ms, self.kernel_ms, self.events = 0.0, 3.0, 0
        self.capturing = None
        self.fails_at_sync = self.no_device = ""
        self.LEGACY_DEFAULT_STREAM = FakeStream(self, "legacy")
        self.ObjectCode = SimpleNamespace(from_cubin=lambda code: SimpleNamespace(get_kernel=self._kernel))
        self.device = FakeDevice(self)

    def Device(self):
        if self.no_device:
            raise CUDAError(self.no_device)
        return self.device

    def EventOptions(self, **options):
        return options

    def StreamOptions(self, **options):
        return options

    def LaunchConfig(self, **options):
        return options

    def _kernel(self, name):
        return SimpleNamespace(name=name, handle=f"handle of {name}")

    def launch(self, stream, config, kernel, *args):
        self.launches.append((stream.name, config, kernel.name, args))
        self.work(stream)

    def work(self, stream):
        """Something is launched on ``stream``."""
        if self.capturing is None:
            self.log.append(f"launch on {stream.name}")
            self.now_ms += self.kernel_ms
        elif stream is self.capturing.stream:
            self.capturing.nodes.append("kernel")
        else:
            raise CUDAError("CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: disallowed")


def install(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """A machine with a driver, cuda-core and one GPU."""
    cuda = FakeCuda()
    real = ctypes.CDLL
    monkeypatch.setattr(
        ctypes, "CDLL", lambda name, *rest, **more: cuda if "libcuda" in name else real(name, *rest, **more)
    )
    monkeypatch.setitem(sys.modules, "cuda.core", cuda)
    return cuda


def install_driver(monkeypatch: pytest.MonkeyPatch, most_shared_bytes: int) -> list[tuple]:
    """``cuda.bindings.driver`` as far as kernel attributes go; returns the attributes set."""
    calls = []
    result = SimpleNamespace(
        CUDA_SUCCESS="success", CUDA_ERROR_INVALID_VALUE=SimpleNamespace(name="CUDA_ERROR_INVALID_VALUE")
    )

    def set_attribute(*arguments):
        calls.append(arguments)
        return (result.CUDA_SUCCESS if arguments[1] <= most_shared_bytes else result.CUDA_ERROR_INVALID_VALUE,)

    attributes = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=SHARED_ATTRIBUTE)
    driver = SimpleNamespace(CUresult=result, CUfunction_attribute=attributes, cuKernelSetAttribute=set_attribute)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    return calls
