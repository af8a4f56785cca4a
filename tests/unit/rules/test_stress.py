"""What claims record of draws, and how that is worded."""

from __future__ import annotations

import math

import pytest

from pytest_compileiq.claim import Accuracy, Stress
from pytest_compileiq.errors import StoreError
from pytest_compileiq.report.claims import draws_lines, less_accurate_lines, stress_lines, stress_notes
from pytest_compileiq.rules.stress import Difference, Draw, by_accuracy, record_of
from pytest_compileiq.store.metadata import parse, render
from tests.unit.artifacts import make_artifact


def apart(relative: float, ulps: int = 3, output: str = "out") -> Difference:
    return Difference(output, 7, "1.0", "1.5", ulps, relative)


def lines(stress: Stress | None) -> list[str]:
    return stress_lines([make_artifact().claims[0].model_copy(update={"stress": stress})])


def test_clean_draws_exclude_a_failure_rate():
    assert lines(record_of(1, [{"w": Draw()}] * 32)) == [
        "32 draws, all clean: a failure rate above 9 % is excluded (95 %); seeds 1 to 32"
    ]


def test_unusable_draws_are_counted_and_exclude_nothing():
    record = record_of(5, [{"w": Draw()}, None, {"w": Draw()}])
    assert lines(record) == [
        "2 of 3 draws, all clean: a failure rate above 78 % is excluded (95 %); seeds 5 to 7; 1 unusable"
    ]
    (said,) = lines(record_of(1, [None, None]))
    assert said == "2 draws, seeds 1 to 2, none of them usable, so no failure rate is excluded"


def test_a_body_that_draws_nothing_and_a_claim_that_was_not_stressed_are_told_apart():
    assert lines(Stress(draws=0)) == ["0 draws: the body does not read acf.rng"]
    assert lines(None) == ["not stressed"]
    claims = [make_artifact().claims[0].model_copy(update={"stress": stress}) for stress in (None, Stress(draws=0))]
    assert stress_notes(claims) == [] == draws_lines(claims[:1]) == less_accurate_lines(claims)


def test_the_largest_difference_says_where_it_is():
    record = record_of(
        4,
        [
            {"small": Draw(("out",), (apart(1e-7),)), "large": Draw(("out",))},
            {"small": Draw(("out",)), "large": Draw(("out",), (apart(2e-7, 4),), (apart(1e-9, 1),))},
            {"small": Draw(("out",)), "large": Draw(("out",), (apart(2e-7, 3),))},
        ],
    )
    assert record.outputs == 2
    assert lines(record)[1:] == [
        "largest difference: 1.0 → 1.5, 4 ulps, 2e-07 of the largest value ('out' on large, element 7, draw 5)",
        "the baseline differs from itself: 1.0 → 1.5, 1 ulps, 1e-09 of the largest value ('out' on large, element 7, draw 5)",
    ]  # fmt: skip
    assert "no number in one of them" in lines(record_of(1, [{"w": Draw(("out",), (apart(math.inf, 2**63 - 1),))}]))[1]


def test_outputs_with_the_same_bits_are_said_to_have_them():
    assert lines(record_of(1, [{"w": Draw(("out",))}]))[1:] == ["every compared output has the baseline's bits"]


def of_errors(*pairs: tuple[float, float]) -> Stress:
    return record_of(1, [{"w": Draw(("sum",), (), (), {"sum": pair})} for pair in pairs])


def test_an_output_that_is_farther_off_its_reference_on_every_draw_is_called_less_accurate():
    (said,) = [line for line in lines(of_errors(*[(1.0, 4.0)] * 8)) if "accurate" in line]
    assert said == (
        "less accurate: 'sum' on w has 4 times the baseline's error, and is farther off its reference on 8 of 8 draws"
    )


def test_one_that_is_farther_off_by_chance_or_nearer_is_not():
    by_chance, nearer, equal = of_errors(*[(1, 2), (2, 1)] * 9), of_errors(*[(4, 1)] * 9), of_errors(*[(1, 1)] * 9)
    assert "not less accurate: 'sum' on w, farther off its reference on 9 of 18 draws" in lines(by_chance)
    assert "not less accurate: 'sum' on w, farther off its reference on 0 of 9 draws" in lines(nearer)
    assert "not less accurate: 'sum' on w, as near to its reference on every draw" in lines(equal)


def test_devices_whose_stress_differs_are_named():
    claim = make_artifact().claims[0]
    claims = [claim.model_copy(update={"device": name, "stress": Stress(draws=0)}) for name in ("A", "B")]
    assert stress_lines(claims) == ["0 draws: the body does not read acf.rng"]
    claims.append(claim.model_copy(update={"device": "C"}))
    assert stress_lines(claims) == ["A, B: 0 draws: the body does not read acf.rng", "C: not stressed"]


@pytest.mark.parametrize("stress", [None, Stress(draws=0), record_of(3, [{"w": Draw(("o",), (apart(1e-7),))}, None])])
def test_a_claims_stress_is_stored_and_read_back(stress):
    claim = make_artifact().claims[0].model_copy(update={"stress": stress})
    written = render(make_artifact(claims=(claim,)))
    assert (b"stress" in written) == (stress is not None)
    assert parse(written, "x.toml", "mend it").claims[0].stress == stress


def test_what_a_worker_made_up_is_refused_in_a_sentence():
    for drawn in (Draw((), (apart(math.nan),)), Draw((), (apart(-1.0),)), Draw((), (apart(1.0, output="x" * 9999),))):
        with pytest.raises(StoreError, match="the result cannot be stored"):
            record_of(1, [{"w": drawn}])
    of_errors((math.nan, -1.0), (0.0, math.inf))


def accuracy(worse: int, better: int) -> Accuracy:
    return Accuracy(output="sum", workload="w", worse=worse, better=better, ratio=2.0)


IMPOSSIBLE = {
    "3 draws cannot be usable of 2": {"draws": 2, "usable": 3, "seed": 1},
    "2 draws have no seed": {"draws": 2, "usable": 2},
    "output 'sum' differs on more than the 2 usable draws": {"draws": 9, "usable": 2, "seed": 1, "accuracy": [accuracy(2, 1)]},
}  # fmt: skip


@pytest.mark.parametrize(("why", "fields"), IMPOSSIBLE.items(), ids=IMPOSSIBLE)
def test_counts_that_no_draws_give_are_refused(why, fields):
    with pytest.raises(ValueError, match=why):
        Stress(**fields)


def test_each_output_is_judged_for_all_outputs_together():
    worse, as_good = accuracy(8, 0), accuracy(0, 8)
    assert by_accuracy(Stress(draws=8, usable=8, seed=1, accuracy=[worse, as_good])) == ([worse], [as_good])
    assert by_accuracy(Stress(draws=8, usable=8, seed=1, accuracy=[worse] * 3)) == ([], [worse] * 3)
