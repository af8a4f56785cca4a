"""Whether a search has judged enough to say anything."""

from __future__ import annotations

import pytest

from pytest_compileiq.rules.stopping import FEW, FEWEST, NONE_OF, unread_knobs, unread_text, why_unjudged

REASONS = {
    "neighbour": "also change b, which the test does not take from load()",
    "compile": "gcc refuses k.c",
    "wrong": "no",
}
REMEDY = "move the kernel to a file of its own"


def judged(measured: int, *, valid: int | None = None, at_the_end: bool = False, **invalid: int) -> str | None:
    return why_unjudged(measured, measured if valid is None else valid, invalid, REASONS, REMEDY, at_the_end=at_the_end)


@pytest.mark.parametrize(
    ("measured", "void", "at_the_end", "stops"),
    [
        (0, FEW, False, True),
        (0, FEW - 1, False, False),
        (2, FEWEST - 2, False, True),
        (2, FEWEST - 3, False, False),  # too few to say
        (2, 14, True, True),
        (3, FEWEST - 3, False, False),  # three of sixteen are not nearly all
        (2, 38, True, True),
        (1, 11, True, True),
        (10, 10, True, False),
        (0, 1, True, True),
    ],
)
def test_a_search_ends_when_nearly_all_candidates_are_void(measured, void, at_the_end, stops):
    reason = judged(measured, at_the_end=at_the_end, neighbour=void)
    assert (reason is not None) is stops
    if reason:
        assert f"{void} of {measured + void} candidates were not measured" in reason
        assert "also change b" in reason and "move the kernel to a file of its own" in reason


def test_other_failures_end_a_search_only_where_nothing_at_all_was_measured():
    assert judged(0, compile=NONE_OF - 1) is None
    assert (
        judged(0, compile=NONE_OF - 2, wrong=2)
        == f"none of {NONE_OF} candidates could be measured: 30 × compile: gcc refuses k.c; 2 × wrong: no"
    )
    assert (
        judged(0, at_the_end=True, compile=1) == "none of 1 candidate could be measured: 1 × compile: gcc refuses k.c"
    )
    assert judged(1, at_the_end=True, compile=99) is None
    assert judged(0, at_the_end=True) == "none of 0 candidates could be measured: the engine proposed none"


def test_a_candidate_with_the_baselines_own_code_is_judged():
    assert judged(0, valid=1, at_the_end=True, wrong=1) is None


@pytest.mark.parametrize(
    ("read", "taken", "unread"),
    [
        ((), (), ("BLOCK", "TILE")),
        (("BLOCK",), (), ("TILE",)),
        (("BLOCK",), ("TILE",), ()),
        ((), None, ()),  # a toolchain that does not say what it takes
    ],
)
def test_a_parameter_that_neither_the_body_nor_the_compiler_takes_is_unread(read, taken, unread):
    assert unread_knobs(("BLOCK", "TILE", "-O"), read, taken) == unread


def test_unread_knobs_are_named_in_the_right_number():
    assert unread_text(["BLOCK"]).startswith("knob 'BLOCK' was never read")
    assert unread_text(["A", "B"]).startswith("knobs 'A', 'B' were never read")
