"""Whose doing a move is: the arm whose machine code changed, or the machine."""

from __future__ import annotations

from dataclasses import make_dataclass, replace

import numpy as np
import pytest

from pytest_compileiq.history.shifts import shifts_of

TimedRun = make_dataclass(
    "TimedRun", ["baseline", "tuned", "baseline_code", "tuned_code", "compiler", "driver", "machine"]
)
RUN = TimedRun(1.0, 0.5, "b", "t", "gcc 12", "550", "Linux 6.1")
AT = 40


def runs(baseline=0.0, tuned=0.0, count=50, **changed):
    """Runs of which those from ``AT`` on take more by these shares, and hold ``changed``."""
    noise = np.exp(np.random.default_rng(1).normal(0, 0.004, size=(count, 2)))
    return [
        replace(
            RUN,
            baseline=noise[at][0] * (1 + baseline * (at >= AT)),
            tuned=0.5 * noise[at][1] * (1 + tuned * (at >= AT)),
            **(changed if at >= AT else {}),
        )
        for at in range(count)
    ]


BOTH = {"baseline_code": "b2", "tuned_code": "t2"}


@pytest.mark.parametrize(
    ("baseline", "tuned", "changed", "cause"),
    [
        (0.0, 0.03, {"tuned_code": "t2"}, "tuned"),
        (0.03, 0.0, {"baseline_code": "b2"}, "baseline"),
        (0.03, 0.03, BOTH, "both"),
        (0.03, 0.06, BOTH, "both"),
        (0.0, 0.03, BOTH, "tuned"),
        (-0.03, 0.0, BOTH, "baseline"),
        (0.03, 0.03, {"machine": "Linux 6.2"}, "machine"),
        (0.0, 0.03, {"driver": "560"}, "machine"),
        (0.03, 0.03, {"tuned_code": "t2"}, "machine"),
        (0.0, 0.03, {"baseline_code": "b2"}, "machine"),
        (0.03, 0.0, {}, "machine"),
        (0.0, 0.03, {}, "machine"),
        (0.03, 0.03, {}, "machine"),
    ],
)
def test_an_arm_is_blamed_only_where_its_code_changed(baseline, tuned, changed, cause):
    (shift,) = shifts_of(runs(baseline, tuned, **changed))
    assert (shift.at, shift.cause) == (AT, cause)
    assert shift.baseline == pytest.approx(baseline, abs=0.005)
    assert shift.tuned == pytest.approx(tuned, abs=0.005)


def test_what_changed_with_it_is_told():
    (shift,) = shifts_of(runs(0.0, 0.03, tuned_code="t2", compiler="gcc 13", driver=None))
    assert shift.known == ("the tuned machine code changed", "compiler gcc 12 → gcc 13", "driver 550 → unknown")


def test_both_arms_of_one_machine_are_no_alarm_and_one_arm_is():
    assert [shift.alarms for shift in shifts_of(runs(0.03, 0.03))] == [False]
    assert [shift.alarms for shift in shifts_of(runs(0.0, 0.03))] == [True]
    assert [shift.alarms for shift in shifts_of(runs(0.03, 0.03, **BOTH))] == [True]


def test_changes_without_another_time_and_runners_that_come_and_go_are_no_moves():
    assert shifts_of(runs(tuned_code="t2", compiler="gcc 13")) == []
    assert shifts_of([replace(run, machine=f"runner {at % 2}") for at, run in enumerate(runs())]) == []
    assert shifts_of([]) == []


def test_times_of_an_attacker_are_steps_like_others():
    huge = [replace(run, tuned=1e-300 if at < AT else 1e300) for at, run in enumerate(runs())]
    assert [shift.at for shift in shifts_of(huge)] == [AT]
