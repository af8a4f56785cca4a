"""The neighbours that controls change beyond what a test stands for."""

from __future__ import annotations

import pytest

from pytest_compileiq.artifact import CodePair, CodeTable, CompilerTable
from pytest_compileiq.rules.claims import changed_neighbours, recorded_neighbours
from tests.unit.artifacts import make_artifact

BASELINE = {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize(
    ("tuned", "stands_for", "beyond"),
    [
        ({"a": "9", "b": "2", "c": "3"}, {"a"}, ()),
        ({"a": "9", "b": "8", "c": "7"}, {"a"}, ("b", "c")),
        ({"a": "9", "b": "8", "c": "7"}, {"a", "c"}, ("b",)),
        ({"a": "9", "b": "8", "c": "7"}, {"a", "b", "c"}, ()),
        ({"a": "9", "b": "8", "c": "7"}, set(), ()),  # nothing says what it stands for
        ({"a": "9", "b": "8", "c": "7"}, {"inline"}, ("a", "b", "c")),
        ({"a": "9"}, {"a"}, ("b", "c")),
    ],
)
def test_a_neighbour_is_what_changes_beyond_what_the_test_stands_for(tuned, stands_for, beyond):
    assert changed_neighbours(BASELINE, tuned, stands_for) == beyond


def test_another_name_of_the_same_code_is_exercised_with_it():
    assert changed_neighbours({"f": "1", "alias": "1", "g": "2"}, {"f": "9", "alias": "9", "g": "8"}, {"f"}) == ("g",)
    assert changed_neighbours({"f": "1", "twin": "1"}, {"f": "9", "twin": "8"}, {"f"}) == ("twin",)


def pair(before: str, after: str | None) -> CodePair:
    return CodePair(baseline=CodeTable(sha256=before * 64), tuned=CodeTable(sha256=after * 64) if after else None)


def test_an_artifact_tells_its_neighbours_without_the_test():
    code = {"a": pair("1", "9"), "b": pair("2", "8"), "c": pair("3", "3")}
    assert recorded_neighbours(make_artifact(code=code, functions=("a",))) == ("b",)
    assert recorded_neighbours(make_artifact(code=code)) == ()
    untuned = make_artifact(
        outcome="baseline", reason="none", controls=None, claims=(), code={"a": pair("1", None)}, functions=("a",)
    )
    assert recorded_neighbours(untuned) == ()


def test_the_host_code_of_a_cuda_library_is_no_neighbour():
    code = {"scale": pair("1", "9"), "host": pair("2", "8")}
    by_nvcc = CompilerTable(name="nvcc", version="13.3", build="nvcc", command=("nvcc",))
    assert recorded_neighbours(make_artifact(code=code, functions=("scale",), compiler=by_nvcc)) == ()
    assert recorded_neighbours(make_artifact(code=code, functions=("scale",))) == ("host",)
