"""A comparison with the baseline in words."""

from __future__ import annotations

import pytest

from pytest_compileiq.rules.words import interval_text, ratio_text, words_for

RATIOS = {
    1.25: "1.250x better",
    1.0: "1.000x better",
    0.8: "1.250x worse",
    0.0: "1000000000.000x worse",
    -3.0: "1000000000.000x worse",
}
INTERVALS = {
    "all above 1": ((1.1, 1.2), "1.100 to 1.200"),
    "from 1": ((1.0, 1.2), "1.000 to 1.200"),
    "all below 1": ((0.8, 0.9), "1.111 to 1.250"),
    "up to 1": ((0.8, 1.0), "1.000 to 1.250"),
    "around 1": ((0.8, 1.2), "1.250x worse to 1.200x better"),
    "of nothing": ((0.0, 0.0), "1000000000.000 to 1000000000.000"),
}  # fmt: skip
WORDS = {
    ("runtime", "minimize"): ("faster", "slower"),
    ("runtime@p99", "minimize"): ("faster", "slower"),
    ("compile_time", "minimize"): ("faster", "slower"),
    ("energy", "minimize"): ("lower", "higher"),
    ("rate", "maximize"): ("higher", "lower"),
}


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_ratio_is_never_below_1(ratio):
    assert ratio_text(ratio) == RATIOS[ratio]


@pytest.mark.parametrize("what", INTERVALS)
def test_an_interval_says_a_word_where_it_holds_1(what):
    bounds, said = INTERVALS[what]
    assert interval_text(*bounds) == said


@pytest.mark.parametrize(("metric", "direction"), WORDS)
def test_a_time_is_faster_or_slower_and_what_else_is_lower_or_higher(metric, direction):
    assert words_for(metric, direction) == WORDS[metric, direction]
