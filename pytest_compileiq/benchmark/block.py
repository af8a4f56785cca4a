"""Running a test's body as two nested arms in a worker, for measuring.

In a block both arms are alive: the outer arm's ``measure`` calls the body again for the inner arm, and inside the
nested ``measure`` both callables are sampled, and their outputs looked at in between. Each ``measure`` then calls its
own arm's callable once more, since the arms may share buffers: the statements after it look at their own arm's output.
A failure within ``measure`` outlives any ``except`` of the bodies around it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from pytest_compileiq.benchmark.body import ArmFailure, Bodies, Touched, as_failure, expect_objectives, run_arm
from pytest_compileiq.benchmark.compared import Outputs
from pytest_compileiq.benchmark.fixture import Acf, Measurer
from pytest_compileiq.errors import BuildError, CannotMeasure, EnvironmentFault, NoDevice
from pytest_compileiq.model import CLOCKED, Arm, Objective
from pytest_compileiq.samples import ChecksMade, Conditions
from pytest_compileiq.timing.checked import CheckedArm, CheckedBlock, CheckFailed
from pytest_compileiq.timing.clock import unit_of
from pytest_compileiq.timing.registry import Untimed, make_clock, watch_of
from pytest_compileiq.timing.sampler import (
    ArmError,
    BlockPlan,
    Disturbance,
    Slot,
    Timed,
    Watch,
    sample_calls,
    sample_values,
    too_short,
    why_traced,
)


class BlockAnswer(Struct, frozen=True, tag=True):
    """What one block gave, as a worker sends it."""

    slots: dict[str, tuple[Slot[float], ...]]  # of each timed metric
    conditions: dict[str, Conditions]  # how a GPU's were taken
    touched: Touched  # by the tuned arm
    remarks: tuple[str, ...] = ()
    checks: dict[str, ChecksMade] = {}
    units: dict[str, str] = {}  # the specimen of its device that each metric was taken on, where that is known


class _FailedWithin(BaseException):
    """Unwinds the bodies once a failure within ``measure`` is on record; no ``except Exception`` catches it."""


def run_block(bodies: Bodies, plan: BlockPlan, *, parent_holds_context: bool = False) -> BlockAnswer:
    """Sample both arms in one process, while no other run measures on the device.

    Raises:
        ArmFailure: an arm's body or callable failed, or handed over no objective; or others computed on the device.
    """
    benchmark = bodies.benchmark
    with watch_of(
        benchmark.builder.clock, bodies.tick, parent_holds_context=parent_holds_context, lock_clocks=plan.lock_clocks
    ) as watch:
        try:
            block = _BlockRun(bodies, plan, watch).run()
            watch.after_quad()
        except Disturbance as disturbance:
            raise as_failure("tuned", disturbance) from disturbance
    units = {metric: unit_of(benchmark.device_kind(metric)) for metric in block.slots}
    return msgspec.structs.replace(block, remarks=(*watch.remarks, *block.remarks), units=units)


class _BlockRun(Struct):
    """One block under way."""

    bodies: Bodies
    plan: BlockPlan
    watch: Watch
    outputs: Outputs = msgspec.field(default_factory=Outputs)
    measured: dict[Arm, CheckedArm] = msgspec.field(default_factory=dict)
    touched: dict[Arm, Touched] = msgspec.field(default_factory=dict)
    slots: dict[str, list[Slot[float]]] = msgspec.field(default_factory=dict)
    conditions: dict[str, Conditions] = msgspec.field(default_factory=dict)
    checks: dict[str, ChecksMade] = msgspec.field(default_factory=dict)
    remarks: dict[str, None] = msgspec.field(default_factory=dict)
    failure: ArmFailure | None = None

    def run(self) -> BlockAnswer:
        outer = self._arm(self.plan.outer, self._nest)
        if not outer.measured:
            expect_objectives(self.bodies.benchmark, outer)
            self._arm(self.plan.inner, self._nest)
        timed = [objective.metric for objective in self.bodies.benchmark.timed_objectives]
        if recorded := [metric for metric in timed if metric in outer.recorded]:
            self.watch.before()
            slots = sample_values(
                self.plan, lambda arm: self._recorded(arm, recorded), self.watch,
                is_over=lambda taken: all(map(self.plan.is_lost, recorded, _by_metric(taken, recorded).values())),
            )  # fmt: skip
            self.slots |= _by_metric(slots, recorded)
        if "compile_time" in timed:
            is_over = partial(self.plan.is_lost, "compile_time")
            self.slots["compile_time"] = sample_values(self.plan, self._compile_seconds, is_over=is_over)
        if any(metric not in self.slots for metric in timed):
            raise ArmFailure(self.plan.outer, "wrong", "the body measured in one arm only")
        slots_of = {metric: tuple(taken) for metric, taken in self.slots.items()}
        return BlockAnswer(slots_of, self.conditions, self.touched["tuned"], tuple(self.remarks), self.checks)

    def _arm(self, arm: Arm, measurer: Measurer) -> Acf:
        self.bodies.tick()
        acf = run_arm(self.bodies, arm, self.outputs, measurer, lambda: self.failure)
        self.touched[arm] = Touched.by(acf)
        return acf

    def _nest(self, acf: Acf, call: Callable[[], object]) -> object:
        """The outer ``measure``: run the inner arm's body inside it."""
        self._keep(self.plan.outer, acf, call)
        with self._keeping_failures():
            inner = self._arm(self.plan.inner, self._sample)
            if not inner.measured:
                raise ArmFailure(self.plan.inner, "wrong", "the body did not measure in this arm")
            return self._call_again(self.plan.outer)

    def _sample(self, acf: Acf, call: Callable[[], object]) -> object:
        """The inner ``measure``: both arms are alive here."""
        self._keep(self.plan.inner, acf, call)
        with self._keeping_failures():
            for objective in self.bodies.benchmark.timed_objectives:
                if objective.measured in CLOCKED:
                    self._take(objective, acf)
            return self._call_again(self.plan.inner)

    def _keep(self, arm: Arm, acf: Acf, call: Callable[[], object]) -> None:
        timed = Timed(arm, call, Untimed(self.bodies.benchmark.builder.clock), self.bodies.tick, acf.asked.reset)
        self.measured[arm] = CheckedArm(timed, acf.asked)

    def _take(self, objective: Objective, acf: Acf) -> None:
        """Sample what the clock of ``objective`` takes, as the body of ``acf`` wants it taken."""
        kind = self.bodies.benchmark.builder.clock
        launch = self.plan.launch or acf.launch
        try:
            self.watch.before()
            timed = {arm: own.timed for arm, own in self.measured.items()}
            calls = {arm: own.call for arm, own in timed.items()}
            clock = make_clock(kind, objective.measured, calls, l2=acf.l2, launch=launch)
            if acf.asked.reset is not None and objective.measured == "energy":
                raise CannotMeasure("energy is taken over many calls in a row, which reset= would have to part")
            for own in timed.values():
                own.clock = clock
            plan = self.plan.of(objective.metric)
            if watched := why_traced():
                raise ArmFailure(None, "disturbed", watched)
            checked = CheckedBlock(plan, self.measured)
            checked.learn()
            settled = self.watch.settle(self._load)
            self.slots[objective.metric] = slots = sample_calls(
                plan,
                timed,
                self.watch,
                checked.after_slot,
                partial(plan.is_lost, objective.metric),
                checked.before_slot,
            )
            if objective.measured == "runtime":
                checked.expect_possible(slots)
            if void := clock.why_void():
                raise ArmFailure(None, "disturbed", void)
            if checked.made is not None:
                self.checks[objective.metric] = checked.made
            if acf.asked.reset is not None and (short := too_short(slots, clock)):
                self.remarks[short] = None
            if (conditions := clock.conditions()) and settled:
                self.conditions[objective.metric] = replace(
                    conditions, locked_mhz=self.watch.locked_mhz, warm_up_s=settled.seconds, settled=settled.settled
                )
        except CannotMeasure as error:
            raise ArmFailure(error.arm or "baseline", "wrong", str(error)) from error
        except NoDevice:
            raise
        except EnvironmentFault as fault:
            raise ArmFailure(None, "disturbed", str(fault)) from fault

    def _load(self) -> None:
        """One call of each arm: what the device is to be warm for."""
        for own in self.measured.values():
            own.timed.once()

    def _call_again(self, arm: Arm) -> object:
        """Call as it was timed, so that the statements after ``measure`` look at this arm's output."""
        return CheckedBlock(self.plan, self.measured).last(arm)

    @contextmanager
    def _keeping_failures(self) -> Iterator[None]:
        try:
            yield
        except (ArmError, CheckFailed, Disturbance, ArmFailure) as error:
            self.failure = as_failure(self.plan.outer, error)
            raise _FailedWithin from error

    def _recorded(self, arm: Arm, metrics: Sequence[str]) -> tuple[float, ...]:
        acf = self._arm(arm, self._nest)
        if missing := [metric for metric in metrics if metric not in acf.recorded]:
            raise ArmFailure(arm, "wrong", f"the body did not record {missing[0]!r} this time")
        return tuple(acf.recorded[metric] for metric in metrics)

    def _compile_seconds(self, arm: Arm) -> float:
        self.bodies.tick()
        with tempfile.TemporaryDirectory(dir=self.bodies.benchmark.builds.directory) as home:
            try:
                return self.bodies.benchmark.builder.build(
                    self.bodies.arms[arm], Path(home), timeout_s=self.bodies.benchmark.spec.timeout_s
                ).seconds
            except BuildError as error:
                raise as_failure(arm, error) from error


def _by_metric(slots: Sequence[Slot[tuple[float, ...]]], metrics: Sequence[str]) -> dict[str, list[Slot[float]]]:
    """Slots of several metrics recorded together, as slots of each."""
    return {
        metric: [
            Slot(
                slot.quad, slot.slot, slot.arm, tuple(value[number] for value in slot.values), slot.dropped, slot.clocks
            )
            for slot in slots
        ]
        for number, metric in enumerate(metrics)
    }
