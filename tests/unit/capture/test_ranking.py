"""What is ranked: shares of the time that is the program's own, and shapes that tell sizes apart."""

from __future__ import annotations

import ctypes

import pytest

from pytest_compileiq.capture.bundle import SCHEMA, Bundle, CapturedKernel, KernelShape, UnrecordedShape
from pytest_compileiq.capture.inside.shapes import DESCRIBE, MOST_SHAPES
from pytest_compileiq.capture.program import CallAccount, Calls
from pytest_compileiq.capture.ranking import Compared, captured_kernels, compared, few_shapes, leading, ranked
from pytest_compileiq.errors import UserError


def calls(name: str, own_ns: int, *shape: int | str, count: int = 1, longest_ns: tuple[int, int] = (0, 0)) -> Calls:
    return Calls("lib.so", name, "ctypes", shape, count, own_ns, longest_ns=longest_ns)


def watched(*told: Calls, elapsed_ns: int = 1100, watching_ns: int = 100) -> CallAccount:
    return CallAccount(1, elapsed_ns, watching_ns, 1, 0, None, (), told)


def test_shares_are_of_the_time_without_the_watching():
    functions = ranked(watched(calls("f", 250, 8), calls("g", 600, 8), calls("f", 50, 9, count=3)))
    assert [(each.name, each.share, each.calls) for each in functions] == [("g", 0.6, 1), ("f", 0.3, 4)]
    assert [(each.shape, each.share) for each in functions[1].shapes] == [((8,), 0.25), ((9,), 0.05)]


@pytest.mark.parametrize(
    ("count", "own_ns", "longest_ns", "usual"), [(10, 490, (400, 10), 100), (1, 400, (400, 0), 400)]
)
def test_one_preempted_call_among_several_moves_no_rank(count, own_ns, longest_ns, usual):
    told = watched(calls("f", own_ns, 8, count=count, longest_ns=longest_ns), calls("g", 200, 8, count=9))
    shares = {each.name: each.share for each in ranked(told)}
    assert shares == {"f": usual / 1000, "g": 0.2}
    assert next(iter(shares)) == ("g" if usual < 200 else "f")


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


Shapes = dict[tuple[int | str, ...], int]


def kernel(recorded: Shapes, unrecorded: Shapes | None = None, library: str = "/a/lib.so") -> CapturedKernel:
    kept = tuple(KernelShape(shape, calls, 1, ()) for shape, calls in recorded.items())
    others = tuple(UnrecordedShape(shape, calls) for shape, calls in (unrecorded or {}).items())
    return CapturedKernel(SCHEMA, "f", library, None, 0.5, kept, others)


def checked(captured: CapturedKernel, now: Shapes, *libraries: str) -> Compared[tuple[int | str, ...]]:
    calls = [
        Calls(library, "f", "ctypes", shape, count, 1)
        for library in libraries or ("/a/lib.so",)
        for shape, count in now.items()
    ]
    (found,) = compared({"f": captured}, CallAccount(1, 10, 0, 1, 0, None, (), tuple(calls)))
    return found


def test_shapes_of_which_no_call_is_recorded_count_as_captured():
    assert checked(kernel({(1,): 3}, {(2,): 1}), {(1,): 9, (2,): 9}).is_as_captured
    assert checked(kernel({(1,): 3}), {(1,): 9, (2,): 9}).new == [((2,), 9)]


def test_an_argument_of_many_values_may_have_others_and_sizes_may_not():
    captured = kernel({(8, seed, "float64[8]"): 1 for seed in range(100, 150)})
    assert checked(captured, {(8, seed, "float64[8]"): 1 for seed in range(60)}).is_as_captured
    found = checked(captured, {(9, 1, "float64[9]"): 4})
    assert (found.gone, found.new) == ([((8, "int", "float64[8]"), 50)], [((9, 1, "float64[9]"), 4)])
    assert not checked(captured, {(8, "float64[8]"): 1}).is_as_captured


def test_a_function_that_is_not_called_is_no_pass_and_one_without_arguments_may_be_called():
    assert not checked(kernel({(): 3}), {}).is_as_captured
    assert checked(kernel({(): 3}), {(): 1}).is_as_captured


def test_calls_whose_shapes_were_not_told_apart_then_are_not_missed_and_such_of_now_are_no_pass():
    assert checked(kernel({(1,): 3, (): 7}), {(1,): 3}).is_as_captured
    assert checked(kernel({(1,): 3}), {(1,): 3, (): 7}).new == [((), 7)]


def test_a_library_is_found_in_another_checkout_and_its_own_path_comes_first():
    captured = kernel({(1,): 1})
    assert checked(captured, {(1,): 1}, "/b/lib.so").is_as_captured
    assert checked(captured, {(1,): 2}, "/b/lib.so", "/a/lib.so").calls == 2
    assert not checked(captured, {(1,): 1}, "/a/other.so").is_as_captured


def test_an_empty_capture_is_no_check(tmp_path):
    with pytest.raises(UserError, match="holds no kernel, so there is nothing to check"):
        captured_kernels(Bundle(tmp_path))


def test_a_number_of_ctypes_has_the_shape_of_its_value():
    for given in (ctypes.c_int(4), ctypes.c_double(4.5)):
        assert DESCRIBE[type(given)](given) == DESCRIBE[type(given.value)](given.value)
