"""How the measured calls of a GPU reach it: in a CUDA graph, or launched one by one, and on which streams.

A call that does nothing but launch, with this package's launcher, is captured into a graph by default: launched one by
one, kernels of a few microseconds are over before the next one is there, and what would be measured is the host.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from pytest_compileiq.errors import CannotMeasure
from pytest_compileiq.model import Arm, Launch
from pytest_compileiq.timing.cuda_context import (
    Driver,
    L2Cache,
    NotedLaunches,
    cuda_core,
    launching_on,
    noting_launches,
    visible_gpu,
)
from pytest_compileiq.timing.sampler import blame

Call = Callable[[], object]

_REFUSED = re.compile(r"CUDA_ERROR_STREAM_CAPTURE_(\w+)|stream is capturing|cudaErrorStreamCapture(\w+)")
_REMEDIES = {
    "IMPLICIT": "it works on the legacy default stream by itself: launch with the kernel that load() gives, or on "
    "torch's current stream",
    "UNSUPPORTED": "it waits for the GPU, copies from or to the host, or allocates memory: do that before measure()",
    "UNJOINED": "it leaves work on another stream: let the current stream wait for it before the call ends",
    "ISOLATION": "it waits for work that was begun before the call: do that before measure()",
}


def capture(emit: Callable[[Any], object], first: Callable[[], object]) -> Any:
    """The graph of what ``emit`` gives to the stream that it is called with, ready to be launched."""
    core = cuda_core()
    # Blocking, so that a launch on the legacy stream within the capture is CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    # beside a non-blocking stream it would run at once and be missing from the replay.
    stream = visible_gpu(core).create_stream(options=core.StreamOptions(nonblocking=False))
    builder = stream.create_graph_builder()
    try:
        with _current(stream):
            first()  # what only a first call does, such as loading code, must not happen within a capture
            builder.begin_building("thread_local")  # forbids what a replay would not repeat, such as cudaMalloc
            emit(stream)
        builder.end_building()
        if not builder.graph_definition.nodes():
            raise CannotMeasure("measure(graph=True) captured nothing: launch with the kernel that load() gives")
        graph = builder.complete()
    except BaseException as error:
        with suppress(Exception):  # closing ends the capture, and raises again what went wrong
            builder.close()
        if refused := _REFUSED.search(str(error)):
            kind = (refused[1] or refused[2] or "UNSUPPORTED").upper()
            remedy = _REMEDIES.get(kind, "see what the call does besides launching")
            said = refused[0] if refused[1] or refused[2] else f"{type(error).__name__}: {refused[0]}"
            raise CannotMeasure(
                f"the measured call cannot be captured into a CUDA graph ({said}): {remedy}; or measure(graph=False)"
            ) from error
        raise
    builder.close()
    graph.upload(core.LEGACY_DEFAULT_STREAM)
    return graph


@contextmanager
def _current(stream: Any) -> Iterator[None]:
    """Make ``stream`` the one that this package and torch launch on."""
    torch = sys.modules.get("torch")
    with launching_on(stream):
        if torch is None or not torch.cuda.is_available():
            yield
            return
        with torch.cuda.stream(torch.cuda.ExternalStream(int(stream.handle))):
            yield


_HOST_WORK_S = 50e-6  # of a call, beside its launches: building their arguments takes less
_MORE_HOST_LOOKS = 4
_AT_LEAST_S = 20e-6  # that the calls of a probe take together
_MOST_CALLS = 8
_MOST_SWEEPS = 100
_SHORTEST_KERNEL_S = 0.25e-6  # an empty one takes a microsecond
_LAUNCH_GAP_S = 2e-6  # between two launches of a stream, beyond that of a graph
_SAME_SHARE = 0.25  # by which two ways to launch the same kernels may differ
_OTHER_STREAMS_SHARE = 0.1


@dataclass(frozen=True)
class Launching:
    """How the calls of both arms are launched."""

    launch: Launch
    all_streams: bool  # whether events have to stand for streams that do not wait for the legacy one, too
    kernel_s: float  # seconds of GPU time of the shorter call, with nothing of the host in it
    eager_ratio: float | None  # of the time launched one by one to that in a graph; None where there is no graph
    why_eager: str | None  # why they are not in a graph; None where they are


def choose_launching(calls: Mapping[Arm, Call], wanted: Launch | None) -> Launching:
    """How to launch ``calls``, the two arms': as ``wanted``, or in a graph wherever it does the same."""
    probe = _Probe()
    looks = [_look(probe, arm, calls[arm], wanted) for arm in sorted(calls)]  # what both cannot do is the baseline's
    reasons = [look.why_eager for look in looks if look.why_eager]
    ratios = [look.eager_ratio for look in looks if look.eager_ratio is not None]
    return Launching(
        launch="eager" if reasons else "graph",
        all_streams=any(look.all_streams for look in looks),
        kernel_s=min(look.kernel_s for look in looks),
        eager_ratio=max(ratios) if ratios and not reasons else None,
        why_eager=reasons[0] if reasons else None,
    )


