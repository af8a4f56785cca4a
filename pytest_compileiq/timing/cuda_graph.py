"""Calls captured into a CUDA graph, whose replay costs the host one launch."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_compileiq.errors import CannotMeasure
from pytest_compileiq.timing.cuda_context import cuda_core, launching_on, visible_gpu

_REFUSED = re.compile(r"CUDA_ERROR_STREAM_CAPTURE_(\w+)|stream is capturing|cudaErrorStreamCapture(\w+)")
_REMEDIES = {
    "IMPLICIT": "it works on the legacy default stream by itself: launch with the kernel that load() gives, or on "
    "torch's current stream",
    "UNSUPPORTED": "it waits for the GPU, copies from or to the host, or allocates memory: do that before measure()",
    "UNJOINED": "it leaves work on another stream: let the current stream wait for it before the call ends",
    "ISOLATION": "it waits for work that was begun before the call: do that before measure()",
}


def capture(emit: Callable[[Any], object], first: Callable[[], object]) -> Any:
    """The graph of what ``emit`` gives to the stream that it is called with, ready to be launched.

    This package's launches go to that stream, and torch's, where torch is loaded. ``first`` is called there before:
    what only a first call does, such as loading code or setting memory aside, must not happen within a capture.

    Raises:
        CannotMeasure: something in it cannot be captured; the message says what to change.
        Exception: whatever ``emit`` raises by itself.
    """
    core = cuda_core()
    # Blocking, so that a launch on the legacy stream within the capture is CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    # beside a non-blocking stream it would run at once and be missing from the replay.
    stream = visible_gpu(core).create_stream(options=core.StreamOptions(nonblocking=False))
    builder = stream.create_graph_builder()
    try:
        with _current(stream):
            first()
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
            raise CannotMeasure(_sentence(refused, error)) from error
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


def _sentence(refused: re.Match[str], error: BaseException) -> str:
    kind = (refused[1] or refused[2] or "UNSUPPORTED").upper()
    remedy = _REMEDIES.get(kind, "see what the call does besides launching")
    said = refused[0] if refused[1] or refused[2] else f"{type(error).__name__}: {refused[0]}"
    return f"the measured call cannot be captured into a CUDA graph ({said}): {remedy}; or measure(graph=False)"
