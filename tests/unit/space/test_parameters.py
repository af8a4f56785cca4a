"""What a knob may be: whatever an artifact can hold, and nothing that a search could not store in the end."""

from __future__ import annotations

import re

import pytest

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import LONGEST_TEXT
from pytest_compileiq.space import choice, literal, log_sampling, range

NUMBER = "a number up to 1e+30, an integer of 64 bits"


@pytest.mark.parametrize("value", [True, 0, 2**63 - 1, -(2**63), 1e30, -0.5, "", "x" * LONGEST_TEXT])
def test_a_value_that_can_be_stored_is_taken(value):
    assert literal(value).values == choice([value]).values == (value,)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1e31, float("nan"), float("-inf"), None, [1], b"x"])
def test_a_value_that_could_not_be_stored_is_refused_before_the_search(value):
    with pytest.raises(MarkerError, match=re.escape(f"literal: {value!r}: expected a bool, {NUMBER} or a string")):
        literal(value)
    with pytest.raises(MarkerError, match="choice: "):
        choice([value])


def test_a_text_too_long_is_told_by_its_length():
    with pytest.raises(MarkerError, match="literal: a string of 2001 characters: an artifact holds 2000 of one"):
        literal("x" * (LONGEST_TEXT + 1))


def test_a_range_holds_its_end_where_the_steps_meet_it():
    assert range(0, 1, 0.25).values == (0, 0.25, 0.5, 0.75, 1)
    assert range(0.1, 0.3, 0.1).values == pytest.approx((0.1, 0.2, 0.3))  # whose steps miss it by a rounding
    assert range(0, 1, 0.3).values == pytest.approx((0, 0.3, 0.6, 0.9))


ENDS = {"range": range, "log_sampling": log_sampling}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("end", [2**63, 1e31, float("inf"), float("nan"), True, "8"])
def test_the_ends_of_a_range_are_numbers_that_can_be_stored(name, end):
    with pytest.raises(MarkerError, match=re.escape(f"{name}(end={end!r}): expected {NUMBER}")):
        ENDS[name](1, end)
