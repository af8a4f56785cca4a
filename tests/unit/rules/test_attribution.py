"""Intervals of what each control brings hold together, and are recomputed from what is stored."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from pytest_compileiq.errors import ClaimMismatch, StoreError
from pytest_compileiq.reduction import Attribution, Loss, Reduction, Without
from pytest_compileiq.report.artifact import artifact_lines, attribution_text, reduction_text
from pytest_compileiq.rules.comparison import effect, recompute_attribution
from pytest_compileiq.rules.diff import Side, compare
from pytest_compileiq.store.metadata import parse, render
from tests.unit.artifacts import TARGET, make_artifact


def measured(knob: str, loss: float, comparisons: int = 2, noise: float = 1e-3) -> Without:
    losses = loss + noise * np.random.default_rng(3).standard_normal(8)
    interval = effect(losses, comparisons)
    values = {"loss": interval.estimate, "low": interval.low, "high": interval.high, "losses": tuple(losses.tolist())}
    named = {"knobs": (knob,), "standing": "measured", "objective": "runtime", "direction": "minimize"}
    return Without(**named | values)


def table(*without: Without, comparisons: int = 2) -> Attribution:
    return Attribution(device="cpu", comparisons=comparisons, seconds=1.0, without=without)


REDUCTION = Reduction(
    before=28, after=2, by_code=17, by_objective=9, undecided=2, seconds=4.1, search_seconds=20.0,
    losses=(Loss(objective="runtime", workload="w", loss=0.002, low=-0.004, high=0.008),),
)  # fmt: skip


def test_an_interval_is_students_at_bonferronis_level():
    losses = np.array([0.1, 0.12, 0.09, 0.11])
    interval = effect(losses, 5)
    low, high = stats.t.interval(1 - 0.05 / 5, 3, losses.mean(), stats.sem(losses))
    assert (interval.low, interval.high) == pytest.approx((low, high))


def test_all_intervals_of_a_table_hold_together_in_nineteen_of_twenty_tables():
    random = np.random.default_rng(4)
    missed = 0
    for _ in range(400):
        intervals = [effect(random.normal(0.1, 0.05, 8), 6) for _ in range(6)]
        missed += any(not interval.low <= 0.1 <= interval.high for interval in intervals)
    assert missed / 400 <= 0.07


def test_what_is_stored_gives_the_same_intervals_again_and_a_changed_one_is_refused():
    entry = measured("-O", 0.4)
    recompute_attribution(table(entry))
    for changes, comparisons in (
        ({"loss": 0.5}, 2),
        ({"high": entry.high + 1e-3}, 2),
        ({"losses": (0.4,)}, 2),
        ({}, 3),
    ):
        with pytest.raises(ClaimMismatch, match="the attribution of -O"):
            recompute_attribution(table(entry.model_copy(update=changes), comparisons=comparisons))
    with pytest.raises(ClaimMismatch, match="corrects for 1 comparisons, and holds 2"):
        recompute_attribution(table(entry, entry, comparisons=1))


def test_an_attribution_of_what_the_controls_do_not_hold_is_an_error():
    for entry in (measured("-fast", 0.1), Without(acf=True, standing="idle")):
        with pytest.raises(ValidationError, match="which the controls do not hold"):
            make_artifact(attribution=table(entry))
    with pytest.raises(ValidationError, match=r"\[reduction\] is about controls, and there is no"):
        make_artifact(outcome="baseline", controls=None, claims=(), reduction=REDUCTION)


@pytest.mark.parametrize(
    "changes",
    [{"loss": None}, {"value": 3}, {"losses": ()}, {"losses": (0.1,) * 65}, {"objective": None}, {"knobs": ()},
     {"standing": "idle"}, {"low": math.inf}, {"standing": "share"}],
)  # fmt: skip
def test_an_entry_that_says_too_little_too_much_or_nonsense_is_refused(changes):
    with pytest.raises(ValidationError):
        Without(**measured("-O", 0.1).model_dump() | changes)


def test_counts_that_do_not_add_up_are_refused():
    with pytest.raises(ValidationError, match="are not the 7 that stay"):
        Reduction(**REDUCTION.model_dump() | {"after": 7})
    with pytest.raises(ValidationError, match="7 of 2 controls are undecided"):
        Reduction(**REDUCTION.model_dump() | {"undecided": 7})


def test_both_tables_are_read_as_they_were_written_and_older_artifacts_have_none():
    artifact = make_artifact(reduction=REDUCTION, attribution=table(measured("-O", 0.4)))
    assert parse(render(artifact), "here", "mend it") == artifact
    assert b"reduction" not in render(make_artifact())
    with pytest.raises(StoreError):
        parse(render(artifact).replace(b'"-O",', b'"-Oh",'), "here", "mend it")


def test_one_line_tells_the_large_ones_first_and_what_is_not_resolved():
    told = table(
        measured("-O3", math.log(1.21)),
        measured("-fno-trapping-math", math.log(1.62)),
        measured("-funroll-loops", 0.0, noise=0.01),
        Without(knobs=("-fidle",), standing="idle"),
        Without(knobs=("-D",), standing="wrong", reason="wrong: 1 != 2"),
    )
    assert attribution_text(told) == (
        "without -fno-trapping-math 1.62 times slower, without -O3 1.21; "
        "-funroll-loops not resolved; -fidle idle; -D needed for a correct result"
    )


def test_a_counted_objective_is_told_by_its_counts():
    fewer = Without(
        knobs=("-O",), standing="exact", objective="code_bytes", direction="minimize", value=8, value_without=10
    )
    assert attribution_text(table(fewer)) == "without -O code_bytes 8 → 10"


@pytest.mark.parametrize(
    ("undecided", "by_objective", "budgets", "is_open"),
    [(2, 0, {"runtime": 0.01}, True), (2, 9, {}, True), (2, 9, {"runtime": 0.01}, False), (0, 0, {}, False)],
)
def test_a_reduction_can_go_on_unless_others_have_used_up_what_it_may_lose(undecided, by_objective, budgets, is_open):
    reduction = Reduction(
        before=11 + by_objective, after=11, by_code=0, by_objective=by_objective, undecided=undecided, budgets=budgets,
        seconds=1.0, search_seconds=4.0,
    )  # fmt: skip
    assert reduction.is_open is is_open
    assert ("(pytest --tune with a larger --tune-budget goes on)" in reduction_text(reduction)) is is_open


def test_show_and_diff_tell_both():
    artifact = make_artifact(reduction=REDUCTION, attribution=table(measured("-O", math.log(2))))
    shown = "\n".join(artifact_lines("k", artifact))
    assert reduction_text(REDUCTION) in shown and "without -O 2 times slower" in shown
    assert "28 controls → 2: 17 change no machine code, 9 bring nothing; 2 stay undecided" in shown
    change = compare(None, Side("k", TARGET, artifact))
    assert change.reduction == REDUCTION and change.attribution == artifact.attribution
