"""What cuda-core leaves to the driver's own API: events that a graph records, events of all streams, free memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pytest_compileiq.errors import BodyError

_NO_COPY = "a copy between host and GPU fails:"


class Driver:
    """The driver's API through cuda-bindings, in the context that is current."""

    def __init__(self) -> None:
        self._api: Any = import_module("cuda.bindings.driver")
        self._external = self._api.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL

    def record(self, event: Any, stream: Any, *, within_capture: bool) -> None:
        """Record ``event`` on ``stream``; within a capture, as a node of the graph, whose time can be asked for."""
        flags = int(self._external) if within_capture else 0
        self._answer(self._api.cuEventRecordWithFlags(event.handle, stream.handle, flags))

    def hold_all_streams(self, event: Any) -> None:
        """Let whatever is given to any stream of the context from now on wait for ``event``."""
        self._answer(self._api.cuCtxWaitEvent(self._context(), event.handle))

    def record_all_streams(self, event: Any) -> None:
        """Let ``event`` stand for all that was given to any stream of the context so far."""
        self._answer(self._api.cuCtxRecordEvent(self._context(), event.handle))

    def covers_all_streams(self, event: Any) -> bool:
        """Whether the driver has events of all streams: CUDA 12.5 brought them."""
        try:
            self.record_all_streams(event)
        except (BodyError, RuntimeError, AttributeError):  # the driver lacks it, or cuda-bindings does
            return False
        return True

    def free_bytes(self) -> int:
        """The GPU memory that nobody uses."""
        free, _ = self._answer(self._api.cuMemGetInfo())
        return int(free)

    def copy_to_host(self, target: int, source: int, size: int) -> None:
        """Copy ``size`` bytes from the GPU's address ``source`` to the host's address ``target``.

        Raises:
            BodyError: the copy fails, also because a kernel failed before.
        """
        self._answer(self._api.cuMemcpyDtoH(target, source, size), _NO_COPY)

    def copy_from_host(self, target: int, source: int, size: int) -> None:
        """Copy ``size`` bytes from the host's address ``source`` to the GPU's address ``target``.

        Raises:
            BodyError: as for ``copy_to_host``.
        """
        self._answer(self._api.cuMemcpyHtoD(target, source, size), _NO_COPY)

    def finish(self) -> None:
        """Wait for all streams of the context.

        Raises:
            BodyError: something that ran there failed; the message names the CUDA error.
        """
        self._answer(self._api.cuCtxSynchronize())

    def _context(self) -> Any:
        (context,) = self._answer(self._api.cuCtxGetCurrent())
        return context

    def _answer(self, answer: tuple[Any, ...], said: str = "the GPU reports") -> tuple[Any, ...]:
        if answer[0] != self._api.CUresult.CUDA_SUCCESS:
            raise BodyError(f"{said} {answer[0].name}")
        return answer[1:]
