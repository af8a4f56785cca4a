"""Run a test's body: as one arm, once for correctness, or as one draw of ``acf.rng``."""

from __future__ import annotations

import copy
import os
import types
from collections.abc import Callable, Iterator, Mapping

import pytest
from msgspec import Struct

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.compared import ComparedOutput, OutputMismatch, Outputs, why_different
from pytest_compileiq.benchmark.fixture import Acf, Measurer
from pytest_compileiq.errors import BodyError, BuildError, EnvironmentFault, NoDevice, Signal
from pytest_compileiq.model import CLOCKED, Arm, ControlsFile, FailureKind, Workload, sha256_hex
from pytest_compileiq.rules.stress import Difference, Draw
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.timing.checked import CheckedArm, CheckFailed
from pytest_compileiq.timing.registry import Untimed
from pytest_compileiq.timing.sampler import ArmError, Disturbance, Timed

Arms = Mapping[Arm, ControlsFile | None]
Body = Callable[[Acf], None]


class Touched(Struct, frozen=True, tag=True):
    """What one arm's body touched."""

    used: frozenset[str]  # entry functions that it took from load()
    read: frozenset[str]  # parameters that it read
    drew: bool = False  # whether it read acf.rng

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


class Bodies(Struct, frozen=True):
    """A test's body as both arms, on one workload; everything it raises becomes an ``ArmFailure``."""

    benchmark: TunedBenchmark
    body: Body
    arms: Arms
    workload: Workload
    tick: Callable[[], object] = lambda: None  # called before every run of the body and every call: it is progress


def check_body(bodies: Bodies, *, draw: int = 0) -> Checked:
    """Run the tuned arm's body once for correctness, the baseline's too when the body compares outputs.

    Where no device runs the kernel, a body ends when it loads the kernel, and counts as correct so far. ``draw`` is the
    seed of ``acf.rng``.

    Raises:
        ArmFailure: the body failed.
    """
    outputs = Outputs()
    acf = run_once(bodies, "tuned", outputs, draw=draw)
    expect_objectives(bodies.benchmark, acf)
    if outputs.waiting and acf.not_run is None:
        run_once(bodies, "baseline", outputs, draw=draw)
    return Checked(Touched.by(acf), outputs.how, acf.not_run, acf.recorded)


def run_once(bodies: Bodies, arm: Arm, outputs: Outputs, *, draw: int) -> Acf:
    """One run of the body as ``arm`` whose ``measure`` calls, and times nothing; raises as ``run_arm``."""

    def call_once(acf: Acf, call: Callable[[], object]) -> object:
        timed = Timed(acf.arm, call, Untimed(bodies.benchmark.builder.clock), bodies.tick, acf.asked.reset)
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

    bodies.tick()
    return run_arm(bodies, arm, outputs, call_once, draw=draw)


def run_arm(
    bodies: Bodies,
    arm: Arm,
    outputs: Outputs,
    measurer: Measurer,
    failure_within: Callable[[], ArmFailure | None] = lambda: None,  # what failed within `measure`, caught or not
    *,
    draw: int = 0,
) -> Acf:
    """One run of the body as one arm; everything it raises becomes that arm's ``ArmFailure``."""
    acf = Acf(
        bodies.benchmark.builds,
        bodies.arms[arm],
        bodies.workload,
        arm=arm,
        measurer=measurer,
        outputs=outputs,
        draw=draw,
    )
    process = os.getpid()
    try:
        bodies.body(acf)
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
    """What an exception of an arm's body, call or build counts as."""
    if isinstance(error, ArmFailure):
        return error
    if isinstance(error, CheckFailed):
        return ArmFailure(error.arm, "wrong", error.reason)
    if isinstance(error, OutputMismatch):
        return ArmFailure("tuned", "wrong", str(error))
    if isinstance(error, BuildError):
        return ArmFailure(arm, error.kind, str(error))
    if isinstance(error, ArmError):
        return ArmFailure(error.arm, "wrong", f"{error.what} raised {describe(error.__cause__)}")
    if isinstance(error, EnvironmentFault | Disturbance):
        return ArmFailure(None, "disturbed", str(error))
    return ArmFailure(arm, "wrong", describe(error))


