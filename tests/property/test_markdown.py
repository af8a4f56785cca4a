"""Whatever an artifact says, a comment shows it as code: no markup, no mention, no link, no further cell."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_compileiq.report.markdown import code, prose

QUICK = settings(max_examples=200)
# CommonMark: a code span is a run of backticks, up to the next run of the same length.
SPAN = re.compile(r"(`+)(?!`)(.*?)(?<!`)\1(?!`)", re.DOTALL)
texts = st.text(st.one_of(st.sampled_from("`|\\<@#*_[]() \n\t\x1b\u202e"), st.characters()), max_size=30)


@QUICK
@given(texts)
def test_any_text_is_one_code_span_on_one_line(text):
    shown = code(text)
    assert shown.isprintable() and SPAN.fullmatch(shown)
    assert len(SPAN.findall(shown)) == 1


@QUICK
@given(texts)
def test_any_text_stays_within_its_cell(text):
    assert "|" not in code(text, in_table=True) + prose(text, in_table=True)


@QUICK
@given(texts)
def test_prose_is_left_as_it_is_only_where_nothing_in_it_is_markup(text):
    shown = prose(text)
    assert shown == code(text) or not set(text) & set("`|\\<>@#*[]&\n\x1b\u202e")