def _look(probe: _Probe, arm: Arm, call: Call, wanted: Launch | None) -> Launching:
    try:
        with blame(arm):
            return probe.look(call, wanted)
    except CannotMeasure as error:
        error.arm = arm
        raise


class _Probe:
    """Measures single calls behind a lead: sweeps that keep the GPU busy until the host has enqueued them."""

    def __init__(self) -> None:
        self._core = cuda_core()
        self._gpu = visible_gpu(self._core)
        self._gpu.set_current()
        self._driver = Driver()
        self._cache = L2Cache()
        self._stream = self._core.LEGACY_DEFAULT_STREAM
        timed = self._core.EventOptions(timing_enabled=True)
        self._start, self._end, self._late = (self._gpu.create_event(timed) for _ in range(3))
        self._covers = self._driver.covers_all_streams(self._late)
        self._cache.sweep(self._stream)  # a first launch loads code
        self._sweep_s = self._between(lambda: self._cache.sweep(self._stream), leads=0)
        self._nothing_s = self._behind(lambda: None, 1, 0.0, all_streams=False)

    def look(self, call: Call, wanted: Launch | None) -> Launching:
        call()
        self._driver.finish()
        with noting_launches() as launches:
            host_s = self._host_seconds(call)
        count = self._count(call, host_s)
        eager_s = self._behind(call, count, host_s, all_streams=False) / count
        all_streams = self._uses_other_streams(call, count, host_s, eager_s)
        if all_streams:
            eager_s = self._behind(call, count, host_s, all_streams=True) / count
        self._expect_a_kernel(eager_s, count)
        why_eager = self._why_eager(call, launches, host_s, eager_s, wanted)
        ratio = None if why_eager else self._eager_ratio(call, count)
        return Launching("eager" if why_eager else "graph", all_streams, eager_s, ratio, why_eager)

    # ── what a call does ─────────────────────────────────────────────────────────────────────────────────────────

    def _expect_a_kernel(self, call_s: float, count: int) -> None:
        if call_s - self._nothing_s / count < _SHORTEST_KERNEL_S:
            where = "" if self._covers else " (this driver's events cover no non-blocking stream)"
            raise CannotMeasure(
                f"the measured call launches nothing on {self._gpu.name}{where}: hand the call that launches the "
                "kernel to measure(), on the device that was current before"
            )

    def _uses_other_streams(self, call: Call, count: int, host_s: float, legacy_s: float) -> bool:
        """Whether work of the call escapes the events of the legacy stream."""
        if self._covers:
            all_s = self._behind(call, count, host_s, all_streams=True) / count
            return all_s > (1 + _OTHER_STREAMS_SHARE) * legacy_s + _LAUNCH_GAP_S
        begun = perf_counter()
        self._driver.finish()  # the events of the probe have been waited for
        after_s = perf_counter() - begun
        if after_s > _HOST_WORK_S + _OTHER_STREAMS_SHARE * legacy_s:
            raise CannotMeasure(
                f"the measured call works on for {after_s * 1e6:.0f} µs after the default stream: its work is on a "
                "non-blocking stream, which this driver's events do not cover: let the default stream wait for it "
                "(torch.cuda.current_stream().wait_stream(side)), or use a driver of CUDA 12.5 or later"
            )
        return False

    def _why_eager(
        self, call: Call, launches: NotedLaunches, host_s: float, eager_s: float, wanted: Launch | None
    ) -> str | None:
        """Why the call is not captured; None where it is."""
        if wanted == "eager":
            return "as measure(graph=False) says, or as in the blocks before"
        if wanted == "graph":
            self._replayable(call, launches)
            return None
        if not launches.made:
            return "it does not launch by the kernels of load(); graph=True captures torch's current stream too"
        beside_s = self._host_work(call, host_s - launches.seconds)
        if beside_s > _HOST_WORK_S:
            return f"the host works for {beside_s * 1e6:.0f} µs in each call beside launching"
        try:
            graph = self._replayable(call, launches)
        except Exception as error:  # also what only a capture makes the call raise
            return str(error)
        graph_s = self._behind(lambda: graph.launch(self._stream), 1, 0.0, all_streams=False)
        if eager_s > (1 + _SAME_SHARE) * graph_s + _LAUNCH_GAP_S * (1 + len(launches.made)):
            return (
                f"{eager_s * 1e6:.1f} µs of launches are {graph_s * 1e6:.1f} µs in a graph: not all of it is captured"
            )
        return None

    def _replayable(self, call: Call, launches: NotedLaunches) -> Any:
        """A graph of the call, which launches the same each time."""
        graphs = [self._captured(call, first) for first in (call, lambda: None)]
        if any(noted.made != launches.made for _, noted in graphs):
            raise CannotMeasure(
                "the measured call cannot be replayed as a CUDA graph: it does not launch the same kernels with the "
                "same arguments each time; make it, or measure(graph=False)"
            )
        return graphs[0][0]

    def _captured(self, call: Call, first: Call) -> tuple[Any, NotedLaunches]:
        noted = NotedLaunches()

        def emit(stream: Any) -> None:
            nonlocal noted
            with noting_launches() as noted:
                call()

        return capture(emit, first), noted

    # ── how long it takes ────────────────────────────────────────────────────────────────────────────────────────

    def _host_seconds(self, call: Call) -> float:
        begun = perf_counter()
        call()
        seconds = perf_counter() - begun
        self._driver.finish()
        return seconds

    def _host_work(self, call: Call, beside_s: float) -> float:
        """The host's seconds in a call beside its launches: the least of a few, since a busy host may take a break."""
        for _ in range(_MORE_HOST_LOOKS):
            if beside_s <= _HOST_WORK_S:
                break
            with noting_launches() as launches:
                host_s = self._host_seconds(call)
            beside_s = min(beside_s, host_s - launches.seconds)
        return beside_s

    def _count(self, call: Call, host_s: float) -> int:
        """How many calls last long enough for the events' resolution."""
        single_s = self._behind(call, 1, host_s, all_streams=self._covers)
        return min(_MOST_CALLS, math.ceil(_AT_LEAST_S / max(single_s, 1e-9)))

    def _eager_ratio(self, call: Call, count: int) -> float:
        """How many times as long the call takes launched one by one as in a graph, once the GPU has caught up."""

        def in_a_row(stream: Any) -> None:
            for _ in range(count):
                call()

        eager_s = self._between(lambda: in_a_row(None), leads=0)
        graph = capture(in_a_row, first=lambda: None)
        return eager_s / max(self._between(lambda: graph.launch(self._stream), leads=1), 1e-9)

    def _behind(self, call: Call, count: int, host_s: float, *, all_streams: bool) -> float:
        """Seconds of ``count`` calls, which the GPU begins when the host has enqueued them."""
        leads = min(_MOST_SWEEPS, 1 + math.ceil(2 * count * host_s / self._sweep_s))

        def calls() -> None:
            for _ in range(count):
                call()

        return self._between(calls, leads=leads, all_streams=all_streams)

    def _between(self, work: Call, *, leads: int, all_streams: bool = False) -> float:
        for _ in range(leads):
            self._cache.sweep(self._stream)
        self._driver.record(self._start, self._stream, within_capture=False)
        if all_streams:
            self._driver.hold_all_streams(self._start)
        work()
        if all_streams:
            self._driver.record_all_streams(self._late)
            self._stream.wait(self._late)
        self._driver.record(self._end, self._stream, within_capture=False)
        self._end.sync()
        milliseconds: float = self._end - self._start
        return milliseconds * 1e-3
