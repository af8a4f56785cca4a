"""The tasks that a parent gives to a worker within a test: what is sent, and how it is done there."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_compileiq.benchmark.benchmark import TunedBenchmark, make_benchmark
from pytest_compileiq.benchmark.body import ArmFailure, Arms, Touched, body_of, check_body, run_arm, run_block
from pytest_compileiq.benchmark.fixture import Outputs
from pytest_compileiq.benchmark.timed_call import look
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.system.watchdog import of_each_process
from pytest_compileiq.timing.registry import is_poisoned
from pytest_compileiq.timing.sampler import BlockPlan
from pytest_compileiq.toolchains.base import Builder
from pytest_compileiq.workers.inside import Inside


def converse(inside: Inside, item: pytest.Function) -> None:
    """In a worker, within a test whose fixtures are up: do the parent's tasks until it leaves the test."""
    build_dir, builder = Path(inside.extra["build_dir"]), unpack_builder(inside.given)
    benchmark = make_benchmark(item, rootdir=item.config.rootpath, build_dir=build_dir, builder=builder)
    inside.converse(lambda task, tick: serve(benchmark, item, task, tick))


def serve(
    benchmark: TunedBenchmark, item: pytest.Function, task: Mapping[str, Any], tick: Callable[[], object]
) -> dict[str, Any]:
    """Do one task that the parent sent: a ``block`` to sample, a ``check`` of correctness, a ``look`` at a call."""
    arms: Arms = {"baseline": unpack_controls(task["baseline"]), "tuned": unpack_controls(task["tuned"])}
    workload = next(one for one in benchmark.spec.workloads if one.name == task["workload"])
    body = body_of(item)
    children = _children()
    try:
        if task["task"] == "check":
            checked = check_body(benchmark, body, arms, workload)
            answer: dict[str, Any] = {"ok": True, **_packed(checked.touched), "slots": {}}
        elif task["task"] == "look":
            times = look(partial(run_arm, benchmark, body, arms["tuned"], "tuned", workload, Outputs()), tick)
            answer = {"ok": True, "times": asdict(times) if times else None}
        else:
            plan = BlockPlan(**{**task["plan"], "quads": tuple(task["plan"]["quads"])})
            block = run_block(benchmark, body, arms, workload, plan, tick)
            answer = {
                "ok": True,
                **_packed(block.touched["tuned"]),
                "slots": {metric: [asdict(slot) for slot in slots] for metric, slots in block.slots.items()},
            }
    except ArmFailure as failure:
        poisoned = is_poisoned(benchmark.builder.clock)
        answer = {
            "ok": False, "arm": failure.arm, "kind": failure.kind, "reason": failure.reason, "poisoned": poisoned,
        }  # fmt: skip
    if left := _children() - children:
        reason = f"left {len(left)} process(es) behind"
        return {"ok": False, "arm": "tuned", "kind": "crash", "reason": reason, "poisoned": True}
    return answer


def _packed(touched: Touched) -> dict[str, Any]:
    return {"used": sorted(touched.used), "read": sorted(touched.read)}


def pack_builder(builder: Builder) -> dict[str, Any]:
    """The compiler as JSON, so that a worker need not ask it for its name again; empty where it cannot be pickled."""
    try:
        return {"builder": base64.b64encode(pickle.dumps(builder)).decode()}
    except Exception:  # whatever a toolchain of others raises
        return {}


def unpack_builder(packed: Mapping[str, Any]) -> Builder | None:
    """The inverse of ``pack_builder``; None where there is nothing, or where this process cannot rebuild it."""
    try:
        builder: Builder = pickle.loads(base64.b64decode(packed["builder"]))
    except Exception:
        return None
    return builder


def pack_controls(controls: ControlsFile | None) -> dict[str, Any] | None:
    """Controls as JSON."""
    if controls is None:
        return None
    return {"kind": controls.kind, "data": base64.b64encode(controls.data).decode(), "knobs": dict(controls.knobs)}


def unpack_controls(packed: Mapping[str, Any] | None) -> ControlsFile | None:
    """The inverse of ``pack_controls``."""
    if packed is None:
        return None
    return ControlsFile(packed["kind"], base64.b64decode(packed["data"]), packed["knobs"])


def _children() -> set[int]:
    """Processes whose parent is this one, orphans that it adopted and zombies too; empty where /proc is not."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # as of most bodies: there is no need to look at every process
        return set()
    me = os.getpid()
    return {pid for pid, stat in of_each_process("stat") if int(stat.rpartition(b")")[2].split()[1]) == me}
