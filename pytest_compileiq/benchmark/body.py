"""Running a test's body as one arm, and once for its correctness; what it touched, and how it failed."""

from __future__ import annotations

import copy
import os
import types
from collections.abc import Callable, Mapping

import pytest
from msgspec import Struct

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.compared import OutputMismatch, Outputs
from pytest_compileiq.benchmark.fixture import Acf, Measurer
from pytest_compileiq.errors import BodyError, BuildError, EnvironmentFault, NoDevice, Signal
from pytest_compileiq.model import CLOCKED, Arm, ControlsFile, FailureKind, Workload
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.timing.checked import CheckedArm, CheckFailed
from pytest_compileiq.timing.registry import Untimed
from pytest_compileiq.timing.sampler import ArmError, Timed

Arms = Mapping[Arm, ControlsFile | None]
Body = Callable[[Acf], None]


class Touched(Struct, frozen=True):
    """What one arm's body touched.

    Attributes:
        used: entry functions that it took from ``load()``.
        read: parameters that it read.
        drew: whether it read ``acf.rng``.
    """

    used: frozenset[str]
    read: frozenset[str]
    drew: bool = False

    @classmethod
    def by(cls, acf: Acf) -> Touched:
        """What the body of ``acf`` touched."""
        return cls(frozenset(acf.used), frozenset(acf.read), acf.drew)


class ArmFailure(Signal):
    """A body failed: which arm's (None: neither is to blame), what kind of failure, and why, in words."""

    def __init__(self, arm: Arm | None, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.arm: Arm | None = arm
        self.kind: FailureKind = kind
        self.reason = reason


def body_of(item: pytest.Function) -> Body:
    """The test function as a callable of ``acf``, on pytest's fixtures and a fresh copy of its instance."""
    fixtures = {name: item.funcargs[name] for name in item._fixtureinfo.argnames if name != "acf"}

    def run(acf: Acf) -> None:
        function = item.obj
        if isinstance(function, types.MethodType):
            function = types.MethodType(function.__func__, copy.copy(function.__self__))
        if function(acf=acf, **fixtures) is not None:
            raise BodyError(f"{item.nodeid} returned a value: a tuned test is a plain function that returns nothing")

    return run


class Checked(Struct, frozen=True):
    """A correct body: what it touched, how outputs were compared, why it was not run to its end or None, its scores."""

    touched: Touched
    compared: Mapping[str, str]
    not_run: str | None
    recorded: Mapping[str, float]


def check_body(
    benchmark: TunedBenchmark,
    body: Body,
    arms: Arms,
    workload: Workload,
    tick: Callable[[], object] = lambda: None,
    *,
    draw: int = 0,
) -> Checked:
    """Run the tuned arm's body once for correctness, the baseline's too when the body compares outputs.

    Where no device runs the kernel, a body ends when it loads the kernel, and counts as correct so far.

    Args:
        tick: called before every run of the body and every call, so that a watcher sees progress.
        draw: the seed of ``acf.rng``.

    Raises:
        ArmFailure: the body failed.
    """
    outputs = Outputs()
    acf = run_once(benchmark, body, arms, "tuned", workload, outputs, tick, draw=draw)
    expect_objectives(benchmark, acf)
    if outputs.waiting and acf.not_run is None:
        run_once(benchmark, body, arms, "baseline", workload, outputs, tick, draw=draw)
    return Checked(Touched.by(acf), outputs.how, acf.not_run, acf.recorded)


def run_once(
    benchmark: TunedBenchmark,
    body: Body,
    arms: Arms,
    arm: Arm,
    workload: Workload,
    outputs: Outputs,
    tick: Callable[[], object],
    *,
    draw: int,
) -> Acf:
    """One run of the body as ``arm`` whose ``measure`` calls, and times nothing; raises as ``run_arm``."""

    def call_once(acf: Acf, call: Callable[[], object]) -> object:
        timed = Timed(acf.arm, call, Untimed(benchmark.builder.clock), tick, acf.asked.reset)
        checked = CheckedArm(timed, acf.asked)
        try:
            value = checked.last()
        except (ArmError, CheckFailed) as error:
            if (own := error.__cause__) is None:
                raise
        else:
            acf.written = checked.written
            return value
        raise own  # the test's own exception, with nothing of this package around it

    tick()
    return run_arm(benchmark, body, arms[arm], arm, workload, outputs, call_once, draw=draw)


def run_arm(
    benchmark: TunedBenchmark,
    body: Body,
    controls: ControlsFile | None,
    arm: Arm,
    workload: Workload,
    outputs: Outputs,
    measurer: Measurer,
    failure_within: Callable[[], ArmFailure | None] = lambda: None,
    *,
    draw: int = 0,
) -> Acf:
    """One run of the body as one arm; everything it raises becomes that arm's ``ArmFailure``.

    Args:
        failure_within: what failed within ``measure``, whatever the body made of it.
    """
    acf = Acf(benchmark.builds, controls, workload, arm=arm, measurer=measurer, outputs=outputs, draw=draw)
    process = os.getpid()
    try:
        body(acf)
    except KeyboardInterrupt:
        raise
    except NoDevice as error:
        acf.not_run = str(error)
    except BaseException as error:
        _leave_if_forked(process)
        raise failure_within() or as_failure(arm, error) from error
    _leave_if_forked(process)
    if failure := failure_within():
        raise failure
    return acf


def as_failure(arm: Arm, error: BaseException) -> ArmFailure:
    """What an exception of an arm's body or build counts as."""
    if isinstance(error, ArmFailure):
        return error
    if isinstance(error, CheckFailed):
        return ArmFailure(error.arm, "wrong", error.reason)
    if isinstance(error, OutputMismatch):
        return ArmFailure("tuned", "wrong", str(error))
    if isinstance(error, BuildError):
        return ArmFailure(arm, error.kind, str(error))
    if isinstance(error, EnvironmentFault):
        return ArmFailure(None, "disturbed", str(error))
    return ArmFailure(arm, "wrong", describe(error))


def describe(error: BaseException | None) -> str:
    """An exception in a line: its type, and the beginning of what it says."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}" if text else type(error).__name__


def expect_objectives(benchmark: TunedBenchmark, acf: Acf) -> None:
    """Have a body that ended handed over every timed objective.

    Raises:
        ArmFailure: it handed over none, or another.
    """
    handed = {"compile_time", *acf.recorded, *(CLOCKED if acf.measured else ())}
    for objective in benchmark.timed_objectives:
        if objective.measured not in handed and acf.not_run is None:
            metric = objective.measured
            given = f"it recorded {', '.join(acf.recorded)}" if acf.recorded else "it called neither"
            wanted = f"acf.measure(fn) or acf.record({metric}=…)" if metric in CLOCKED else f"acf.record({metric}=…)"
            given = "it called acf.measure" if acf.measured else given
            meant = did_you_mean(metric, acf.recorded)
            reason = f"the objective is {metric}, so the body calls {wanted} once; {given}{meant}"
            raise ArmFailure(acf.arm, "wrong", reason)


def _leave_if_forked(process: int) -> None:
    """A kernel that forked comes back here twice; its copy must not speak for the worker."""
    if os.getpid() != process:
        os._exit(1)
