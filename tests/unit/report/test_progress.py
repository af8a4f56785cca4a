"""The line that shows how far a search is."""

from __future__ import annotations

import math

import pytest

from pytest_compileiq.config import Budget
from pytest_compileiq.report.progress import tally_text
from pytest_compileiq.tally import Tally


@pytest.mark.parametrize(
    ("best", "shift", "said"),
    [
        (math.log(0.5), None, "best 2.000x better (unproven)"),
        (0.0, None, "best 1.000x better (unproven)"),
        (-0.25, -0.25, "best better by 0.25 of the baseline's magnitude (unproven)"),  # of what is minimised
        (-0.3, 0.3, "best better by 0.3 of the baseline's magnitude (unproven)"),  # of what is maximised
    ],
)
def test_the_best_so_far_is_a_ratio_or_a_difference(best, shift, said):
    tally = Tally(evaluations=3, duplicates=1, best=best, invalid={"wrong": 1})
    text = tally_text(tally, Budget(evaluations=10), shift)
    assert text.startswith(f"3/10 evaluated, 1 invalid (1 wrong), 1 duplicate, {said}, ")
