"""How far two contents of one memory are apart, held against numpy."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pytest_compileiq.capture.inside import compared_calls
from pytest_compileiq.capture.inside.compared_calls import CallInput, relative_difference

VALUES = st.floats(-(2.0**90), 2.0**90, width=32)


@given(st.data(), st.sampled_from(["<f4", "<f8"]), st.integers(1, 20))
def test_it_is_the_largest_difference_over_the_largest_value(data, dtype, count):
    got, wanted = (data.draw(arrays(dtype, count, elements=VALUES)) for _ in range(2))
    largest = float(np.abs(wanted).max())
    apart = float(np.abs(got.astype(float) - wanted.astype(float)).max())
    told = relative_difference(got.tobytes(), wanted.tobytes(), dtype)
    assert told == pytest.approx(apart / largest if largest else math.inf if apart else 0.0)


@pytest.mark.parametrize(
    ("got", "wanted", "dtype", "apart"),
    [
        (np.array([1, 2]), np.array([1, 3]), "<i8", math.inf),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "<f8", math.inf),
        (np.array([1.5, np.nan]), np.array([1.0, np.nan]), "<f8", 0.5),
        (np.array([np.inf]), np.array([np.inf]), "<f8", 0.0),
        (np.array([-0.0]), np.array([0.0]), "<f8", 0.0),
        (np.array([1j]), np.array([2j]), "<c16", 0.5),
        (np.array([1.0]), np.array([1.5]), "", math.inf),
        (np.array([1.0, 4.0], "<f2"), np.array([1.5, 4.0], "<f2"), "<f2", 0.125),
        (np.array([1.0, 4.0], ">f8"), np.array([1.5, 4.0], ">f8"), ">f8", 0.125),
    ],
)
def test_what_is_no_float_differs_in_any_bit_and_nan_equals_nan(got, wanted, dtype, apart):
    assert relative_difference(got.tobytes(), wanted.tobytes(), dtype) == apart


def test_only_what_a_call_has_changed_is_written_back(monkeypatch):
    """What a call only reads may lie in memory that nobody may write."""
    held = b"same", b"left"
    given = CallInput.__new__(CallInput)
    given.regions = [SimpleNamespace(start=at, size=4, read=lambda at=at: held[at]) for at in range(2)]
    written = []
    monkeypatch.setattr(compared_calls.ctypes, "memmove", lambda *arguments: written.append(arguments))
    given.put([b"same", b"were"])
    assert written == [(1, b"were", 4)]
