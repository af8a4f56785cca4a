"""What a predicate is known by: its syntax wherever it stands, and the plain values that it takes from outside."""

from __future__ import annotations

import functools
import operator
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_compileiq.benchmark.spaces import read_predicate
from pytest_compileiq.errors import MarkerError

HERE = Path(__file__).parents[3]
LIMIT = 1024
TABLE = {"a": [1, 2]}


def identity(call) -> str:
    return read_predicate(call, HERE).identity


def text(call) -> str:
    return read_predicate(call, HERE).text


def in_one_line():
    return (lambda k: k["a"] < 1), (lambda k: k["a"] < 2), (lambda k: (lambda j: j["b"] < 3)(k))  # noqa: PLW0108 # fmt: skip


def at_most(limit):
    return lambda k: k["a"] <= limit


def within_limit(k):
    """Whether it fits."""
    return k["a"] <= LIMIT


def halved(value):
    return value // 2


def by_helper(k):
    half = halved(k["a"])
    return half <= 3


@dataclass
class Below:
    limit: int

    def __call__(self, k):
        return k["a"] < self.limit


def test_lambdas_in_one_line_are_told_apart():
    assert [text(call) for call in in_one_line()] == ["k['a'] < 1", "k['a'] < 2", "(lambda j: j['b'] < 3)(k)"]
    assert text(at_most(3)) == "k['a'] <= limit"


def test_a_lambda_that_another_returns_is_found():
    assert text((lambda limit: lambda k: k["a"] < limit)(3)) == "k['a'] < limit"


def test_a_lambda_is_found_over_several_lines_and_in_a_decorator():
    def marked(where):
        return lambda function: where

    @marked(
        where=lambda k: (
            k["a"]
            <= 8
        )
    )  # fmt: skip
    def decorated():
        pass

    assert text(decorated) == "k['a'] <= 8"


def test_a_function_is_quoted_by_what_it_returns_or_by_its_name():
    assert text(within_limit) == "k['a'] <= LIMIT"
    assert text(by_helper) == "by_helper(k)"
    long = lambda k: k["aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] + k["bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"] + k["ccccccccccccccccccccccccccc"] + k["dddddddddddddddddddddddddddddddddddddddddd"] + k["eeeeeeeeeeeeeeeeee"] + k["fffffffff"] < 1  # noqa: E731 # fmt: skip
    assert len(text(long)) == 201


def test_spelling_and_docstrings_do_not_count_and_conditions_do():
    other = lambda k: k['a']<(1)  # noqa: E731 # fmt: skip
    less, _, _ = in_one_line()
    assert identity(less) == identity(other) != identity(in_one_line()[1])


def test_values_from_outside_count(monkeypatch):
    assert identity(at_most(3)) == identity(at_most(3)) != identity(at_most(4))
    before = identity(within_limit)
    monkeypatch.setitem(within_limit.__globals__, "LIMIT", 2048)
    assert identity(within_limit) != before
    with_default = [lambda k, most=most: k["a"] < most for most in (1, 2)]
    assert identity(with_default[0]) != identity(with_default[1])
    assert identity(functools.partial(operator_free, 1)) != identity(functools.partial(operator_free, 2))
    assert identity(Below(3)) == identity(Below(3)) != identity(Below(4))
    assert identity(Below(3).__call__) == identity(Below(3))


def operator_free(limit, k):
    return k["a"] < limit + len(TABLE["a"])


def test_tables_count_by_their_values(monkeypatch):
    before = identity(operator_free)
    monkeypatch.setitem(TABLE, "a", [1, 3])
    assert identity(operator_free) != before


def test_a_table_whose_keys_are_objects_counts_alike_in_every_process(monkeypatch):
    seen = []
    for helper in (at_most, in_one_line):  # two addresses, as two processes have
        monkeypatch.setitem(operator_free.__globals__, "TABLE", {"a": [1], helper: 3})
        seen.append(identity(operator_free))
    assert len(set(seen)) == 1


def test_a_helper_of_the_project_counts_by_its_source(tmp_path):
    identities = []
    for halving in ("value // 2", "value / 2"):
        path = tmp_path / "rules.py"
        path.write_text(f"def halved(value):\n    return {halving}\n\ndef fits(k):\n    return halved(k['a']) < 3\n")
        namespace = {"__name__": "rules", "__file__": str(path)}
        exec(compile(path.read_text(), path, "exec"), namespace)
        identities.append(read_predicate(namespace["fits"], tmp_path).identity)
    assert len(set(identities)) == 2


@pytest.mark.parametrize("call", [len, Below, operator.itemgetter("a"), functools.partial(max, 1)])
def test_what_is_not_written_in_python_is_refused(call):
    with pytest.raises(MarkerError, match=r"tune\(where=.*\): expected a lambda or a function written in Python"):
        read_predicate(call, HERE)


def test_a_predicate_without_a_file_is_refused():
    made = eval("lambda k: True")
    with pytest.raises(MarkerError, match=re.escape("the source of <lambda> is not found at <string>:1: write it as")):
        read_predicate(made, HERE)
