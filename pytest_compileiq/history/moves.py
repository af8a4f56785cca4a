"""What moved the times of an artifact, and whose doing it was. Values in, moves out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pytest_compileiq.history.change_points import (
    LEAST_BEFORE_KNOWN,
    LEAST_MOVE,
    ChangePoint,
    Shape,
    change_points,
    steps,
)

Cause = Literal["tuned", "baseline", "both", "machine"]
_LARGEST_STEP = 20.0
_SURROUNDINGS = ("compiler", "driver", "machine")
_CODE = {"baseline_code": "the baseline's machine code", "tuned_code": "the tuned machine code"}


@dataclass(frozen=True)
class Run:
    """One measurement of both arms, and what it was taken of and on.

    Attributes:
        baseline, tuned: each arm's value, above 0.
        baseline_code, tuned_code: digests of the arms' machine code.
        machine: the operating system's kernel and the processor's microcode.
    """

    baseline: float
    tuned: float
    baseline_code: str
    tuned_code: str
    compiler: str
    driver: str | None = None
    machine: str | None = None


@dataclass(frozen=True)
class Move:
    """One change of level, and whose it is.

    Attributes:
        at: the first run on the new level.
        seen: the run after which it was found.
        cause: the arm whose code changed and whose time moved, or both; where the code that moved is the same, the
            machine.
        drifts: both arms crept there over many runs.
        baseline, tuned: by how much each arm's value moved, as a share of it: 0.03 is 3 % more.
        known: what changed with that run besides, in words.
    """

    at: int
    seen: int
    cause: Cause
    drifts: bool
    baseline: float
    tuned: float
    known: tuple[str, ...]

    @property
    def alarms(self) -> bool:
        """Whether the gain itself may have moved: code moved it, or one arm alone."""
        return self.cause != "machine" or abs(self.tuned - self.baseline) >= LEAST_MOVE * 2


def moves_of(runs: Sequence[Run]) -> list[Move]:
    """Every move, oldest first; what is found after a run depends on no later one."""
    if not runs:
        return []
    baseline, tuned = (np.log([getattr(run, arm) for run in runs]) for arm in ("baseline", "tuned"))
    changes = change_points(baseline, tuned, [at for at in range(1, len(runs)) if _is_event(runs, at)])
    begins = [0, *(change.at for change in changes)]
    ends = [*(change.at for change in changes[1:]), len(runs)]
    return [
        _move(change, runs, steps(baseline[begin:end], tuned[begin:end], change.at - begin))
        for change, begin, end in zip(changes, begins, ends, strict=False)
    ]


def _move(change: ChangePoint, runs: Sequence[Run], by: tuple[float, float]) -> Move:
    before, after = runs[change.at - 1], runs[change.at]
    cause = _cause(change.shape, before.baseline_code != after.baseline_code, before.tuned_code != after.tuned_code, by)
    baseline, tuned = map(share_of, by)
    return Move(change.at, change.seen, cause, change.drifts, baseline, tuned, tuple(_differences(before, after)))


def share_of(step: float) -> float:
    """A step of a logarithm as a share: 0.03 is 3 % more; steps that no time makes stay finite."""
    return math.expm1(min(step, _LARGEST_STEP))


def _cause(shape: Shape, baseline_changed: bool, tuned_changed: bool, by: tuple[float, float]) -> Cause:
    """Whose doing a change is: code that is the same as before takes another time on another machine only."""
    if baseline_changed and tuned_changed:
        less, more = sorted(map(abs, by))
        return "both" if shape == "alike" or less > max(LEAST_MOVE, more / 3) else shape
    if shape == "tuned" and tuned_changed:
        return "tuned"
    if shape == "baseline" and baseline_changed:
        return "baseline"
    return "machine"


def _is_event(runs: Sequence[Run], at: int) -> bool:
    """Whether something changed with run ``at``: machine code, or surroundings that had been the same for five runs.

    Runners that come and go change at every second run, and tell nothing.
    """
    before, after = runs[at - 1], runs[at]
    if any(getattr(before, code) != getattr(after, code) for code in _CODE):
        return True
    lately = runs[max(0, at - LEAST_BEFORE_KNOWN) : at]
    return any(
        {getattr(run, what) for run in lately} == {getattr(before, what)} != {getattr(after, what)}
        for what in _SURROUNDINGS
    )


def _differences(before: Run, after: Run) -> Iterator[str]:
    for code, name in _CODE.items():
        if getattr(before, code) != getattr(after, code):
            yield f"{name} changed"
    for what in _SURROUNDINGS:
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            yield f"{what} {old or 'unknown'} → {new or 'unknown'}"
