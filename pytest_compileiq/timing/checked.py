"""Looks at what the calls wrote where they were timed: the outputs, or the test's own check, between the samples.

A kernel may be wrong in some of its calls, leave the other arm's output where both share memory, return before its work
is done, or find its work done already. So each arm begins with two calls on outputs that were overwritten, by other
bytes each time: that tells which bytes it writes, and that they depend on nothing that was there. Later calls have to
write the same bytes again, or to satisfy the check.

Nor may a call that is looked at differ, for the kernel, from one that is timed: it could do its work in the one and
skip it in the other. So slots begin with a single timed call, after an overwrite with other bytes, after one with the
bytes that are there, or after a pause. ``rules.slot_starts`` judges how long each took. A GPU whose cache is cold
overwrites them before every timed call instead.
"""

from __future__ import annotations

import inspect
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pytest_compileiq.errors import BodyError, Signal
from pytest_compileiq.model import Arm, CheckedBy
from pytest_compileiq.samples import ChecksMade, SlotStart, StartKind
from pytest_compileiq.timing.sampler import BlockPlan, Slot, Timed

if TYPE_CHECKING:
    from pytest_compileiq.timing.outputs import Bytes, Output, WrittenOutput

CHECKED_CALLS = 64  # in a row: whatever goes wrong in every n-th call shows, for n up to 64
_ROUNDS_OF_A_CHECK = 3  # where outputs need not repeat: that one byte equals all six poisons by chance is one in 2^48
_LATE_S = 0.1
_LEAST_PAUSE_S = 20e-6
_LEAST_WRITTEN = 4 << 10  # bytes: fewer are stored in less time than a call takes
_PARALLEL = 1.3  # processor time over wall time, from which on other cores store, too
_FEW_CALLS = 20
_IN_PLACE = "give measure(reset=…), which restores what the call works on and is not timed"


class MeasureArguments(Struct, frozen=True):
    """What ``measure`` was given besides the callable."""

    outputs: tuple[Output, ...] = ()  # what the callable writes
    # Raises where the outputs are wrong; without it, they have to be the same after every call.
    check: Callable[[], object] | None = None
    reset: Callable[[], object] | None = None  # restores what the callable works on

    @property
    def by(self) -> CheckedBy | None:
        """What decides; None where nothing is looked at."""
        return "check" if self.check is not None else "outputs" if self.outputs else None

    @property
    def is_bare(self) -> bool:
        """Whether nothing tells whether a timed call does its work."""
        return self.by is None and self.reset is None


def expect_callables(call: object, **optional: object) -> None:
    """Hold what ``measure`` was given to what it calls.

    Raises:
        BodyError: ``call`` cannot be called, or one of the others is neither None nor callable, or needs arguments.
    """
    if not callable(call):
        raise BodyError(f"acf.measure({call!r}): expected a callable, e.g. acf.measure(lambda: run(kernel))")
    _expect_no_arguments("", call)
    for name, value in optional.items():
        if value is None:
            continue
        if not callable(value):
            raise BodyError(f"acf.measure({name}={value!r:.80}): expected a callable without arguments, or None")
        _expect_no_arguments(f"{name}=", value)


