"""A worker's tasks within a test, and its builds for other machines."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import msgspec
import pytest

from pytest_compileiq.benchmark.benchmark import TunedBenchmark, make_benchmark
from pytest_compileiq.benchmark.block import run_block
from pytest_compileiq.benchmark.body import ArmFailure, Bodies, Body, body_of, check_body, run_arm, run_draw
from pytest_compileiq.benchmark.builds import Afar, collected
from pytest_compileiq.benchmark.cached_builds import identity_of, identity_of_compiler
from pytest_compileiq.benchmark.compared import Outputs
from pytest_compileiq.benchmark.first_calls import look, time_first_calls, time_first_calls_of_copies
from pytest_compileiq.errors import BuildError, CompileIQError
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.watchdog import of_each_process, parent_of
from pytest_compileiq.timing.clock import cpu_device
from pytest_compileiq.timing.registry import is_poisoned
from pytest_compileiq.toolchains.base import Builder
from pytest_compileiq.workers import messages
from pytest_compileiq.workers.worker_plugin import WorkerPlugin


def converse(inside: WorkerPlugin, item: pytest.Function) -> None:
    """In a worker, within a test whose fixtures are up: do the parent's tasks until it leaves the test."""
    builder: Builder | None = None
    with contextlib.suppress(Exception):  # where this process cannot rebuild it, it looks for the compiler itself
        builder = None if inside.builder is None else pickle.loads(inside.builder)
    benchmark = make_benchmark(item, rootdir=item.config.rootpath, build_dir=inside.builds, builder=builder)
    made = benchmark.builder
    command, compiler = tuple(made.compiler.command), identity_of_compiler(made.compiler)
    inside.is_entered = True
    channel = inside.channel
    channel.send(messages.Entered(str(made.target), command, made.native, cpu_device().name, compiler))
    while isinstance(task := channel.receive(), messages.Task):
        channel.tick()
        channel.send(serve(benchmark, body_of(item), task, channel.tick))


def serve(
    benchmark: TunedBenchmark, body: Body, task: messages.Task[object], tick: Callable[[], object]
) -> messages.TaskAnswer:
    """Do one task. A body that leaves a process behind has failed, whatever else it did."""
    children = _children()
    try:
        answer = _do(benchmark, body, task, tick)
    except ArmFailure as failure:
        answer = messages.FailureAnswer(failure.arm, failure.kind, failure.reason, is_poisoned(benchmark.builder.clock))
    if left := _children() - children:
        return messages.FailureAnswer("tuned", "crash", f"left {quantity(len(left), 'process')} behind", poisoned=True)
    return answer


def _do(
    benchmark: TunedBenchmark, body: Body, task: messages.Task[object], tick: Callable[[], object]
) -> messages.TaskAnswer:
    workload = next(workload for workload in benchmark.spec.workloads if workload.name == task.workload)
    bodies = Bodies(benchmark, body, task.arms, workload, tick)
    if isinstance(task, messages.BlockTask):
        return run_block(bodies, task.plan, parent_holds_context=task.parent_holds_context)
    if isinstance(task, messages.CheckTask):
        return check_body(bodies).touched
    if isinstance(task, messages.DrawTask):
        drawn = run_draw(bodies, task.seed, bits_promised=task.bits_promised)
        return msgspec.structs.replace(drawn, calls=time_first_calls(bodies, task.seed))
    if isinstance(task, messages.FirstCallsTask):
        return (time_first_calls_of_copies if task.of_copies else time_first_calls)(bodies, task.seed)
    return look(partial(run_arm, bodies, "tuned", Outputs()), tick)


def pack_builder(builder: Builder) -> bytes | None:
    """The compiler for a worker, which then need not ask it for its name again; None where it cannot be pickled."""
    try:
        return pickle.dumps(builder)
    except Exception:  # whatever a third party's toolchain raises
        return None


def _children() -> set[int]:
    """Processes whose parent is this one, adopted orphans and zombies included; empty where there is no /proc."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # it has none, as after most bodies: there is no need to look at every process
        return set()
    me = os.getpid()
    return {pid for pid, stat in of_each_process("stat") if parent_of(stat) == me}


# Beside what was brought here, which is of the same names.
_FOLDER = "made-here"


def answer_query(item: pytest.Item, builds: Path, query: messages.Query) -> messages.QueryAnswer | messages.Failed:
    """In a worker: what the builds of ``item`` depend on here, or one of them."""
    try:
        flags = None if query.host_flags is None else tuple(sorted(query.host_flags.items()))
        benchmark = _built_here(item, builds / _FOLDER, flags)
        if isinstance(query, messages.Identify):
            meant = benchmark.builder.host_flags
            return messages.IdentityAnswer(identity_of(benchmark.builder, benchmark.rootdir), dict(meant))
        built = benchmark.builds.get(query.controls)
        home = benchmark.builds.made(query.controls)
        made = messages.BuildAnswer(collected(built, home))
        if query.controls is not None:  # the baseline may be asked for beside another one
            shutil.rmtree(home)
        return made
    except BuildError as error:
        return messages.BuildRefused(str(error), error.kind, error.log)
    except (CompileIQError, OSError) as error:  # there is no such compiler here, or no room
        return messages.Failed(str(error))


@lru_cache(maxsize=64)
def _built_here(
    item: pytest.Item, folder: Path, host_flags: tuple[tuple[str, tuple[str, ...]], ...] | None
) -> TunedBenchmark:
    flags = None if host_flags is None else dict(host_flags)
    return make_benchmark(item, rootdir=item.config.rootpath, build_dir=folder, afar=Afar(host_flags=flags))
