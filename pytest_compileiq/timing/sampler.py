"""The order of samples: quads of four slots, ABBA or BAAB, both arms alive, while a watch looks for disturbances.

Nothing here prints or judges.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from random import Random
from statistics import median
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_compileiq.errors import CannotMeasure, Signal
from pytest_compileiq.model import Arm, Launch, LockClocks, tail_of
from pytest_compileiq.rules.comparison import samples_needed
from pytest_compileiq.rules.stopping import FIRST_QUADS, Race
from pytest_compileiq.samples import ClockReading, SlotStart, StartKind
from pytest_compileiq.timing.clock import Clock

if TYPE_CHECKING:
    from pytest_compileiq.timing.nvml import Settled

ARMS: Mapping[str, Arm] = {"A": "baseline", "B": "tuned"}
Call = Callable[[], object]
BeforeSlot = Callable[[Arm, int], SlotStart | None]
# The single calls that an arm's slots begin with. Fewer pauses: they only tell whether calls in a row are like others.
_STARTS: tuple[StartKind, ...] = ("dirty",) * 3 + ("sham",) * 3 + ("pause",) * 2
_SHORT = 10  # so many times shorter than the shortest good sample
_MOST_REPEATS = 2_000_000  # of a call of a microsecond, for a counter of energy


class BlockPlan(Struct, frozen=True):
    """What one block does; slots are counted through the block."""

    outer: Arm  # whose body is the outer one
    quads: tuple[str, ...]  # the order of slots in each
    samples: int  # per slot
    single: bool = False  # one call a sample, however short: a tail of means is not a tail of calls
    # As earlier blocks launched on a GPU, for all of a claim to be alike; None in the first.
    launch: Launch | None = None
    lock_clocks: LockClocks = None  # where the GPU's clocks are held meanwhile
    discard: bool = True  # each slot's first value: a time finds the other arm's caches, what never varies does not
    # Slots after which the outputs are looked at, each with the number of further calls that are, one by one.
    checks: Mapping[int, int] = msgspec.field(default_factory=dict)
    # Slots that begin with a single timed call, each with what comes before it.
    starts: Mapping[int, StartKind] = msgspec.field(default_factory=dict)
    # Metrics that the tuned arm has to win with its first quads; all others are taken in full.
    races: Mapping[str, Race] = msgspec.field(default_factory=dict)

    def of(self, metric: str) -> BlockPlan:
        """This plan for one metric: a tail needs more samples, of single calls."""
        return replace(self, samples=samples_needed(metric, self.samples), single=metric != tail_of(metric)[0])

    @property
    def inner(self) -> Arm:
        """The arm whose body runs inside the other's ``measure``."""
        return "tuned" if self.outer == "baseline" else "baseline"

    def is_lost(self, metric: str, slots: Sequence[Slot[float]]) -> bool:
        """Whether no more quads are to be taken after ``slots``, the first of ``metric``."""
        if metric not in self.races or slots[-1].quad + 1 != FIRST_QUADS or any(slot.dropped for slot in slots):
            return False
        baseline, tuned = (
            [value for slot in slots if slot.arm == arm for value in slot.values] for arm in ("baseline", "tuned")
        )
        return self.races[metric].is_lost(baseline, tuned)


Value = TypeVar("Value")


class Slot(Struct, Generic[Value], frozen=True):
    """One slot: its raw samples in the metric's unit, in the order taken."""

    quad: int
    slot: int
    arm: Arm
    values: tuple[Value, ...]
    dropped: bool = False  # its quad was disturbed
    clocks: ClockReading | None = None  # a GPU's, at the end of the slot
    start: SlotStart | None = None  # the single call before all samples


class ArmError(Signal):
    """A callable raised while it was sampled; ``arm`` says whose, ``what`` which, and ``__cause__`` what it raised."""

    def __init__(self, arm: Arm, what: str) -> None:
        super().__init__(arm, what)
        self.arm: Arm = arm
        self.what = what


