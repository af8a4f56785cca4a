"""The time of a call belongs to one function: what is called within it has its own."""

from __future__ import annotations

import itertools
import json

import pytest

from pytest_compileiq.capture.inside import counters
from pytest_compileiq.capture.inside.counters import Counters
from pytest_compileiq.capture.inside.values import ForeignFunction


@pytest.fixture
def tally(tmp_path, monkeypatch):
    """One on which every look at the clock is 1 ns after the last."""
    monkeypatch.setattr(counters, "perf_counter_ns", itertools.count().__next__)
    monkeypatch.setattr(counters.os, "register_at_fork", lambda **_: None)
    made = Counters(str(tmp_path / "tally.json"))
    made.calibration = int, int
    return made


def a_function(tally: Counters, name: str, body):
    class Foreign:
        _acf_function = ForeignFunction("lib.so", name, "ctypes")
        __call__ = tally.watching(lambda self, *arguments: body(*arguments), lambda _: None)

    return Foreign()


def told(tally: Counters, tmp_path) -> dict:
    tally._write()
    return json.loads((tmp_path / "tally.json").read_text())


def test_a_call_within_a_call_is_counted_once(tally, tmp_path):
    inner = a_function(tally, "inner", lambda n: n)
    outer = a_function(tally, "outer", lambda n: inner(n) + inner(n))
    assert outer(3) == 6
    calls = {each["name"]: (each["calls"], each["own_ns"]) for each in told(tally, tmp_path)["calls"]}
    # One tick a look at the clock: an inner call is 1 long, and 3 ticks from its entry to its leaving. Between these
    # three stretches, and at the ends of the outer call, pass 3 more, which are the outer function's own.
    assert calls == {"inner": (2, 2), "outer": (1, 3)}


def test_a_call_that_raises_is_counted_and_raises(tally, tmp_path):
    failing = a_function(tally, "failing", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failing()
    assert [(each["name"], each["calls"]) for each in told(tally, tmp_path)["calls"]] == [("failing", 1)]


def test_the_two_longest_calls_of_all_threads_are_told(tally, tmp_path):
    ticks = {"f": iter([4, 9, 2]), "g": iter([7, 1])}
    called = {
        name: a_function(tally, name, lambda name: [counters.perf_counter_ns() for _ in range(next(ticks[name]))])
        for name in ticks
    }
    for name in "ffggf":
        called[name](name)
    assert {each["name"]: each["longest_ns"] for each in told(tally, tmp_path)["calls"]} == {"f": [10, 5], "g": [8, 2]}


def test_more_shapes_than_are_kept_lose_their_shape_and_no_call(tally, tmp_path, monkeypatch):
    monkeypatch.setattr(counters, "_MOST_SHAPES", 2)
    called = a_function(tally, "f", lambda n: n)
    for n in (1, 2, 3, 4, 1):
        called(n)
    counts = {tuple(each["shape"]): each["calls"] for each in told(tally, tmp_path)["calls"]}
    assert counts == {(1,): 2, (2,): 1, (): 2}


def test_what_the_watching_costs_is_what_it_saw_of_itself_and_what_it_could_not(tally, tmp_path):
    called = a_function(tally, "f", lambda: None)
    # Four ticks from call to call, of which two are seen; one is of the call itself.
    assert tally.unseen_ns(called, lambda: counters.perf_counter_ns() is None) == 1
    before = sum(thread.spent_ns for thread in tally._threads)
    called()
    count = sum(count for thread in tally._threads for count, *_ in thread.calls.values())
    assert told(tally, tmp_path)["watching_ns"] == before + 2  # from the entry to the call, from there to the leaving
    assert count == 20 * 100 + 1


def test_an_account_that_cannot_be_written_raises_nothing_and_says_why(tally, tmp_path, monkeypatch):
    monkeypatch.setattr(tally, "_told", lambda elapsed_ns: 1 / 0)
    tally._write()
    assert (tmp_path / "tally.json.failure").read_text() == "ZeroDivisionError: division by zero"
    assert not (tmp_path / "tally.json").exists()


def test_a_child_writes_nothing(tally, tmp_path, monkeypatch):
    monkeypatch.setattr(counters.os, "getpid", lambda: -1)
    tally._write()
    assert not (tmp_path / "tally.json").exists()
