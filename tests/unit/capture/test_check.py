"""What changed between a capture and the calls of now."""

from __future__ import annotations

from pytest_compileiq.capture.bundle import SCHEMA, CapturedKernel, KernelShape, UnrecordedShape
from pytest_compileiq.capture.program import CallAccount, Calls
from pytest_compileiq.capture.ranking import Compared, compared

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
