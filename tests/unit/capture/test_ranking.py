"""What is ranked: shares of the time that is the program's own, and shapes that tell sizes apart."""

from __future__ import annotations

import pytest

from pytest_compileiq.capture.inside.shapes import MOST_SHAPES
from pytest_compileiq.capture.program import CallAccount, Calls
from pytest_compileiq.capture.ranking import few_shapes, leading, ranked


def calls(name: str, own_ns: int, *shape: int | str, count: int = 1) -> Calls:
    return Calls("lib.so", name, "ctypes", shape, count, own_ns)


def watched(*told: Calls, elapsed_ns: int = 1100, watching_ns: int = 100) -> CallAccount:
    return CallAccount(1, elapsed_ns, watching_ns, 1, 0, None, (), told)


def test_shares_are_of_the_time_without_the_watching():
    functions = ranked(watched(calls("f", 250, 8), calls("g", 600, 8), calls("f", 50, 9, count=3)))
    assert [(each.name, each.share, each.calls) for each in functions] == [("g", 0.6, 1), ("f", 0.3, 4)]
    assert [(each.shape, each.share) for each in functions[1].shapes] == [((8,), 0.25), ((9,), 0.05)]


def test_functions_of_one_name_in_two_libraries_are_two():
    other = Calls("other.so", "f", "ctypes", (), 1, 5)
    assert len(ranked(watched(calls("f", 5), other))) == 2


@pytest.mark.parametrize(("top", "share", "kept"), [(10, 1.0, "gfh"), (2, 1.0, "gf"), (10, 0.5, "g"), (10, 0.9, "gf")])
def test_as_many_are_shown_as_hold_the_share(top, share, kept):
    functions = ranked(watched(calls("f", 300), calls("g", 600), calls("h", 100)))
    assert "".join(each.name for each in leading(functions, lambda each: each.own_ns, top, share)) == kept


def test_an_argument_of_many_values_is_told_by_its_kind_and_sizes_stay():
    told = [calls("f", 1, n, seed, f"float64[{n}]") for n in (10, 20) for seed in range(50)]
    shapes = few_shapes(told)
    assert {shape: len(alike) for shape, alike in shapes.items()} == {
        (10, "int", "float64[10]"): 50,
        (20, "int", "float64[20]"): 50,
    }


def test_sizes_of_many_values_are_told_by_their_kind_at_last():
    told = [calls("f", 1, n, f"float64[{n}]") for n in range(MOST_SHAPES + 1)]
    (shape,) = few_shapes(told)
    assert shape in {("int", "float64[…]")}


def test_few_shapes_stay_as_they_are_and_many_kinds_do_too():
    few = [calls("f", 1, n) for n in range(MOST_SHAPES)]
    assert len(few_shapes(few)) == MOST_SHAPES
    many_kinds = [calls("f", 1, f"type{n}") for n in range(MOST_SHAPES + 4)]
    assert len(few_shapes(many_kinds)) == MOST_SHAPES + 4
