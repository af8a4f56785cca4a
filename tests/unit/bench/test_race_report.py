"""What the race's report says of races that are made up."""

from __future__ import annotations

import race_report
from race_runs import Moment, Race


def race(*values: float) -> Race:
    """What is held after 1, 50, 100 and 200 evaluations, each of which takes a second."""
    return Race([Moment(at, value, at, at, 0.0, 0.0) for at, value in zip((1, 50, 100, 200), values, strict=True)])


def test_ours_early_is_held_against_the_best_of_the_others_late():
    ahead, behind = race(0.0, -0.1, -0.5, -0.6), race(0.0, -0.1, -0.3, -0.6)
    other, worse = race(0.0, -0.2, -0.3, -0.4), race(0.0, 0.0, 0.0, -0.1)
    races = {
        "join-time": {"ga": {0: ahead}, "random": {0: worse}, "optuna:tpe": {0: other}},
        "sort-time": {"ga": {0: behind}, "random": {0: worse}, "optuna:tpe": {0: other}},
        "crc-size": {"ga": {0: behind}, "random": {0: worse}, "optuna:tpe": {0: other}},
    }
    said = [line for line in race_report.lines("open", races) if line.startswith("**Ours after")]
    assert said == [
        "**Ours after 100 evaluations, the best of the others after 200**, by medians: ours is no worse on 1 of 2 "
        "objectives with a time (sign test p = 1); in the seconds that the other one takes for 200, on 2 (p = 0.5)."
    ]
