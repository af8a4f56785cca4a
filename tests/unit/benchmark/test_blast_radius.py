"""How far controls reach, on values: what makes two arms incomparable, and what is said of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_compileiq.benchmark.blast_radius import decided_by_others, why_incomparable, why_unfit
from pytest_compileiq.model import CodeDigest, Objective
from pytest_compileiq.toolchains.functions import FunctionSelection


def benchmark_of(functions: FunctionSelection | None, *entries: str) -> SimpleNamespace:
    builder = SimpleNamespace(functions=functions)
    spec = SimpleNamespace(limits={})
    return SimpleNamespace(builds=SimpleNamespace(look=lambda controls: built(*entries)), builder=builder, spec=spec)


def built(*entries: str, digest: str = "1") -> SimpleNamespace:
    return SimpleNamespace(code={entry: CodeDigest(f"{entry} {digest}") for entry in entries})


@pytest.mark.parametrize(
    ("functions", "sentence"),
    [
        (FunctionSelection(one_sided=": write it down"), ": write it down"),
        *(
            (
                functions,
                ", and the other inlines it wherever it is called: instantiate what the test stands for explicitly, "
                "and name it in functions=",
            )
            for functions in (FunctionSelection(), None)
        ),
    ],
)
def test_arms_with_other_functions_are_told_with_what_the_toolchain_s_user_can_do(functions, sentence):
    benchmark = benchmark_of(functions, "k", "_Z5scaleILi16EEvPf")
    assert why_incomparable(benchmark, built("k", "_Z5scaleILi16EEvPf")) is None
    assert why_incomparable(benchmark, built("k")) == f"only one arm has code for scale<16>{sentence}"


def test_a_build_is_unfit_to_be_measured_where_it_cannot_be_compared_or_changes_neighbours():
    benchmark = benchmark_of(FunctionSelection(), "k", "other")
    assert why_unfit(benchmark, built("k", "other"), {"k"}) is None
    assert why_unfit(benchmark, built("k"), {"k"})[0] == "wrong"
    kind, reason = why_unfit(benchmark, built("k", "other", digest="2"), {"k"})
    assert kind == "neighbour" and reason.startswith("also change other, which the test")


@pytest.mark.parametrize(
    ("metric", "stands_for", "is_told"),
    [
        ("registers", {"small"}, True),
        ("registers", {"small", "large"}, False),
        ("registers of small", {"small"}, False),
        ("code_bytes", {"small"}, False),  # a sum is of all, and says so
    ],
)
def test_a_largest_value_of_another_function_is_told(metric, stands_for, is_told):
    code = {
        name: CodeDigest(name, {"registers": most, "code_bytes": 9}) for name, most in (("small", 32), ("large", 91))
    }
    baseline = SimpleNamespace(code=code, metrics={"registers": 91, "code_bytes": 18})
    objectives = (Objective(metric, "minimize"),)
    benchmark = SimpleNamespace(builds=SimpleNamespace(look=lambda controls: baseline), exact_objectives=objectives)
    expected = (
        "registers is 91 in a function that the test does not stand for, and at most 32 in its own: "
        "name the functions in the objective by of=…"
    )
    assert list(decided_by_others(benchmark, stands_for)) == ([expected] if is_told else [])
