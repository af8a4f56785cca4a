"""Charts: every number that the store can hold is drawn within the chart, or the chart is not there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_compileiq.report.html.charts import (
    MAX_POINTS,
    ChartedSlot,
    Scale,
    Unit,
    convergence,
    distribution,
    front,
    interval,
    interval_domain,
    padded,
    run_order,
    unit_for,
)
from pytest_compileiq.rules.comparison import quantile
from tests.unit.report.pages import make_slots

finite = st.floats(allow_nan=False, allow_infinity=False)
slots = st.lists(
    st.builds(ChartedSlot, st.integers(0, 9), st.sampled_from(["baseline", "tuned"]), finite, st.booleans()),
    max_size=40,
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf")


def coordinates(svg: str) -> list[float]:
    drawn = [*re.findall(r' d="([^"]*)"', svg), *re.findall(r' [xy]="([^"]*)"', svg)]
    return [float(one) for text in drawn for one in _NUMBER.findall(text)]


@given(slots)
@settings(max_examples=200)
def test_whatever_the_samples_hold_no_coordinate_leaves_the_chart(drawn):
    for make in (distribution, run_order):
        chart = make(drawn, "runtime", "c")
        if chart is not None:
            assert all(-1 <= one <= 401 for one in coordinates(chart.svg))


@given(st.lists(st.tuples(finite, finite, st.booleans()), max_size=10))
@settings(max_examples=100)
def test_whatever_the_front_holds_no_coordinate_leaves_the_chart(points):
    chart = front(points, ("runtime", "registers"), "c")
    assert chart is None or all(-1 <= one <= 401 for one in coordinates(chart.svg))


@given(st.lists(st.tuples(st.integers(0, 10**6), finite.map(abs)), max_size=10), st.integers(0, 10**6))
@settings(max_examples=100)
def test_whatever_a_search_has_found_no_coordinate_leaves_the_chart(improvements, evaluations):
    chart = convergence(improvements, evaluations, "c")
    assert chart is None or all(-1 <= one <= 401 for one in coordinates(chart.svg))


@given(finite, finite, finite, st.lists(finite, max_size=5))
def test_whatever_an_interval_claims_it_stays_within_its_axis(low, estimate, high, others):
    domain = interval_domain([low, high, *others])
    assert 0 < domain[0] < 1 < domain[1]
    assert all(-1 <= one <= 161 for one in coordinates(interval(low, estimate, high, domain)))


def test_an_arm_without_samples_has_no_chart():
    only = [ChartedSlot(0, "baseline", 1.0)]
    assert distribution(only, "runtime", "c") is None and run_order(only, "runtime", "c") is None
    assert distribution([], "runtime", "c") is None


def test_a_chart_says_in_words_what_it_shows():
    text = run_order(make_slots(drift=0.05), "runtime", "c").svg
    assert 'role="img"' in text and "<title" in text
    first, last = map(
        float, re.search(r"baseline: median ([\d.]+) µs in the first process, ([\d.]+) µs", text).groups()
    )
    assert last > 1.3 * first


def test_drift_is_a_slope_in_the_run_order_whatever_the_gap_between_the_arms():
    apart = [ChartedSlot(one.process, one.arm, one.value / (1 if one.arm == "baseline" else 9)) for one in undropped()]
    assert _medians(apart) == _medians(undropped())
    heights = _medians(make_slots(drift=0.05))[1]
    assert heights == sorted(heights, reverse=True)


def undropped() -> list[ChartedSlot]:
    return [ChartedSlot(one.process, one.arm, one.value) for one in make_slots()]


def _medians(drawn: list[ChartedSlot]) -> list[list[float]]:
    svg = run_order(drawn, "runtime", "c").svg
    paths = re.findall(r'class="median \w+" d="([^"]*)"', svg)
    return [[float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)", path)] for path in paths]


def test_dropped_slots_and_slots_beyond_the_axis_are_counted_in_words():
    drawn = [
        *undropped(),
        ChartedSlot(8, "tuned", 1.0, True),
        ChartedSlot(8, "tuned", 1.0),
        ChartedSlot(8, "baseline", 1e-4),
    ]
    note = run_order(drawn, "runtime", "c").note
    assert "1 dropped" in note and "beyond the axis" in note


def test_many_slots_are_thinned_and_both_arms_stay():
    drawn = make_slots(processes=200)
    chart = run_order(drawn, "runtime", "c")
    assert f"of {len(drawn)} slots drawn" in chart.note
    points = [path.count("h0") for path in re.findall(r'class="dots \w+" d="([^"]*)"', chart.svg)]
    assert sum(points) <= MAX_POINTS and min(points) > MAX_POINTS / 4


@pytest.mark.parametrize(
    ("objective", "value", "text"),
    [
        ("runtime", 1.234e-4, "123.4 µs"),
        ("runtime", 2.5, "2.5 s"),
        ("runtime", 3e-12, "0.003 ns"),
        ("energy", 0.02, "20 mJ"),
        ("registers", 64.0, "64"),
    ],
)
def test_a_value_is_told_in_the_unit_that_suits_it(objective, value, text):
    assert unit_for(objective, value).text(value) == text


@given(st.floats(-1e90, 1e90), st.floats(0, 1e90))
def test_ticks_are_distinct_and_within_the_axis(low, width):
    scale = Scale(*padded(low, low + width), 0, 100)
    ticks = scale.ticks(5, Unit(1.0, ""))
    room = 1e-9 * (scale.high - scale.low)
    assert ticks and all(scale.low - room <= at <= scale.high + room for at, _ in ticks)


def test_a_narrow_axis_far_from_zero_has_ticks_that_differ():
    texts = [text for _, text in Scale(71.02001, 71.02009, 0, 100).ticks(5, Unit(1.0, ""))]
    assert len(set(texts)) == len(texts) > 2


def test_the_quantile_is_numpys():
    numpy = pytest.importorskip("numpy")
    values = sorted(slot.value for slot in make_slots())
    for share in (0.0, 0.05, 0.25, 0.5, 0.95, 1.0):
        assert quantile(values, share) == pytest.approx(numpy.quantile(values, share))
