"""Runs the steps that are still to do, one after the other, within the seconds of one call."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench.gpu_evidence.state import Record, State, Status

MOST_BEGUN = 3  # a step that never ends within a call must not be begun for ever
ALL_DONE, A_FAILURE, MORE_TO_DO = 0, 1, 75  # 75 is EX_TEMPFAIL of sysexits.h: try again


@dataclass(frozen=True)
class Outcome:
    """How far a step came. ``further``: what it got adds up over calls, and this call added to it."""

    status: Status
    why: str = ""
    further: bool = False


@dataclass(frozen=True)
class Step:
    """One piece of evidence.

    Attributes:
        work: does it within so many seconds, or as much of it as they hold.
        needs_s: with less left of a call that has done something it waits for the next.
        after: the step that has to be done before.
        lacks: what it needs and is not here, so that it is left out; empty where all is.
    """

    name: str
    work: Callable[[float], Outcome]
    needs_s: float = 0.0
    after: str = ""
    lacks: str = ""


@dataclass(frozen=True)
class Runner:
    """Steps in the order of their worth; ``no_gpu`` is why none of them can run, empty where there is one."""

    steps: Sequence[Step]
    state: State
    no_gpu: str = ""
    say: Callable[[str], None] = print
    ended: Callable[[], None] = lambda: None  # called after each step
    clock: Callable[[], float] = time.monotonic

    def run(self, seconds: float, *, again: bool = False) -> int:
        """Go on for so many seconds; returns the exit status.

        Args:
            again: those that failed, too.
        """
        end = self.clock() + seconds
        begun = False
        for step in self.steps:
            left = end - self.clock()
            if not self._is_next(step, again) or (begun and left < step.needs_s):
                continue
            if left <= 0:
                break
            self._do(step, left)
            begun = True
        return self._exit_status()

    def _is_next(self, step: Step, again: bool) -> bool:
        """Whether it can be done now; where it never can be here, that is kept."""
        record = self.state.of(step.name)
        if record.status is Status.DONE or (record.status is Status.FAILED and not again):
            return False
        before = self.state.of(step.after) if step.after else Record(Status.DONE)
        failed = f"{step.after} {before.status}: {before.why}" if before.status in BROKEN else ""
        if why := self.no_gpu or step.lacks or failed:
            self.say(f"{step.name}: not run: {why}")
            self.state.keep(step.name, replace(record, status=Status.NOT_RUN, why=why))
            return False
        if record.status is Status.NOT_RUN or (record.status is Status.FAILED and again):
            self.state.keep(step.name, replace(record, status=Status.TO_DO, why="", begun=0))
        return before.status is Status.DONE

    def _do(self, step: Step, left: float) -> None:
        record = self.state.of(step.name)
        record = replace(record, begun=record.begun + 1)
        self.state.keep(step.name, record)
        self.say(f"{step.name}: {left:.0f} s left for it")
        start = self.clock()
        outcome = self._outcome(step, left)
        if outcome.status is Status.PARTIAL and record.begun >= MOST_BEGUN and not outcome.further:
            outcome = Outcome(Status.FAILED, f"begun {record.begun} times and never ended: {outcome.why}")
        begun = 0 if outcome.further or outcome.status.ended else record.begun
        spent = record.seconds + self.clock() - start
        self.state.keep(step.name, Record(outcome.status, outcome.why, round(spent, 1), begun))
        self.say(f"{step.name}: {outcome.status}{': ' if outcome.why else ''}{outcome.why}")
        self.ended()

    def _outcome(self, step: Step, left: float) -> Outcome:
        try:
            return step.work(left)
        except Exception as error:  # the others still run, and the page says why this one did not
            return Outcome(Status.FAILED, f"{type(error).__name__}: {error}")

    def _exit_status(self) -> int:
        reached = {step.name: self.state.of(step.name).status for step in self.steps}
        if more := [name for name, status in reached.items() if status in (Status.TO_DO, Status.PARTIAL)]:
            self.say(f"more to do: {', '.join(more)}; the same command goes on")
            return MORE_TO_DO
        return A_FAILURE if self.no_gpu or Status.FAILED in reached.values() else ALL_DONE


BROKEN = (Status.FAILED, Status.NOT_RUN)
