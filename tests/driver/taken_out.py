"""A plugin for pytest that takes one feature out of the GPU's clock, named by TAKEN_OUT: does a test of it fail?"""

from __future__ import annotations

import os

import pytest

from pytest_compileiq.timing import launching
from pytest_compileiq.timing.cuda import CudaClock
from pytest_compileiq.timing.cuda_context import Driver, L2Cache, cuda_core, visible_gpu

_DIRTY_BYTES = 8192


def _no_sweep(cache: L2Cache, stream: object) -> None:
    pass


def _dirty_sweep(cache: L2Cache, stream: object) -> None:
    gpu = visible_gpu(cuda_core())
    gpu.allocate(_DIRTY_BYTES, stream=stream).fill(0, stream=stream)


def _nothing(*_: object, **__: object) -> None:
    pass


FEATURES = {
    "sweeps": lambda patch: patch.setattr(L2Cache, "sweep", _no_sweep),
    "clean sweeps": lambda patch: patch.setattr(L2Cache, "sweep", _dirty_sweep),
    "warm calls": lambda patch: patch.setattr(CudaClock, "_emit", _without_warm_call(CudaClock._emit)),
    "graphs": lambda patch: patch.setattr(launching._Probe, "_why_eager", lambda *_: "taken out"),
    "all streams": lambda patch: patch.setattr(launching._Probe, "_uses_other_streams", lambda *_: False),
    "a refusal of nothing": lambda patch: patch.setattr(launching._Probe, "_expect_a_kernel", _nothing),
    "the host's share": lambda patch: patch.setattr(CudaClock, "why_void", _nothing),
    "waiting for the GPU": lambda patch: patch.setattr(Driver, "finish", _nothing),
}


def _without_warm_call(emit):  # type: ignore[no-untyped-def]
    def cold_first(clock, stream, call, repeats, pairs):  # type: ignore[no-untyped-def]
        if clock._l2 == "flush":
            return emit(clock, stream, call, repeats, pairs)
        clock._cache.sweep(stream)
        return clock._timed(stream, call, repeats, pairs[0])

    return cold_first


@pytest.fixture(autouse=True)
def _taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    if feature := os.environ.get("TAKEN_OUT"):
        FEATURES[feature](monkeypatch)