def describe(error: BaseException | None) -> str:
    """An exception in a line: its type, and the beginning of what it says."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}" if text else type(error).__name__


def expect_objectives(benchmark: TunedBenchmark, acf: Acf) -> None:
    """Have a body that ended handed over every timed objective."""
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


Given = Mapping[str, ComparedOutput]


def run_draw(bodies: Bodies, seed: int, *, bits_promised: bool = False) -> Draw:
    """Run the body as both arms with ``seed`` for ``acf.rng``; ``bits_promised`` holds them to equal bits, NaN as NaN.

    Raises:
        ArmFailure: a body failed, the baseline does not repeat itself as the body allows, or the arms differ more.
    """
    # The tuned arm goes first, so that it finds nothing of this draw in memory that the arms share. The baseline goes
    # twice: an output in which it does not repeat itself condemns nobody.
    ran: list[Acf] = []

    def run(arm: Arm) -> Given:
        outputs = Outputs()
        ran.append(run_once(bodies, arm, outputs, draw=seed))
        return outputs.given

    tuned, first, second = run("tuned"), run("baseline"), run("baseline")
    _expect_alike("baseline", first, second, "the baseline does not repeat itself: ")
    _expect_alike("tuned", first, tuned)
    spread, differences = tuple(_differences(first, second)), tuple(_differences(first, tuned))
    if bits_promised and (broken := _broken_promise(spread, differences)):
        raise ArmFailure("tuned", "wrong", broken)
    return Draw(
        tuple(sorted(first.keys() & tuned.keys())), differences, spread, dict(_errors(first, tuned)),
        written=tuple(sha256_hex(b"".join(each.own_bytes.tobytes() for each in acf.written)) for acf in ran),
        apart=why_apart(*ran[:2]),
    )  # fmt: skip


def why_apart(tuned: Acf, baseline: Acf) -> str | None:
    """How an output of the tuned arm differs from the baseline's, in words; None also where ``check=`` judges it."""
    pairs = () if tuned.asked.check else zip(tuned.written, baseline.written, strict=False)
    return next(filter(None, (own.why_apart(its) for own, its in pairs)), None)


def _expect_alike(arm: Arm, first: Given, other: Given, said: str = "") -> None:
    """The judgement of ``acf.compare``, on all outputs; their shapes and types even where there is a reference."""
    for name in sorted(first.keys() & other.keys()):
        before, after = first[name].array, other[name].array
        is_judged = first[name].reference is None or (before.shape, before.dtype) != (after.shape, after.dtype)
        if is_judged and (reason := why_different(name, other[name], first[name])):
            raise ArmFailure(arm, "wrong", said + reason)


def _broken_promise(spread: tuple[Difference, ...], differences: tuple[Difference, ...]) -> str | None:
    """Why bits that were promised are broken; None where the baseline's own differ in the same outputs."""
    of_itself = {difference.output for difference in spread}
    for difference in differences:
        if difference.output not in of_itself:
            where = f"output {difference.output!r}, element {difference.index}"
            values = f"{difference.baseline} in the baseline and {difference.other} in the tuned arm"
            return f"{where} is {values}, and its controls promise the same bits"
    return None


def _differences(first: Given, other: Given) -> Iterator[Difference]:
    from pytest_compileiq.rules.accuracy import farthest  # heavy: numpy, which a body that compares has imported

    for name in sorted(first.keys() & other.keys()):
        if difference := farthest(name, first[name].array, other[name].array):
            yield difference


def _errors(first: Given, tuned: Given) -> Iterator[tuple[str, tuple[float, float]]]:
    from pytest_compileiq.rules.accuracy import error_in_half_ulps

    for name in sorted(first.keys() & tuned.keys()):
        if first[name].reference is not None and tuned[name].reference is not None:
            before, after = (error_in_half_ulps(arm[name].array, arm[name].reference) for arm in (first, tuned))
            yield name, (before, after)
