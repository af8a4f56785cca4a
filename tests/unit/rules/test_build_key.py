"""What tells one build from another."""

from __future__ import annotations

import pytest

from pytest_compileiq.rules.build_key import Inputs, key_of, looked_for, still_holds


def test_a_key_tells_every_word_and_where_it_stands():
    questions = [
        {"compile": ["gcc", "-O1"]},
        {"compile": ["gcc", "-O2"]},
        {"compile": ["gcc-O1"]},
        {"compile": ["gcc", "", "-O1"]},
        {"link": ["gcc", "-O1"]},
        {"compile": ["gcc"], "link": ["-O1"]},
        {"compile": [], "gcc": ["-O1"]},
    ]
    assert len(set(map(key_of, questions))) == len(questions)


def test_a_key_does_not_depend_on_the_order_of_names():
    assert key_of({"a": ["1"], "b": ["2"]}) == key_of({"b": ["2"], "a": ["1"]})


def test_every_name_is_looked_for_everywhere():
    there = {"/one/a.h", "/two/sys/b.h"}
    found = looked_for(["a.h", "sys/b.h"], ["/one", "/two"], there.__contains__)
    assert found == Inputs(frozenset(there), {"/one/sys": frozenset({"b.h"}), "/two": frozenset({"a.h"})})


def test_inputs_add_up():
    one, other = Inputs(frozenset("a"), {"/d": frozenset("x")}), Inputs(frozenset("b"), {"/d": frozenset("y")})
    assert one | other == Inputs(frozenset("ab"), {"/d": frozenset("xy")})


@pytest.mark.parametrize(
    ("contents", "names", "holds"),
    [
        ({"a": "1"}, {"/d": {"y"}}, True),
        ({"a": "2"}, {"/d": {"y"}}, False),
        ({}, {"/d": {"y"}}, False),
        ({"a": "1"}, {"/d": {"x"}}, False),
        ({"a": "1"}, {}, True),
    ],
)
def test_nothing_may_have_changed(contents, names, holds):
    def in_directory(directory: str) -> frozenset[str]:
        return frozenset(names.get(directory, ()))

    assert still_holds({"a": "1"}, {"/d": ["x"]}, contents.get, in_directory) is holds
