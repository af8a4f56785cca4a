"""Whatever traces the calls is held off while they are sampled, and named where it cannot be."""

from __future__ import annotations

import sys
import threading
from random import Random
from types import SimpleNamespace

import pytest

from pytest_compileiq.timing.clock import CpuClock
from pytest_compileiq.timing.sampler import Timed, plan_block, sample_calls, why_traced


def test_tracers_are_held_off_while_calls_are_sampled_and_then_restored():
    def tracer(*_event):
        return tracer

    def call():
        seen.add((sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()))

    def now():
        return sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()

    seen: set[object] = set()
    before = now()
    try:
        threading.settrace(tracer)
        threading.setprofile(tracer)
        sys.setprofile(tracer)
        sys.settrace(tracer)
        plan = plan_block(Random(1), quads=1, samples=1)
        sample_calls(plan, {arm: Timed(arm, call, CpuClock(), lambda: None) for arm in ("baseline", "tuned")})
        restored = now()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
        threading.settrace(before[2])
        threading.setprofile(before[3])
    assert seen == {(None, None, None, None)}
    assert restored == (tracer, tracer, tracer, tracer)


@pytest.mark.parametrize("tools", [{}, {1: "coverage"}])
def test_a_tool_of_sys_monitoring_is_named(monkeypatch, tools):
    monkeypatch.setattr(sys, "monitoring", SimpleNamespace(get_tool=tools.get), raising=False)
    assert ("coverage" in (why_traced() or "")) is bool(tools)