def _expect_no_arguments(parameter: str, given: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # what is written in C often has none
        return
    try:
        signature.bind()
    except TypeError as error:
        raise BodyError(
            f"acf.measure({parameter}…): it is called without arguments, but is {error}; the result "
            "of a call is not handed over: keep it where check= can see it"
        ) from None


def asked_for(
    outputs: Sequence[Any], check: Callable[[], object] | None, reset: Callable[[], object] | None
) -> MeasureArguments:
    """What ``measure`` was given, with its outputs as memory.

    Raises:
        BodyError: an output is no array that can be overwritten.
    """
    if isinstance(outputs, tuple | list) and not outputs:
        return MeasureArguments((), check, reset)
    from pytest_compileiq.timing.outputs import as_outputs  # heavy: numpy

    return MeasureArguments(as_outputs(outputs), check, reset)


class CheckFailed(Signal):
    """What was timed is wrong: in which arm, and how, in a sentence."""

    def __init__(self, arm: Arm, reason: str) -> None:
        super().__init__(reason)
        self.arm: Arm = arm
        self.reason = reason


class _Unsteady(CheckFailed):
    """The outputs are not the same after every call; in the baseline that may be their nature."""

    def __init__(self, arm: Arm, output: str, differs: str) -> None:
        allowed = "; if that is its nature, as with atomics, define correct outputs by measure(check=…)"
        hint = allowed if arm == "baseline" else ""
        super().__init__(arm, f"{output} is not the same after every call: {differs}{hint}")


class CheckedArm(Struct):
    """One arm's callable, with what its calls write.

    Raises:
        CheckFailed: of all methods that call or look: what was timed is wrong.
        ArmError: the callable raised, or ``reset`` did.
    """

    timed: Timed
    asked: MeasureArguments
    overwriting_s: float = 0.0
    written: tuple[WrittenOutput, ...] = ()  # each output with what a call writes there, in order
    _is_learned: bool = False

    def learn(self) -> None:
        """Find out which bytes of its outputs a call writes."""
        if self._is_learned:
            return
        from pytest_compileiq.timing.outputs import POISONS, WrittenOutput, equal

        before = [output.now().copy() for output in self.asked.outputs]
        rounds = POISONS * (1 if self.asked.check is None else _ROUNDS_OF_A_CHECK) if before else ()
        after = [self._called_on(poison) for poison in rounds]
        self._is_learned = True
        for place, output in enumerate(self.asked.outputs):
            contents = [arrays[place] for arrays in after]
            untouched = contents[0] == rounds[0]
            for content, poison in zip(contents, rounds, strict=True):
                untouched &= content == poison
            written = None if not untouched.any() else ~untouched
            if untouched.all() or not (self.asked.check or equal(contents[0], contents[1], written)):
                raise self._why_unlike(place, contents)
            content = contents[-1]
            if written is not None:
                content[untouched] = before[place][untouched]
                output.write(content)
            self.written += (WrittenOutput(output, content, written),)

    def expect_as_much_as(self, other: CheckedArm) -> None:
        """What the other arm writes has to be written by this one too; ``check`` judges that where it is given."""
        for own, its in zip(self.written, other.written, strict=False):
            left = own.left_of(its)
            if self.asked.check is not None:
                own.poison_also(left)
            elif left is not None:
                raise CheckFailed(
                    self.timed.arm,
                    f"the call leaves {left.sum()} of {left.size} bytes of {own.output.name} unwritten that the "
                    f"{other.timed.arm} writes",
                )
            elif self._is_as_reset(own) and not other._is_as_reset(its):
                raise CheckFailed(
                    self.timed.arm,
                    f"the call leaves {own.output.name} as reset= left it, which the {other.timed.arm} does not",
                )

    def _is_as_reset(self, known: WrittenOutput) -> bool:
        """Whether a call leaves what ``reset`` left: it may write nothing, since what it finds is never the poison."""
        from pytest_compileiq.timing.outputs import equal

        if self.asked.reset is None:
            return False
        known.poison()
        self.timed.restore()
        return equal(known.output.now(), known.content, known.written)

    def overwrite(self, flipped: int) -> None:
        """Overwrite what calls write, each byte by itself with these bits flipped, and note how long that takes."""
        begun = time.perf_counter()
        for known in self.written:
            known.overwrite(flipped)
        self.overwriting_s = time.perf_counter() - begun

    def overwrite_before_each(self) -> None:
        """Have a GPU overwrite what calls write before each that is timed."""
        if self.asked.reset is None:  # which restores what the call works on, and would have to come after it
            self.timed.clock.overwrite_before(self.timed.call, [known.flip_of_all for known in self.written])

    def begins_with(self, kind: StartKind) -> bool:
        """Whether slots begin with single calls of this kind."""
        which = self.timed.clock.single_calls
        if kind == "pause":
            return which == "all" or (which == "bare" and self.asked.is_bare)
        return which == "all" and bool(self.asked.outputs)

    def expect_possible(self, call_s: float) -> None:
        """Hold the time of one call to the bytes that it writes."""
        size = sum(known.written_bytes for known in self.written)
        if size < _LEAST_WRITTEN or size / call_s <= (limit := self.timed.clock.store_limit()).bytes_per_s:
            return
        most_s = limit.bytes_per_s * (len(os.sched_getaffinity(0)) if self._is_parallel() else 1)
        if size / call_s > most_s:
            raise CheckFailed(
                self.timed.arm,
                f"the call did not do its work: it wrote {size} bytes of outputs in {call_s * 1e6:.3g} µs, "
                f"{size / call_s / 1e9:.3g} GB/s; the limit is {most_s / 1e9:.3g} GB/s, {limit.words}; "
                "let every call write its outputs",
            )

    def _is_parallel(self) -> bool:
        wall_s, processor_s = time.perf_counter(), time.process_time()
        for _ in range(_FEW_CALLS):
            self.timed.once()
        return time.process_time() - processor_s > _PARALLEL * (time.perf_counter() - wall_s)

    def look(self) -> None:
        """Look at what the last call wrote."""
        if self.asked.check is not None:
            try:
                self.asked.check()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # of pytest.fail, too
                said = " ".join(f"{type(error).__name__}: {error}".split())
                raise CheckFailed(self.timed.arm, f"check= fails after a timed call: {said:.400}") from error
            return
        from pytest_compileiq.timing.outputs import difference, equal

        for known in self.written:
            if not equal(now := known.output.now(), known.content, known.written):
                differs = difference(known.output, now, known.content, known.written)
                raise _Unsteady(self.timed.arm, known.output.name, f"{differs}, differ from the first checked call's")

    def look_at_each_of(self, calls: int) -> None:
        """Make so many calls, each on overwritten outputs, and look at each."""
        for _ in range(calls):
            self._call_on_poison()
            self.look()

    def last(self) -> object:
        """Overwrite what the callable writes, and call once more; returns what that call returned."""
        self.learn()
        value = self._call_on_poison()
        self.look()
        return value

    def _call_on_poison(self) -> object:
        for known in self.written:
            known.poison()
        return self.timed.once()

    def _called_on(self, poison: int) -> list[Bytes]:
        """Copies of the outputs after a call on outputs that hold ``poison``."""
        from pytest_compileiq.timing.outputs import filled

        for output in self.asked.outputs:
            output.write(filled(output, poison))
        self.timed.once()
        return [output.now().copy() for output in self.asked.outputs]

    def _why_unlike(self, place: int, contents: list[Bytes]) -> CheckFailed:
        """Why an output is not written, or not the same whatever was there before."""
        from pytest_compileiq.timing.outputs import POISONS, difference

        name, output = f"outputs[{place}]", self.asked.outputs[place]
        again = self._called_on(POISONS[0])[place]
        time.sleep(_LATE_S)
        if (output.now() != again).any():
            return CheckFailed(
                self.timed.arm,
                f"the call only enqueues its work: {name} changed after it had returned; let the call wait for the end",
            )
        if (again == POISONS[0]).all():
            return CheckFailed(
                self.timed.arm,
                f"the call leaves {name} as it finds it: it writes nothing there, or not every time, or works in place "
                f"on data that is done already; for the last, {_IN_PLACE}",
            )
        pairs = zip(contents, (again, self._called_on(POISONS[1])[place]), strict=False)
        for first, later in pairs:
            if (first != later).any():
                differs = difference(output, first, later, None)
                return _Unsteady(self.timed.arm, name, f"{differs}, differ between calls on the same content")
        missed = "reset= does not restore all of it" if self.asked.reset is not None else _IN_PLACE
        return CheckFailed(
            self.timed.arm, f"the result in {name} depends on its earlier content, as in place: {missed}"
        )


@dataclass
class CheckedBlock:
    """Both arms of one block, and how often the tuned one was looked at; its methods raise as a ``CheckedArm``'s."""

    plan: BlockPlan
    arms: Mapping[Arm, CheckedArm]
    made: ChecksMade | None = field(default=None, init=False)

    def learn(self) -> None:
        """Find out what both arms write."""
        baseline, tuned = self.arms["baseline"], self.arms["tuned"]
        baseline.learn()
        with self._doubting_the_baseline_too():
            tuned.learn()
        tuned.expect_as_much_as(baseline)
        if by := tuned.asked.by:
            self.made = ChecksMade(by, 0, 0)
        for own in self.arms.values():
            own.overwrite_before_each()
            if self.plan.starts and own.timed.clock.single_calls == "all":
                own.overwrite(0)  # a pause may come first

    def before_slot(self, arm: Arm, slot: int) -> SlotStart | None:
        """Time the single call that the plan begins ``slot`` with, and look at a dirty one; else None."""
        kind, checked = self.plan.starts.get(slot), self.arms[arm]
        if kind is None or not checked.begins_with(kind):
            return None
        checked.timed.once()  # the caches are its own again, and it has been called in a row
        checked.timed.once()
        if kind == "pause":
            end = time.perf_counter() + max(_LEAST_PAUSE_S, random.uniform(1, 3) * checked.overwriting_s)
            while time.perf_counter() < end:  # as busy as an overwrite is: a processor that sleeps is slow afterwards
                pass
        else:
            checked.overwrite(random.randrange(1, 256) if kind == "dirty" else 0)
        seconds = checked.timed.seconds(1)
        if kind == "dirty":
            with self._doubting_the_baseline_too():
                checked.look()
        return SlotStart("bare" if kind == "pause" and checked.asked.is_bare else kind, seconds)

    def after_slot(self, arm: Arm, slot: int) -> None:
        """Look at what ``arm`` wrote, if the plan says so, and call it once more: the caches are its own again."""
        if self.made is None or slot not in self.plan.checks:
            return
        checked, further = self.arms[arm], self.plan.checks[slot]
        with self._doubting_the_baseline_too():
            checked.look()
            checked.look_at_each_of(further)
        checked.timed.once()
        if arm == "tuned":
            self.made = replace(self.made, checks=self.made.checks + 1 + further, slots=self.made.slots + 1)

    def expect_possible(self, slots: Sequence[Slot[float]]) -> None:
        """As ``CheckedArm.expect_possible``, of the median sample of each arm, the tuned one first; in seconds."""
        for arm in ("tuned", "baseline"):
            self.arms[arm].expect_possible(median(value for slot in slots if slot.arm == arm for value in slot.values))

    def last(self, arm: Arm) -> object:
        """As ``CheckedArm.last``, of that arm."""
        with self._doubting_the_baseline_too():
            return self.arms[arm].last()

    @contextmanager
    def _doubting_the_baseline_too(self) -> Iterator[None]:
        """An output that does not repeat itself in the baseline either is no fault of the tuned arm."""
        try:
            yield
        except _Unsteady as failure:
            if failure.arm == "tuned":
                self.arms["baseline"].learn()
                self.arms["baseline"].look_at_each_of(2 * CHECKED_CALLS)
            raise
