"""What a model says of a search, in words: never like a measurement, and no surer than it is."""

from __future__ import annotations

import json

import pytest

from pytest_compileiq.explained import Curve, KnobEffect
from pytest_compileiq.outcome import ItemReport, RunReport, Verdict
from pytest_compileiq.report.explained import explained_lines
from pytest_compileiq.report.terminal import summary_lines
from tests.unit.report.pages import make_explained

APART = KnobEffect("-O", 3, None, 0.08, 0.04, 0.12)
UNSURE = KnobEffect("max-unroll-times", 2, None, 0.05, -0.02, 0.12)
NOTHING_EXPECTED = Curve((-0.1, None), (-0.1, -0.1), (None, None), (None, None), (None, None))


def lines(**changes: object) -> list[str]:
    return list(explained_lines(make_explained(**changes)))


def test_three_lines_say_what_mattered_what_is_unsure_and_how_good_the_model_was():
    first, second, third = lines()
    assert first == "by the model, not measured: runtime 1.221x faster with -funroll-loops (1.105 to 1.350)"
    assert second.startswith("by the model, not measured: 64 of 65 knobs are not told apart from no effect; likeliest ")
    assert second.endswith("runtime 1.051x faster with block=64 instead of 128 (1.105x slower to 1.221x faster)")
    assert "band, made before each was measured, held " in third and " of 25 scores (" in third


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        (APART, "runtime 1.083x faster with -O3 (1.041 to 1.127)"),
        (KnobEffect("-fno-gcse", None, "", 0.08, 0.04, 0.12), "runtime 1.083x faster without -fno-gcse (1.041 to 1.127)"),
        (KnobEffect("-O", 3, None, -0.08, -0.12, -0.04), "runtime 1.083x slower with -O3 (1.041 to 1.127)"),
        (KnobEffect("-O", 3, None, 1e6, 9e5, 2e6), "x faster with -O3"),
    ],
)  # fmt: skip
def test_an_effect_says_which_way_it_goes(effect, text):
    assert text in lines(effects=(effect,))[0]


def test_of_a_metric_without_ratios_the_difference_is_told():
    (first, *_) = lines(objective="score", direction="maximize", by_share=True, effects=(APART,))
    assert "score higher by 0.08 of the baseline's magnitude with -O3 (0.04 to 0.12)" in first


def test_where_nothing_is_told_apart_one_line_says_so_and_names_no_knob():
    assert lines(effects=(UNSURE,)) == [
        "by the model, not measured: 40 evaluations tell none of 65 knobs apart from no effect"
    ]


def test_the_largest_three_are_named_and_the_others_counted():
    effects = tuple(KnobEffect(f"-f{at}", "", None, 0.1 + at, 0.05, 9.0) for at in range(5))
    first, second, _ = lines(effects=effects)
    assert [name in first for name in ("-f4", "-f3", "-f2", "-f1", "-f0")] == [True] * 3 + [False] * 2
    assert first.endswith(", and 2 more knobs matter") and second.endswith(
        "60 of 65 knobs are not told apart from no effect"
    )


def test_of_several_objectives_it_is_said_that_one_is_explained():
    assert "runtime (the first of 2 objectives) 1.221x faster" in lines(objectives=2)[0]


def test_a_search_without_a_model_says_why_and_nothing_else():
    assert lines(effects=(), why_none="the space is opaque", curve=NOTHING_EXPECTED) == [
        "no knob is explained: the space is opaque"
    ]


def test_the_summary_has_it_after_the_notes_and_the_report_holds_it_whole():
    item = ItemReport("t.py::t", "k", "x86", Verdict.BASELINE, "none", notes=("a note",), explained=make_explained())
    shown = [line.strip() for line, _ in summary_lines(RunReport([item]), failures_shown=False)]
    assert shown[1] == "a note" and shown[2].startswith("by the model, not measured: ")
    assert ItemReport.from_json(item.to_json()) == item
    assert ItemReport.from_json(json.dumps({**json.loads(item.to_json()), "explained": None})).explained is None
