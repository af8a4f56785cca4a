"""The line that shows how far a search is."""

from __future__ import annotations

import math
import time

import pytest

from pytest_compileiq.config import Budget
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.report.progress import duration_text, tally_text


@pytest.mark.parametrize(
    ("best", "shift", "said"),
    [
        (math.log(0.5), None, "best 2.000x better (unproven)"),
        (0.0, None, "no gain yet"),
        (-1e-5, None, "no gain yet"),
        (0.0, 0.0, "no gain yet"),
        (-0.25, -0.25, "best lower by 0.25 of the baseline's magnitude (unproven)"),  # of what is minimised
        (-0.3, 0.3, "best higher by 0.3 of the baseline's magnitude (unproven)"),  # of what is maximised
    ],
)
def test_the_best_so_far_is_a_ratio_or_a_difference(best, shift, said):
    tally = SearchCounts(evaluations=3, duplicates=1, best=best, invalid={"wrong": 1})
    text = tally_text(tally, Budget(evaluations=10), shift)
    assert text == f"3/10 evaluations, {said}, 1 invalid (1 wrong), 1 duplicate"


@pytest.mark.parametrize(
    ("evaluations", "budget", "left"),
    [
        (9, Budget(evaluations=109), ""),  # too few for an estimate
        (10, Budget(evaluations=110), ", 16:40 left"),
        (110, Budget(evaluations=110), ""),
        (1, Budget(seconds=400), ", 5:00 left"),
        (50, Budget(seconds=100), ""),
    ],
)
def test_the_time_left_is_shown_once_it_is_known(monkeypatch, evaluations, budget, left):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    tally = SearchCounts(started=0.0, evaluations=evaluations)
    assert tally_text(tally, budget, None).partition("no gain yet")[2] == left


def test_durations_are_read_at_a_glance():
    assert [duration_text(seconds) for seconds in (5, 65, 3600, 30000)] == ["5 s", "1:05", "1:00:00", "8:20:00"]
