"""The GPU's clock: CUDA events around the work, and what GPU this is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter
from typing import Any

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import L2
from pytest_compileiq.samples import Conditions
from pytest_compileiq.timing.clock import Device, SingleCalls, StoreLimit
from pytest_compileiq.timing.cuda_context import (
    Driver,
    Flip,
    L2Cache,
    cuda_core,
    current_stream,
    current_uuid,
    uuid_of,
    visible_gpu,
)
from pytest_compileiq.timing.launching import Launching, capture
from pytest_compileiq.timing.nvml import driver_version, power_limit_w, snapshot

Call = Callable[[], object]

_BYTES_A_CYCLE = 128  # between a multiprocessor and its L1 cache: Volta to Hopper tuning guides
_OFFSETS = 5  # samples of an empty kernel
_HOST_SHARE = 0.8  # of a sample: when enqueuing takes as much, the GPU has waited for it
_HOST_BOUND_SAMPLES = 0.25
_MOST_CALLS_OF_A_GRAPH = 1000


@dataclass(frozen=True)
class _Pair:
    """The events before and after what is timed."""

    start: Any
    end: Any

    def seconds(self) -> float:
        milliseconds: float = self.end - self.start
        return milliseconds * 1e-3


@dataclass
class _HostLimit:
    """How often the GPU waited for the host to enqueue."""

    samples: int = 0
    bound: int = 0
    call_s: float = 0.0


class CudaClock:
    """CUDA events around the calls. They resolve about 0.5 µs, a five hundredth of the shortest sample."""

    # A sample of a cold cache is `repeats` times an overwrite of what the call writes, a sweep of the L2 cache and one
    # call, with two events around each call; one of a warm cache is a call that is not timed, and `repeats` calls
    # between two events. Either is one CUDA graph, or launched call by call; then a sweep also keeps the GPU busy while
    # the host enqueues, and a sample for which the GPU waited for the host counts as host-bound.
    # The events lie on the legacy default stream, which waits for every blocking stream of the context, and they for
    # it; with `all_streams` they stand for non-blocking streams too.
    shortest_s = 250e-6

    def __init__(self, launching: Launching, *, l2: L2 = "flush") -> None:
        self._core = cuda_core()
        self._gpu = visible_gpu(self._core)
        self._gpu.set_current()
        self._stream = self._core.LEGACY_DEFAULT_STREAM
        self._driver = Driver()
        self._cache = L2Cache()
        if l2 == "flush":
            self._cache.expect_flushable()
        self._l2: L2 = l2
        self.single_calls: SingleCalls = "bare" if l2 == "flush" else "none"
        self._launching = launching
        self._pairs: list[_Pair] = []
        self._fence = self._gpu.create_event()
        self._host = _HostLimit()
        self._repeats = 1
        # By identity: callables of the two arms may compare equal. The callable is kept so that its id stays its own.
        self._graphs: dict[tuple[int, int], tuple[Call, Any]] = {}
        self._captured: dict[int, object] = {}
        self._flips: dict[int, Sequence[Flip]] = {}

    def seconds(self, call: Call, repeats: int) -> float:
        self._repeats = repeats
        pairs = self._pairs_of(repeats if self._l2 == "flush" else 1)
        if self._launching.launch == "graph":
            self._replayable(call, repeats, pairs).launch(self._stream)
            self._driver.finish()  # until its node is reached, an event is still that of the launch before
        else:
            host_s = self._emit(self._stream, call, repeats, pairs)
            pairs[-1].end.sync()
            self._note(host_s, sum(pair.seconds() for pair in pairs), repeats)
        return sum(pair.seconds() for pair in pairs) / repeats

    sample = seconds

    def once(self, call: Call) -> object:
        if self._launching.launch == "graph":
            self._replayable(call, 0, []).launch(self._stream)
            value = self._captured[id(call)]
        else:
            value = call()
        self._driver.finish()
        return value

    def overwrite_before(self, call: Call, flips: Sequence[Callable[[], Flip | None]]) -> None:
        if self._l2 == "flush":  # a warm cache would hold what is flipped
            self._flips[id(call)] = [flip for make in flips if (flip := make()) is not None]

    def store_limit(self) -> StoreLimit:
        has = self._gpu.properties
        bytes_per_s = _BYTES_A_CYCLE * float(has.multiprocessor_count) * has.clock_rate * 1e3
        return StoreLimit(bytes_per_s, f"{_BYTES_A_CYCLE} bytes a cycle of each of its multiprocessors")

    def why_void(self) -> str | None:
        if self._host.bound <= _HOST_BOUND_SAMPLES * self._host.samples:
            return None
        return (
            f"the call is host-bound: the host takes {self._host.call_s * 1e6:.1f} µs to enqueue what the GPU does in "
            f"{self._launching.kernel_s * 1e6:.1f} µs, launched one by one ({self._launching.why_eager}); "
            "use measure(…, graph=True), or give each call more work"
        )

    def conditions(self) -> Conditions:
        def empty() -> None:
            self._cache.empty(current_stream(self._core))

        empty_s = min(self.seconds(empty, self._repeats) for _ in range(_OFFSETS))
        return Conditions(
            device=self._gpu.name,
            launch=self._launching.launch,
            l2=self._l2,
            all_streams=self._launching.all_streams,
            empty_s=empty_s,
            eager_ratio=self._launching.eager_ratio,
        )

    # ── one sample ───────────────────────────────────────────────────────────────────────────────────────────────

    def _emit(self, stream: Any, call: Call, repeats: int, pairs: list[_Pair]) -> float:
        """Enqueue one sample on ``stream``; returns the host's seconds between events that the GPU had reached."""
        if self._l2 == "warm":
            call()
            return self._timed(stream, call, repeats, pairs[0])
        host_s = 0.0
        for pair in pairs:
            for flip in self._flips.get(id(call), ()):
                flip(stream)
            self._cache.sweep(stream)
            host_s += self._timed(stream, call, 1, pair)
        return host_s

    def _timed(self, stream: Any, call: Call, times: int, pair: _Pair) -> float:
        captured = stream is not self._stream
        begun = perf_counter()
        self._driver.record(pair.start, stream, within_capture=captured)
        if self._launching.all_streams and not captured:
            self._driver.hold_all_streams(pair.start)
        for _ in range(times):
            call()
        if self._launching.all_streams and not captured:
            self._driver.record_all_streams(self._fence)
            stream.wait(self._fence)
        self._driver.record(pair.end, stream, within_capture=captured)
        # While the GPU is still busy with what came before, it does not wait for the host.
        return 0.0 if captured or not pair.start.is_done else perf_counter() - begun

    def _note(self, host_s: float, device_s: float, repeats: int) -> None:
        self._host.samples += 1
        if host_s >= _HOST_SHARE * device_s:
            self._host.bound += 1
            self._host.call_s = host_s / repeats

    def _pairs_of(self, count: int) -> list[_Pair]:
        timed = self._core.EventOptions(timing_enabled=True)
        while len(self._pairs) < count:
            self._pairs.append(_Pair(self._gpu.create_event(timed), self._gpu.create_event(timed)))
        return self._pairs[:count]

    def _replayable(self, call: Call, repeats: int, pairs: list[_Pair]) -> Any:
        key = (id(call), repeats)
        if key not in self._graphs:

            def emit(stream: Any) -> None:
                if repeats:
                    self._emit(stream, call, repeats, pairs)
                else:
                    self._captured[id(call)] = call()

            self._graphs[key] = (call, capture(emit, first=call))
        return self._graphs[key][1]


