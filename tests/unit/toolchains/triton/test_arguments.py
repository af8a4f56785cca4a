"""How constexprs and configs are written down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.toolchains.nvidia.options import PTXAS
from pytest_compileiq.toolchains.triton.arguments import config_text, config_values, is_plain, plain

SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.none()
TEXTS = st.sampled_from(["tl.float16", "tl.int8", "relu", "a b", "it's", 'a "quote"', "x, y=1", ""])
VALUES = st.recursive(SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)


@given(st.dictionaries(st.sampled_from(["BLOCK", "num_warps", "DTYPE"]), VALUES, min_size=1))
def test_a_config_is_what_its_text_says(values):
    assert config_values(config_text(values)) == values


def test_the_text_of_a_config_is_the_keywords_of_a_call():
    assert config_values("BLOCK=64, DTYPE=tl.int8, SIZES=(1, 2)") == {"BLOCK": 64, "DTYPE": "tl.int8", "SIZES": [1, 2]}


@pytest.mark.parametrize("knobs", [{"config": "A={[]}"}, {"config": "A=b'x'"}, {"SIZES": "(b'x',)"}, {"SIZES": "(64"}])
@pytest.mark.parametrize("blob", [None, b"acf"])
def test_committed_knobs_that_no_launch_takes_are_refused(knobs, blob):
    with pytest.raises(MarkerError, match="expected"):
        PTXAS.render_launch(Candidate(knobs, blob))


@pytest.mark.parametrize(
    ("written", "meant"),
    [("None", None), ("(64, 64)", [64, 64]), ("(1,)", [1]), ("(tl.int8, None)", ["tl.int8", None]), ((1, (2,)), [1, [2]]),
     ("tl.float16", "tl.float16"), ("relu", "relu"), (True, True), (None, None)],
)  # fmt: skip
def test_what_a_knob_cannot_be_is_written_as_in_python(written, meant):
    assert plain(written) == meant


@pytest.mark.parametrize(
    "value",
    [object(), {1}, print, "(print(),)", "(64", b"x", [1, object()], "(b'x',)", "(x.y,)", "({[]},)", "(1j,)", "({},)"],
)
def test_what_cannot_be_written_down_is_refused(value):
    assert not is_plain(value)


@pytest.mark.parametrize(
    "text",
    ["", "BLOCK", "BLOCK=64,", "BLOCK=64) or exec(''", "a=1, a=2", "A=print()", 3, "**{'a': 1}", "A=x",
     "A={[]}", "A={1, 2}", "A=b'x'", "A=1j", "A={'a': 1}", "A=[1]", "A=...", "A=x.y", "A=(x.y,)", "A=(b'x',)"],
)  # fmt: skip
def test_only_the_text_of_a_config_is_one(text):
    with pytest.raises(MarkerError, match=r"expected values such as 'BLOCK=128, num_warps=4'"):
        config_values(text)
