"""Symbols that anybody may have written: an outline is bounded by its symbol, or there is none."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_compileiq.machine_code.names import outline, readable

PARTS = st.sampled_from(
    ["_Z", "N", "I", "J", "E", "L", "Li1E", "L_Z", "S_", "S1_", "T_", "St", "K", "1f", "3abc", "99x", "C1", "D2", "Dp", "X",
     "B", "_GLOBAL__N_1", "12", "é", "\udc80", "<", ">", "v", "_"]
)  # fmt: skip
SYMBOLS = st.lists(PARTS, max_size=40).map(lambda parts: "_Z" + "".join(parts))


@settings(max_examples=500)
@given(SYMBOLS)
def test_an_outline_is_bounded_by_its_symbol_and_says_which_one_it_is_of(symbol):
    told = outline(symbol)
    if told is not None:
        name, _, tag = told.rpartition("#")
        assert name and len(tag) == 6
        assert len(name) <= 3 * len(symbol) + len("(anonymous namespace)") * symbol.count("_GLOBAL__N_1")


@settings(max_examples=300)
@given(SYMBOLS)
def test_whatever_a_symbol_is_it_can_be_shown(symbol):
    assert len(readable(symbol)) <= max(len(symbol), 120) + 8