class CudaEnergy:
    """Joules by NVML's counter, which moves every few ten milliseconds."""

    shortest_s = 2.0  # a hundred of its steps
    single_calls: SingleCalls = "none"

    def __init__(self, launching: Launching) -> None:
        self._clock = CudaClock(launching, l2="warm")  # what a sweep between two calls draws would count, too
        self.once = self._clock.once
        self.overwrite_before = self._clock.overwrite_before
        self.store_limit = self._clock.store_limit
        self.why_void = self._clock.why_void
        self.conditions = self._clock.conditions
        self._joules()

    def seconds(self, call: Call, repeats: int) -> float:
        several = min(repeats, _MOST_CALLS_OF_A_GRAPH)
        return fmean(self._clock.seconds(call, several) for _ in range(math.ceil(repeats / several)))

    def sample(self, call: Call, repeats: int) -> float:
        several = min(repeats, _MOST_CALLS_OF_A_GRAPH)
        calls = several * math.ceil(repeats / several)
        before = self._joules()  # what the idle GPU draws meanwhile is in it
        self.seconds(call, calls)
        return (self._joules() - before) / calls

    def _joules(self) -> float:
        seen = snapshot(current_uuid())
        if seen is None or seen.energy_mj is None:
            raise EnvironmentFault("this GPU counts no energy: leave the objective out, or record it in the body")
        return seen.energy_mj * 1e-3


def cuda_device() -> Device:
    """The GPU that kernels run on: the current context's, else the first that CUDA shows. Makes no context."""
    gpu = visible_gpu(cuda_core())
    return Device(gpu.name, architecture(*gpu.compute_capability), driver_version(), power_limit_w(uuid_of(gpu)))


def context_is_poisoned() -> bool:
    """Whether an earlier error, such as an illegal address, fails everything that this process does on the GPU."""
    try:
        visible_gpu(cuda_core()).set_current()  # a thread that has not used the GPU yet has no context to ask
        Driver().finish()  # Device.sync would bring up the CUDA runtime, which refuses older drivers
    except Exception:  # whatever it is, nothing works in this process any more
        return True
    return False


def finish() -> None:
    """Wait for what was launched on the GPU in use."""
    visible_gpu(cuda_core()).set_current()
    Driver().finish()


def architecture(major: int, minor: int) -> str:
    """The most specific target that runs on a compute capability: ``sm_80``, and from 9.0 on ``sm_90a``."""
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