class Timed(Struct):
    """One arm's callable, and how it is called; methods raise ArmError where the callable does, or ``reset``."""

    arm: Arm
    call: Call  # does the work
    clock: Clock
    tick: Call  # called before every call, so that a watcher sees progress
    reset: Call | None = None  # called before every call, and never timed: a sample is then of one call

    def once(self) -> object:
        """Call once as it is timed, and wait for the device; returns what the call returned."""
        with self._calling():
            return self.clock.once(self.call)

    def seconds(self, repeats: int) -> float:
        """Seconds for one call, the mean of ``repeats``."""
        with self._calling():
            return self.clock.seconds(self.call, repeats)

    def sample(self, repeats: int) -> float:
        """The clock's metric for one call, the mean of ``repeats``."""
        with self._calling():
            return self.clock.sample(self.call, repeats)

    def restore(self) -> None:
        """Restore what the callable works on, where there is a ``reset``."""
        if self.reset is not None:
            with blame(self.arm, "reset="):
                self.reset()

    @contextmanager
    def _calling(self) -> Iterator[None]:
        self.tick()
        self.restore()
        with blame(self.arm):
            yield


class Disturbance(Signal):
    """Others compute on the device, or nobody can tell: nothing that is measured now proves anything."""


class Watch:
    """Watches one block; this one is of a device that cannot tell anything.

    Raises:
        Disturbance: of ``before`` and ``after_quad``: somebody else computes on the device.
    """

    remarks: tuple[str, ...] = ()  # what could not be seen, or kept out, in sentences
    locked_mhz: int | None = None  # where the device's clocks are held; None where they are free

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let others measure again."""

    def before(self) -> None:
        """Keep others that measure off the device from now on; asked before sampling, maybe more than once."""

    def settle(self, load: Callable[[], object]) -> Settled | None:
        """Keep the device busy with ``load`` until its clocks are steady; None where it has none to wait for."""
        return None

    def after_slot(self) -> ClockReading | None:
        """The device's clocks, while it is still warm; None where it has none."""
        return None

    def after_quad(self) -> str | None:
        """Why the quad does not count, or None when it counts; asked once more when the block has been sampled."""
        return None


UNWATCHED = Watch()


def plan_block(
    random: Random, *, quads: int, samples: int, discard: bool = True, checked_calls: int = 0, starts: bool = False
) -> BlockPlan:
    """Toss the coins of one block: the outer arm, ABBA or BAAB for each quad, and where outputs are looked at.

    Args:
        checked_calls: after one of the slots of each arm so many further calls are made, and looked at one by one.
        starts: whether each slot begins with a single timed call, of a kind that is dealt by chance.
    """
    outer: Arm = "tuned" if random.random() < 0.5 else "baseline"
    orders = tuple("ABBA" if random.random() < 0.5 else "BAAB" for _ in range(quads))
    chance, letters = copy(random), "".join(orders)  # a seed on record keeps its coins
    checks = _choose_checks(chance, letters, checked_calls)
    kinds = _choose_starts(chance, letters) if starts else {}
    return BlockPlan(outer, orders, samples, discard=discard, checks=checks, starts=kinds)


