"""What is told of a timed call: the limits of each rule, and that caches, new pages and one odd look explain it away."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_compileiq.rules.calls import FAULT_S, MOST, PART, CallTimes, of_first_calls, of_the_way, unlike

STEADY = CallTimes(first_s=10e-6, later_s=10e-6, cold_s=10e-6, faults=0, call_s=10e-6, empty_s=None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"first_s": 20e-6}, None),
        ({"first_s": 20.1e-6}, "longer"),
        ({"first_s": 200e-6, "cold_s": 101e-6}, None),
        ({"first_s": 200e-6, "cold_s": 99e-6}, "longer"),
        ({"first_s": 20.1e-6 + 3 * FAULT_S, "faults": 3}, "longer"),
        ({"first_s": 19.9e-6 + 3 * FAULT_S, "faults": 3}, None),
        ({"first_s": 5e-6}, None),
        ({"first_s": 4.9e-6}, "shorter"),
        ({"first_s": 4.9e-6, "faults": 3}, "shorter"),
    ],
)
def test_a_first_call_is_unlike_later_ones_only_where_neither_caches_nor_new_pages_explain_it(changes, said):
    assert unlike(replace(STEADY, **changes), ratio=2.0) == said


def test_a_difference_counts_when_every_look_finds_the_same_one():
    longer, shorter = replace(STEADY, first_s=1e-3), replace(STEADY, first_s=1e-6)

    assert of_first_calls([longer, longer], ratio=2.0)
    assert of_first_calls([shorter], ratio=2.0)
    assert of_first_calls([longer, STEADY], ratio=2.0) is None
    assert of_first_calls([longer, shorter], ratio=2.0) is None
    assert of_first_calls([STEADY], ratio=2.0) is None
    assert of_first_calls([], ratio=2.0) is None


def test_both_times_are_said_the_least_of_each_and_what_to_do():
    looks = [replace(STEADY, first_s=first, later_s=later) for first, later in ((1.25e-3, 4e-6), (1.4e-3, 3.14e-6))]
    said = of_first_calls(looks, ratio=2.0)

    assert said.startswith("the first call takes 1.2 ms and later ones 3.1 µs: the measured calls do other work")
    assert "reset=" in said


@pytest.mark.parametrize(
    ("share", "word"), [(PART - 0.01, None), (PART, "part of"), (MOST - 0.01, "part of"), (MOST, "most of")]
)
def test_the_way_to_the_kernel_is_told_by_its_share(share, word):
    said = of_the_way([replace(STEADY, empty_s=share * STEADY.call_s)])

    assert (said and f"{word} the measured time is call overhead" in said) == (word and True)


def test_the_look_that_makes_least_of_the_way_counts_and_its_times_are_said():
    looks = [replace(STEADY, call_s=0.9e-6, empty_s=empty_s) for empty_s in (0.8e-6, 0.3e-6, None)]

    said = of_the_way(looks)
    assert said.startswith(
        "the call takes 0.9 µs, of which calling an empty function through ctypes takes 0.3 µs: part"
    )
    assert of_the_way([STEADY]) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.23e-6, "0.23 µs"),
        (13.4e-6, "13 µs"),
        (99.6e-6, "100 µs"),
        (999.4e-6, "999 µs"),
        (999.5 * 1e-6, "1 ms"),
        (0.123, "123 ms"),
        (3.14, "3.1 s"),
        (99.5, "100 s"),
        (310.0, "310 s"),
        (4321.0, "4321 s"),
    ],
)
def test_times_are_said_in_a_unit_that_suits(seconds, text):
    said = of_the_way([replace(STEADY, call_s=seconds, empty_s=seconds)])
    assert said.startswith(f"the call takes {text}, of which")
