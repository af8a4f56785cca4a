"""The order of samples: quads of four slots, ABBA or BAAB, both arms alive. Nothing here prints or judges."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Generic, TypeVar

from pytest_compileiq.errors import CannotMeasure, Signal
from pytest_compileiq.model import Arm, ClockReading, Launch, LockClocks, tail_of
from pytest_compileiq.rules.slots import samples_needed
from pytest_compileiq.timing.base import Clock
from pytest_compileiq.timing.watch import UNWATCHED, Watch

ARMS: Mapping[str, Arm] = {"A": "baseline", "B": "tuned"}
Call = Callable[[], object]
_MOST_REPEATS = 2_000_000  # of a call of a microsecond, for a counter of energy


@dataclass(frozen=True)
class BlockPlan:
    """What one block does: which arm's body is the outer one, the order of slots, samples per slot.

    ``single`` samples are of one call each, however short it is: a tail of means is not a tail of calls. ``launch`` is
    how earlier blocks launched on a GPU, so that all of a claim are taken alike; None in the first. ``lock_clocks`` is
    where the GPU's clocks are to be held meanwhile. ``discard`` is whether each slot begins with a value that is thrown
    away: a time finds the caches that the other arm left, what never varies does not.
    """

    outer: Arm
    quads: tuple[str, ...]
    samples: int
    single: bool = False
    launch: Launch | None = None
    lock_clocks: LockClocks = None
    discard: bool = True

    def of(self, metric: str) -> BlockPlan:
        """This plan for one metric: a tail needs more samples, of single calls."""
        return replace(self, samples=samples_needed(metric, self.samples), single=metric != tail_of(metric)[0])

    @property
    def inner(self) -> Arm:
        """The arm whose body runs inside the other's ``measure``."""
        return "tuned" if self.outer == "baseline" else "baseline"


Value = TypeVar("Value")


@dataclass(frozen=True)
class Slot(Generic[Value]):
    """One slot: its raw samples in the metric's unit, in the order taken; ``dropped`` when its quad was disturbed.

    ``clocks`` are a GPU's at the end of the slot.
    """

    quad: int
    slot: int
    arm: Arm
    values: tuple[Value, ...]
    dropped: bool = False
    clocks: ClockReading | None = None


class ArmError(Signal):
    """A callable raised while it was sampled; ``arm`` says whose it was and ``__cause__`` what it raised."""

    def __init__(self, arm: Arm) -> None:
        super().__init__(arm)
        self.arm: Arm = arm


def plan_block(random: Random, *, quads: int, samples: int, discard: bool = True) -> BlockPlan:
    """Toss the coins of one block: the outer arm, and ABBA or BAAB for each quad."""
    outer: Arm = "tuned" if random.random() < 0.5 else "baseline"
    orders = tuple("ABBA" if random.random() < 0.5 else "BAAB" for _ in range(quads))
    return BlockPlan(outer, orders, samples, discard=discard)


def sample_calls(
    plan: BlockPlan, calls: Mapping[Arm, Call], clock: Clock, tick: Call, watch: Watch = UNWATCHED
) -> list[Slot[float]]:
    """Time both arms in the plan's order; the repeats inside a sample are equal for both.

    Args:
        calls: each arm's callable.
        clock: which clock times them.
        tick: called before every call, so that a watcher sees progress.
        watch: asked after every slot and every quad.

    Raises:
        ArmError: a callable raised.
    """
    with _quiet():
        repeats = max(_repeats(arm, calls[arm], clock, tick, single=plan.single) for arm in ("baseline", "tuned"))

        def once(arm: Arm) -> float:
            tick()
            with blame(arm):
                return clock.sample(calls[arm], repeats)

        return sample_values(plan, once, watch)


def call_again(arm: Arm, call: Call, clock: Clock, tick: Call) -> None:
    """Call once more by the clock, which waits for the device, so that the output that is checked next is this arm's.

    Raises:
        ArmError: the callable raised.
    """
    tick()
    with blame(arm):
        clock.once(call)


def sample_values(plan: BlockPlan, once: Callable[[Arm], Value], watch: Watch = UNWATCHED) -> list[Slot[Value]]:
    """Take ``once(arm)`` in the plan's order; the first value of every slot is discarded if the plan says so."""
    slots = []
    for quad, order in enumerate(plan.quads):
        taken = []
        for slot, letter in enumerate(order):
            arm = ARMS[letter]
            if plan.discard:
                once(arm)
            values = tuple(once(arm) for _ in range(plan.samples))
            taken.append(Slot(quad, slot, arm, values, clocks=watch.after_slot()))
        slots += [replace(slot, dropped=True) for slot in taken] if watch.after_quad() else taken
    return slots


def _repeats(arm: Arm, call: Call, clock: Clock, tick: Call, *, single: bool) -> int:
    """How many calls make a sample long enough; the first call of all is made here, and not timed."""
    tick()
    with blame(arm):
        call()
        if single:
            return 1
        repeats = _enough(clock, min(clock.seconds(call, 1) for _ in range(3)))
        # What a sample costs once, however many calls it has, is no part of a call.
        return repeats if repeats == 1 else max(repeats, _enough(clock, clock.seconds(call, repeats)))


def _enough(clock: Clock, call_s: float) -> int:
    return min(_MOST_REPEATS, max(1, math.ceil(clock.shortest_s / max(call_s, 1e-9))))


@contextmanager
def blame(arm: Arm) -> Iterator[None]:
    """Whatever a callable raises is its arm's fault, but that no clock can time it.

    Raises:
        ArmError: it raised.
        CannotMeasure: no clock can time it.
    """
    try:
        yield
    except CannotMeasure:
        raise
    except Exception as error:
        raise ArmError(arm) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the garbage collector out of the samples, as timeit does."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