def _choose_checks(random: Random, letters: str, calls: int) -> dict[int, int]:
    """Half of the slots of each arm, and after one of these so many further calls."""
    checks: dict[int, int] = {}
    for letter in ARMS:
        own = [slot for slot, other in enumerate(letters) if other == letter]
        chosen = random.sample(own, len(own) // 2)
        checks |= dict.fromkeys(chosen, 0) | {chosen[0]: calls}
    return checks


def _choose_starts(random: Random, letters: str) -> dict[int, StartKind]:
    """One for each slot; both arms have as many of a kind in a block of four quads."""
    starts: dict[int, StartKind] = {}
    for letter in ARMS:
        own = [slot for slot, other in enumerate(letters) if other == letter]
        starts |= dict(zip(own, random.sample(_STARTS, len(own)), strict=True))
    return starts


def sample_calls(
    plan: BlockPlan,
    calls: Mapping[Arm, Timed],
    watch: Watch = UNWATCHED,
    after_slot: Callable[[Arm, int], object] = lambda arm, slot: None,
    is_over: Callable[[list[Slot[float]]], bool] = lambda slots: False,
    before_slot: BeforeSlot = lambda arm, slot: None,
) -> list[Slot[float]]:
    """Time both arms in the plan's order; the repeats inside a sample are equal for both.

    Args:
        after_slot, before_slot: called with the arm and the slot's number in the block.
        is_over: asked after each quad whether the slots so far are enough.

    Raises:
        ArmError: a callable raised.
    """
    with _quiet():
        single = plan.single or any(timed.reset is not None for timed in calls.values())
        repeats = max(_repeats(calls[arm], single=single) for arm in ("baseline", "tuned"))
        return sample_values(plan, lambda arm: calls[arm].sample(repeats), watch, after_slot, is_over, before_slot)


def too_short(slots: Sequence[Slot[float]], clock: Clock) -> str | None:
    """What to say of single calls, in seconds, that are hardly longer than reading the clock takes; None of others."""
    call_s = median(value for slot in slots for value in slot.values)
    if call_s * _SHORT >= clock.shortest_s:
        return None
    return (
        f"with reset= each sample is one call, and one of less than {clock.shortest_s / _SHORT * 1e6:g} µs is short "
        "for the clock, whose own time is in it: the gain of the kernel is larger than the measured one; let one call "
        "do more"
    )


def sample_values(
    plan: BlockPlan,
    once: Callable[[Arm], Value],
    watch: Watch = UNWATCHED,
    after_slot: Callable[[Arm, int], object] = lambda arm, slot: None,
    is_over: Callable[[list[Slot[Value]]], bool] = lambda slots: False,
    before_slot: BeforeSlot = lambda arm, slot: None,
) -> list[Slot[Value]]:
    """Take ``once(arm)`` in the plan's order; the first value of every slot is discarded if the plan says so."""
    slots: list[Slot[Value]] = []
    for quad, order in enumerate(plan.quads):
        taken = []
        for slot, letter in enumerate(order):
            arm = ARMS[letter]
            start = before_slot(arm, len(slots) + slot)
            if plan.discard:
                once(arm)
            values = tuple(once(arm) for _ in range(plan.samples))
            taken.append(Slot(quad, slot, arm, values, clocks=watch.after_slot(), start=start))
            after_slot(arm, len(slots) + slot)
        slots += [replace(slot, dropped=True) for slot in taken] if watch.after_quad() else taken
        if is_over(slots):
            break
    return slots


def _repeats(timed: Timed, *, single: bool) -> int:
    """How many calls make a sample long enough; the first call of all is made here, and not timed."""
    timed.once()
    if single:
        return 1
    clock = timed.clock
    repeats = _enough(clock, min(timed.seconds(1) for _ in range(3)))
    # What a sample costs once, however many calls it has, is no part of a call.
    return repeats if repeats == 1 else max(repeats, _enough(clock, timed.seconds(repeats)))


def _enough(clock: Clock, call_s: float) -> int:
    return min(_MOST_REPEATS, max(1, math.ceil(clock.shortest_s / max(call_s, 1e-9))))


@contextmanager
def blame(arm: Arm, what: str = "the measured callable") -> Iterator[None]:
    """Whatever a callable raises is its arm's fault, but that no clock can time it."""
    try:
        yield
    except (CannotMeasure, KeyboardInterrupt):
        raise
    except BaseException as error:  # of pytest.fail, too
        raise ArmError(arm, what) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Suspend the garbage collector, as timeit does, and the tracers of this thread."""
    traced, profiled = sys.gettrace(), sys.getprofile()
    of_threads = threading.gettrace(), threading.getprofile()
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    _trace_by(None, None, None, None)
    try:
        yield
    finally:
        _trace_by(traced, profiled, *of_threads)
        if enabled:
            gc.enable()


def _trace_by(traced: Any, profiled: Any, new_traced: Any, new_profiled: Any) -> None:
    """Set the tracers and profilers of this thread and of new threads; None for none."""
    threading.settrace(new_traced)
    threading.setprofile(new_profiled)
    sys.setprofile(profiled)
    sys.settrace(traced)


def why_traced() -> str | None:
    """The ``sys.monitoring`` tools (Python 3.12) of this process as a reason not to measure; None without any.

    They cannot be suspended from outside: a tool may listen to single code objects, and Python lists none of them.
    """
    if (monitoring := getattr(sys, "monitoring", None)) is None:
        return None
    tools = [name for tool in range(6) if (name := monitoring.get_tool(tool)) is not None]
    return f"sys.monitoring tools observe the timed calls: {', '.join(tools)}; disable them" if tools else None
