"""Which calls are kept, and what of them lies on disk."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from types import SimpleNamespace

import pytest

from pytest_compileiq.capture.inside.counters import RAISED, ForeignCall
from pytest_compileiq.capture.inside.recorder import MOST_SAMPLES, SAMPLED_ELEMENTS, Recorder
from pytest_compileiq.capture.inside.values import ForeignFunction

QUOTA = {"integers": 1 << 20, "floats": 1 << 20}
FOREIGN = SimpleNamespace(argtypes=None, restype=None, errcheck=None)
FUNCTION = ForeignFunction("lib.so", "f", "ctypes")


@pytest.fixture
def recorder(tmp_path):
    return lambda sampled=3, **quota: Recorder(str(tmp_path), sampled, QUOTA | quota)


def call(recorder: Recorder, *arguments, result=None, shape=(), called=FOREIGN) -> None:
    recording = recorder.begin(called, FUNCTION, shape, arguments, {})
    if recording is not None:
        recorder.finish(recording, ForeignCall(called, FUNCTION, shape, arguments, result, 1, print))


def numbers(recorder: Recorder) -> list[int]:
    return [each["number"] for each in recorder.kept(FUNCTION, ())]


def test_the_first_call_and_a_random_few_are_kept(recorder):
    made = recorder()
    for n in range(500):
        call(made, n)
    first, *others = numbers(made)
    assert first == 1
    assert len(set(others)) == 3
    assert min(others) > 1


def test_every_call_is_as_likely_as_any_other_to_be_kept(recorder):
    kept: Counter[int] = Counter()
    for seed in range(2000):
        made = recorder()
        made._random = random.Random(seed)
        for n in range(21):
            call(made, n)
        kept.update(numbers(made)[1:])
    # Each of 20 calls in 3 of 20 runs: 300 of 2000, with a standard deviation of 16.
    assert set(kept) == set(range(2, 22))
    assert all(abs(count - 300) < 5 * 16 for count in kept.values())


def test_what_is_kept_no_longer_leaves_the_disk(recorder, tmp_path):
    made = recorder(sampled=2)
    for n in range(200):
        call(made, (ctypes.c_int * 100)(n))
    assert len(numbers(made)) == 3
    assert len(list(tmp_path.iterdir())) == 3
    assert made._left["integers"] == QUOTA["integers"] - 3 * 400


def test_integers_beyond_the_quota_are_not_captured_and_floats_are_sampled(recorder, tmp_path):
    made = recorder(integers=1000, floats=1000)
    call(made, (ctypes.c_int * 200)(1), (ctypes.c_int * 200)(2))
    call(made, (ctypes.c_int * 400)())
    assert [each["why"] for each in made.refused()] == ["its integers are beyond the quota"]
    assert made.refused()[0]["calls"] == 2
    assert list(tmp_path.iterdir()) == []  # what was read of a call that is refused
    call(made, (ctypes.c_double * 5000)(*range(5000)), (ctypes.c_int * 10)(1))
    (kept,) = made.kept(FUNCTION, ())
    by_kind = {region["before"]["kind"]: region for region in kept["regions"]}
    sample = bytes.fromhex(by_kind["floats"]["before"]["sample"])
    assert by_kind["floats"]["before"]["sha256"] is None
    assert list((ctypes.c_double * SAMPLED_ELEMENTS).from_buffer_copy(sample))[:3] == [0.0, 4.0, 8.0]
    assert by_kind["integers"]["after"]["sample"] is None


def test_a_call_that_outlives_the_account_changes_nothing_that_is_told(recorder):
    made = recorder(sampled=0)
    call(made, (ctypes.c_int * 3)(1))
    late = made.begin(FOREIGN, FUNCTION, ("other",), ((ctypes.c_int * 3)(2),), {})
    made.close()
    made.finish(late, ForeignCall(FOREIGN, FUNCTION, ("other",), (), None, 1, print))
    assert made.kept(FUNCTION, ("other",)) == []
    assert numbers(made) == [1]


def test_a_call_that_raised_is_not_kept(recorder, tmp_path):
    made = recorder()
    call(made, (ctypes.c_int * 3)(), result=RAISED)
    assert made.kept(FUNCTION, ()) == []
    assert list(tmp_path.iterdir()) == []
    assert made.refused()[0]["why"] == "it raised an exception"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"restype": ctypes.c_char_p}, "its result is no number"),
        ({"restype": ctypes.POINTER(ctypes.c_int)}, "its result is no number"),
        ({"restype": ctypes.c_long, "errcheck": print}, "its errcheck may return something else than the function"),
        ({"argtypes": [ctypes.c_int]}, "it is called with 0 arguments, and 1 are declared"),
    ],
)
def test_what_cannot_be_compared_is_refused(recorder, changed, why):
    made = recorder()
    call(made, called=SimpleNamespace(**(vars(FOREIGN) | changed)), result=1)
    assert [each["why"] for each in made.refused()] == [why]


def test_a_result_is_recorded_where_the_program_said_what_it_is(recorder):
    library = ctypes.CDLL(None)
    made = recorder(sampled=9)
    call(made, called=library.abs, result=3)
    library.abs.restype = ctypes.c_int
    call(made, called=library.abs, result=4)
    call(made, called=ctypes.CFUNCTYPE(ctypes.c_int)(("abs", library)), result=5)
    results = [each["result"] for each in made.kept(FUNCTION, ())]
    library.abs.restype = ctypes.c_void_p
    call(made, called=library.abs, result=6)
    assert made.kept(FUNCTION, ())[-1]["result"] is None  # an address is another one in each process
    assert results == [None, {"code": "i", "value": "04000000"}, {"code": "i", "value": "05000000"}]


def test_an_argument_of_many_values_takes_no_more_room_than_one(recorder, tmp_path):
    made = recorder()
    for n in range(1000):
        call(made, n, (ctypes.c_int * 4)(n), shape=(n, ("int", 4)))
    made.close()
    kept = [each["number"] for n in range(1000) for each in made.kept(FUNCTION, (n, ("int", 4)))]
    assert (len(kept), kept[0]) == (4, 1)
    assert len(list(tmp_path.iterdir())) == 4
    assert made.refused() == []


def test_arguments_of_too_many_kinds_are_not_recorded(recorder):
    made = recorder()
    for n in range(MOST_SAMPLES + 2):
        call(made, n, shape=(f"type{n}",))
    assert (made.refused()[0]["calls"], made.refused()[0]["why"]) == (
        2,
        "it is called with more than 32 kinds of arguments",
    )
    made.close()
    assert [len(made.kept(FUNCTION, (f"type{n}",))) for n in (0, MOST_SAMPLES - 1, MOST_SAMPLES)] == [1, 1, 0]


def test_calls_that_cannot_be_recorded_are_not_looked_at_for_ever(recorder):
    made = recorder()
    for _ in range(1000):
        call(made, print)
    assert made.refused()[0]["calls"] < 100


def test_a_c_char_p_made_of_bytes_is_all_of_them(recorder, tmp_path):
    made = recorder()
    call(made, ctypes.c_char_p(b"ab\0cd"))
    (kept,) = made.kept(FUNCTION, ())
    assert (tmp_path / kept["regions"][0]["before"]["sha256"]).read_bytes() == b"ab\0cd\0"


class Pair(ctypes.Structure):
    _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]


PAIRS = (Pair * 4)()
MATRIX = ((ctypes.c_double * 3) * 2)()


@pytest.mark.parametrize(
    ("argument", "size", "offset", "dtype"),
    [
        (ctypes.byref(PAIRS[1]), 64, 16, "|V16"),
        (ctypes.pointer(PAIRS[3]), 64, 48, "|V16"),
        (ctypes.byref(ctypes.cast(PAIRS, ctypes.POINTER(Pair))[1]), 64, 16, "|V16"),
        (MATRIX[1], 48, 24, "<f8"),
        (ctypes.byref(PAIRS), 64, 0, "|V16"),
    ],
)
def test_a_part_of_an_array_is_recorded_with_the_whole_array(recorder, argument, size, offset, dtype):
    made = recorder()
    call(made, argument)
    (kept,) = made.kept(FUNCTION, ())
    memory = kept["arguments"][0]["memory"]
    assert (kept["regions"][0]["size"], memory["offset"], memory["dtype"]) == (size, offset, dtype)


BUFFER = ctypes.create_string_buffer(8)


class Inner(ctypes.Structure):
    _fields_ = [("texts", ctypes.c_char_p * 2)]


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ((Inner * 2)(), "argument 1 is a Inner_Array_2, which holds pointers"),
        (ctypes.c_void_p(8), "argument 1 is a bare address"),
        (ctypes.c_wchar_p.from_buffer(ctypes.c_void_p(8)), "argument 1 is a bare address"),
        (ctypes.c_char_p(8), "argument 1 is a c_char_p that was not made of bytes"),
        (ctypes.cast(BUFFER, ctypes.c_char_p), "argument 1 is a c_char_p that was not made of bytes"),
        (ctypes.c_char_p(None), None),
        (ctypes.byref((ctypes.c_int * 4)(), 4), "argument 1 is a reference with an offset"),
        (ctypes.pointer((ctypes.c_int * 4)())[0], None),
        (ctypes.byref(ctypes.cast(ctypes.addressof(PAIRS), ctypes.POINTER(Pair))[1]), "argument 1 is a pointer into memory"),
        (ctypes.cast(ctypes.c_void_p(8), ctypes.POINTER(ctypes.c_int)), "argument 1 is a pointer whose extent no object"),
        ("text", "argument 1 is of type str"),
        (print, "argument 1 is a callback"),
    ],
)  # fmt: skip
def test_an_argument_whose_memory_is_not_known_is_refused(recorder, argument, why):
    made = recorder()
    call(made, argument)
    assert [each["why"].startswith(why) for each in made.refused()] == ([] if why is None else [True])
