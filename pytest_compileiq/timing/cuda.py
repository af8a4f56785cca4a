"""The GPU's clock: CUDA events around the work, and what GPU this is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Literal

from pytest_compileiq.errors import BodyError, EnvironmentFault
from pytest_compileiq.timing.base import Device
from pytest_compileiq.timing.cuda_context import cuda_core, launching_on, visible_gpu
from pytest_compileiq.timing.nvml import driver_version, power_limit_w, snapshot

_L2_MULTIPLE = 2  # a buffer of the cache's own size may leave lines of the kernel's in it


class CudaClock:
    """CUDA events on the legacy default stream. They resolve about 0.5 µs, a hundredth of the shortest sample.

    The legacy stream waits for every blocking stream of the context and they wait for it, so that what a call launches
    there or on any blocking stream (torch's default one, Triton's, our launcher's, the per-thread default) lies between
    the events. Work on a stream made non-blocking (torch's side streams, ``cuda.core``'s unless told otherwise) does
    not: the call has to join it to a blocking stream.

    Args:
        l2: ``"flush"`` overwrites the L2 cache before each sample, outside the events, so that the sample's first call
            finds nothing of its own there; the memset also keeps the GPU busy while the host enqueues. Further calls
            of the same sample find what the one before left. ``"warm"`` leaves the cache as it is.
        graph: capture the calls of a sample into a CUDA graph once and time its replay, which takes the host's launch
            cost out. Only launches of our own launcher are captured.

    Raises:
        EnvironmentFault: no driver, no visible device (both ``NoDevice``), or no cuda-core.
    """

    shortest_s = 50e-6

    def __init__(self, *, l2: Literal["flush", "warm"] = "flush", graph: bool = False) -> None:
        self._core = cuda_core()
        self._gpu = visible_gpu(self._core)
        self._gpu.set_current()
        self._stream = self._core.LEGACY_DEFAULT_STREAM
        timed = self._core.EventOptions(timing_enabled=True)
        self._start, self._end = self._gpu.create_event(timed), self._gpu.create_event(timed)
        self._scratch = self._allocate_scratch() if l2 == "flush" else None
        self._graph = graph
        # By identity: callables of the two arms may compare equal. The callable is kept so that its id stays its own.
        self._graphs: dict[tuple[int, int], tuple[Callable[[], object], Any]] = {}

    def seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Seconds of GPU time for one call of ``call``, the mean of ``repeats`` in a row.

        Raises:
            Exception: cuda-core's ``CUDAError``, whose text names the CUDA error, when the work fails; an error that
                poisons the context (``CUDA_ERROR_ILLEGAL_ADDRESS``) fails every later call in this process too.
            BodyError: ``graph`` is on and the call launched nothing that could be captured.
        """
        graph = self._replayable(call, repeats) if self._graph else None
        if self._scratch is not None:
            self._scratch.fill(0, stream=self._stream)
        self._stream.record(self._start)
        if graph is not None:
            graph.launch(self._stream)
        else:
            for _ in range(repeats):
                call()
        self._stream.record(self._end)
        self._end.sync()
        milliseconds: float = self._end - self._start
        return milliseconds * 1e-3 / repeats

    sample = seconds

    def _allocate_scratch(self) -> Any:
        size_bytes = max(1, _L2_MULTIPLE * self._gpu.properties.l2_cache_size)
        return self._gpu.allocate(size_bytes, stream=self._stream)

    def _replayable(self, call: Callable[[], object], repeats: int) -> Any:
        key = (id(call), repeats)
        if key not in self._graphs:
            self._graphs[key] = (call, self._capture(call, repeats))
        return self._graphs[key][1]

    def _capture(self, call: Callable[[], object], repeats: int) -> Any:
        call()  # what only a first call does, such as loading code lazily, must not happen within a capture
        # Blocking, so that a launch on the legacy stream within the capture is CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        # beside a non-blocking stream it would run at once and be missing from the replay.
        stream = self._gpu.create_stream(options=self._core.StreamOptions(nonblocking=False))
        builder = stream.create_graph_builder()
        try:
            builder.begin_building("thread_local")  # forbids what a replay would not repeat, such as cudaMalloc
            with launching_on(stream):
                for _ in range(repeats):
                    call()
            builder.end_building()
            if not builder.graph_definition.nodes():
                raise BodyError("measure(graph=True) captured nothing: launch with the kernel that load() gives")
            graph = builder.complete()
        except BaseException:
            with suppress(Exception):  # closing ends the capture, and raises again what went wrong
                builder.close()
            raise
        builder.close()
        graph.upload(self._stream)
        return graph


class CudaEnergy:
    """Joules by NVML's counter, which moves every few ten milliseconds: a sample lasts long enough for a hundred steps.

    Raises:
        EnvironmentFault: as for ``CudaClock``, or the GPU counts no energy.
    """

    shortest_s = 2.0

    def __init__(self, *, l2: Literal["flush", "warm"] = "flush", graph: bool = False) -> None:
        self._clock = CudaClock(l2=l2, graph=graph)
        self._joules()

    def seconds(self, call: Callable[[], object], repeats: int) -> float:
        """Seconds of GPU time for one call, as ``CudaClock`` takes them."""
        return self._clock.seconds(call, repeats)

    def sample(self, call: Callable[[], object], repeats: int) -> float:
        """Joules for one call, the mean of ``repeats`` in a row; what the idle GPU draws meanwhile is in it."""
        before = self._joules()
        self._clock.seconds(call, repeats)
        return (self._joules() - before) / repeats

    def _joules(self) -> float:
        seen = snapshot()
        if seen is None or seen.energy_mj is None:
            raise EnvironmentFault("this GPU counts no energy: leave the objective out, or record it in the body")
        return seen.energy_mj * 1e-3


def cuda_device() -> Device:
    """The GPU that kernels run on: the current context's, else the first that CUDA shows. Makes no context.

    Raises:
        EnvironmentFault: no driver, no visible device (both ``NoDevice``), or no cuda-core.
    """
    gpu = visible_gpu(cuda_core())
    return Device(gpu.name, architecture(*gpu.compute_capability), driver_version(), power_limit_w(gpu.device_id))


def context_is_poisoned() -> bool:
    """Whether an earlier error, such as an illegal address, fails everything that this process does on the GPU."""
    try:
        visible_gpu(cuda_core()).set_current()  # a thread that has not used the GPU yet has no context to ask
        # Device.sync would bring up the CUDA runtime, which refuses older drivers.
        driver: Any = import_module("cuda.bindings.driver")
        (result,) = driver.cuCtxSynchronize()
    except Exception:  # whatever it is, nothing works in this process any more
        return True
    return bool(result != driver.CUresult.CUDA_SUCCESS)


def architecture(major: int, minor: int) -> str:
    """The most specific target that runs on a compute capability: ``sm_80``, and from 9.0 on ``sm_90a``."""
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
