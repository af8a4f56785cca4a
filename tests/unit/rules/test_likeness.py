"""What artifacts teach is bounded by the space here, by what was proven there, and by what others found as well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq import choice, literal
from pytest_compileiq.claim import Claim
from pytest_compileiq.model import Lesson
from pytest_compileiq.reduction import Attribution, Without
from pytest_compileiq.rules.likeness import MOST_TRIED, adopted, knobs_that_bring, tried_first, weighed
from pytest_compileiq.space import Predicate, Space, Where
from tests.unit.artifacts import make_artifact

SPACE = Space.from_mapping(
    {
        "-O": choice([2, 3], 0.4),
        "-fast": literal("", 0.5),
        "-DTILE=": choice([8, 16]),
        "group": {"-a": literal("", 0.5), "-b": choice([1, 2])},
    }
)
VALUES = st.sampled_from([0, 1, 2, 3, 8, 16, -1, True, False, "", "3", "evil.so", 2.0, 1e300])


def exact(**changes) -> Claim:
    return Claim(**{
        "device": "x86-64-v3", "workload": "w", "objective": "code_bytes", "kind": "exact", "baseline_value": 10,
        "tuned_value": 8, **changes,
    })  # fmt: skip


def without(name: str, value_without: int, objective: str = "code_bytes") -> Without:
    return Without(
        knobs=(name,), standing="exact", objective=objective, direction="minimize", value=8, value_without=value_without
    )


@pytest.mark.parametrize(
    ("knobs", "here"),
    [
        ({"-O": 3, "-fast": ""}, {"-O": 3, "-fast": "", "-DTILE=": 8}),
        ({"-O": 3, "-fplugin=": "evil.so"}, {"-O": 3, "-DTILE=": 8}),
        ({"-O": "3", "-DTILE=": 16}, {"-DTILE=": 16}),
        ({"-b": 2}, {"-DTILE=": 8, "-b": 2}),
        ({"-a": ""}, {"-DTILE=": 8, "-a": "", "-b": 1}),
        ({"-O": 4}, None),
        ({"-fother": ""}, None),
        ({}, None),
    ],
)
def test_knobs_are_adopted_as_far_as_the_space_has_them(knobs, here):
    assert adopted(knobs, SPACE) == here


def test_what_where_refuses_teaches_nothing():
    never = Predicate(lambda knobs: knobs.get("-O") != 3, "never 3", "never 3")
    space = Space(SPACE.genes, where=Where((never,)))
    assert adopted({"-O": 3}, space) is None
    assert adopted({"-O": 2}, space) is not None


@given(st.dictionaries(st.sampled_from(["-O", "-fast", "-DTILE=", "-a", "-b", "group", "-x", ""]), VALUES))
def test_whatever_is_adopted_lies_in_the_space_and_adds_only_what_is_always_on(knobs):
    here = adopted(knobs, SPACE)
    if here is not None:
        assert SPACE.why_not(here) is None
        assert all(name in knobs or name in ("-DTILE=", "-b") for name in here)


def test_a_winner_teaches_all_its_knobs_where_nobody_measured_what_each_brings():
    assert knobs_that_bring(make_artifact(), "code_bytes") == {"-O": 3, "-funroll-loops": ""}


def test_a_winner_teaches_the_knobs_that_surely_bring_something():
    told = Attribution(comparisons=2, seconds=1, without=(without("-O", 10), without("-funroll-loops", 8)))
    assert knobs_that_bring(make_artifact(attribution=told), "code_bytes") == {"-O": 3}


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "retired", "reason": "wrong"},
        {"claims": (exact(tuned_value=10),)},
        {"claims": (exact(objective="instructions"),)},
    ],
    ids=["retired", "no gain", "another objective"],
)
def test_what_gained_nothing_that_counts_here_teaches_nothing(changes):
    assert knobs_that_bring(make_artifact(**changes), "code_bytes") == {}


def test_an_acf_teaches_nothing():
    controls = make_artifact().controls
    blob = make_artifact(controls=controls.model_copy(update={"kind": "blob"}))
    assert knobs_that_bring(blob, "code_bytes") == {}


def test_the_same_kernel_elsewhere_is_believed_the_most_and_then_what_others_found_as_well():
    taught = {
        ("kernel", "arm"): {"-a": ""},
        ("lz4", "x86"): {"-O": 3, "-fast": ""},
        ("xxh", "x86"): {"-O": 3},
        ("odd", "x86"): {"-b": 1},
    }
    weights = weighed(taught, "kernel")
    order = sorted(weights, key=lambda key: -weights[key])
    assert [name for name, _ in order] == ["kernel", "xxh", "lz4", "odd"]
    assert all(0 < weight <= 1 for weight in weights.values())


def test_all_lessons_in_one_are_tried_and_the_most_believed_decide_what_they_differ_in():
    lessons = [Lesson(f"k{n}/t", "0" * 64, {"-O": n, f"-{n}": ""}, 1 / (n + 1)) for n in range(6)]
    together, *alone = tried_first(lessons)
    assert together == {"-O": 0, **{f"-{n}": "" for n in range(6)}}
    assert alone == [lesson.knobs for lesson in lessons[: MOST_TRIED - 1]]
    assert tried_first([]) == []
