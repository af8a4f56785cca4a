"""Digests of parameters by value: equal for equal values, another for each other value, and nothing of them runs."""

from __future__ import annotations

import array
import ctypes
import enum
import functools
import importlib.util
import re
import sys
from collections import OrderedDict, defaultdict, deque
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq.benchmark import values
from pytest_compileiq.benchmark.values import NoValue, digest_of_value, digests_of
from pytest_compileiq.model import Workload

OWN = """\
import dataclasses, enum, functools
from typing import NamedTuple

@dataclasses.dataclass(frozen=True)
class Case:
    n: int

    @functools.cached_property
    def seen(self):
        return 1

class Plain:
    def __init__(self, n):
        self.n = n

class Slots:
    __slots__ = ("n",)
    def __init__(self, n):
        self.n = n

class Pair(NamedTuple):
    a: int
    b: int

class Colour(enum.Enum):
    RED = 1
    BLUE = 2

class Level(enum.IntEnum):
    ONE = 1

class Run(Exception):
    pass

class Hostile(Plain):
    def __init__(self, n):
        object.__setattr__(self, "n", n)
    def _run(self, *given):
        raise Run
    __getattribute__ = __repr__ = __hash__ = __eq__ = __reduce__ = _run
    __class__ = property(_run)

class Number(int):
    def _run(self, *given):
        raise Run
    __index__ = __int__ = __repr__ = __format__ = __hash__ = __eq__ = _run

class Outer:
    class Inner(Plain):
        pass

def single(x):
    return x

def double(x):
    return 2 * x

def times(n):
    return lambda x: n * x

def power(n):
    def inner(x):
        return x**n
    return inner

def local(n):
    class Local:
        def get(self):
            return n
    return Local()

@functools.cache
def cached(x):
    return x
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def own(home):
    (home / "own_x.py").write_text(OWN)
    spec = importlib.util.spec_from_file_location("own_x", home / "own_x.py")
    module = sys.modules["own_x"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["own_x"]


def many(own):
    """Values of which no two are the same."""
    return [
        None, ..., True, 1, 1.0, 1j, "1", b"1", bytearray(b"1"), 0.0, -0.0, float("nan"), 1 << 20_000, "\ud800", Decimal(1),
        (1,), [1], {1: 2}, {2: 1}, {1}, frozenset([1]), range(3), slice(1, 3), deque([1]), [[1], 2], [[1, 2]], OrderedDict(a=1),
        defaultdict(list, a=1), SimpleNamespace(n=3), SimpleNamespace(n=4), re.compile("x"), re.compile("x", re.I),
        array.array("i", [1]), np.arange(3), np.arange(3.0), np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2),
        np.float32(1), np.float64(1), np.float32, np.dtype("f4"), np.datetime64(1, "s"), np.datetime64(1, "m"), np.sin,
        np.array([1, "a"], dtype=object), (ctypes.c_float * 2)(1, 2), (ctypes.c_float * 2)(1, 3), ctypes.c_int(3),
        own.Case(3), own.Case(4), own.Plain(3), own.Plain(4), own.Slots(3), own.Slots(4), own.Pair(1, 2),
        own.Colour.RED, own.Colour.BLUE, own.Level.ONE, own.Hostile(3), own.Hostile(4), own.Number(3), own.Number(4),
        own.single, own.double, own.power(2), own.power(3), own.Case, own.Plain, int, len,
        functools.partial(own.single, 1), functools.partial(own.single, 2), Path("a"), Path("b"),
    ]  # fmt: skip


def test_each_value_has_a_digest_of_its_own_and_equal_ones_have_one(own, home):
    first, again = ([digest_of_value(value, home) for value in many(own)] for _ in range(2))
    assert first == again
    assert len(set(first)) == len(first)
    looked_at = own.Case(5)
    before, _ = digest_of_value(looked_at, home), looked_at.seen
    assert digest_of_value(looked_at, home) == before
    assert digest_of_value({"a", "b", "c"}, home) == digest_of_value({"c", "b", "a"}, home)


def test_the_types_of_torch_and_of_nested_classes_are_values(own, home, monkeypatch):
    dtype = type("dtype", (), {"__repr__": lambda self: f"torch.{self.name}"})
    half, single = dtype(), dtype()
    half.name, single.name = "float16", "float32"
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(dtype=dtype))
    assert digest_of_value(half, home) != digest_of_value(single, home)
    assert digest_of_value(own.Outer.Inner(3), home) != digest_of_value(own.Outer.Inner(4), home)
    assert digest_of_value(Dtype.SIGNED, home) != digest_of_value(Dtype, home)  # of no file in the project


class Dtype:
    class Signed(enum.Enum):
        YES = 1

    SIGNED = Signed.YES


def test_a_path_into_the_project_is_the_same_in_every_clone():
    here, there = (digest_of_value([f"{root}/a", Path(root)], Path(root)) for root in ("/x/here", "/y/there"))
    assert here == there != digest_of_value(["/z/a", Path("/z")], Path("/y/there"))


def test_a_value_of_a_class_or_function_changes_with_its_source(own, home):
    link = home.with_name("link")
    link.symlink_to(home)
    before = [digest_of_value(value, home) for value in (own.Plain(3), own.double)]
    text = OWN.replace("self.n = n\n\nclass Slots", "self.n = n + 1\n\nclass Slots").replace("2 * x", "3 * x")
    (home / "own_x.py").write_text(text)
    now = [digest_of_value(value, link) for value in (own.Plain(3), own.double)]
    (home / "own_x.py").write_text(OWN)
    assert before[0] != now[0] and before[1] != now[1]
    assert before == [digest_of_value(value, link) for value in (own.Plain(3), own.double)]
    assert digest_of_value(home / "a", link) == digest_of_value(link / "a", link)


WITHOUT = {
    "an object": lambda own: object(),
    "a lambda": lambda own: own.times(2),
    "an open file": lambda own: sys.__stdout__,
    "what holds an open file": lambda own: own.Plain({"log": sys.__stdout__}),
    "a generator": lambda own: iter([1]),
    "a generator of random numbers": lambda own: np.random.default_rng(0),
    "a module": lambda own: own,
    "a cached function": lambda own: own.cached,
    "an object of a class that a function made": lambda own: own.local(2),
    "a pointer": lambda own: ctypes.pointer(ctypes.c_int(3)),
    "addresses": lambda own: (ctypes.c_void_p * 2)(),
}


@pytest.mark.parametrize("what", WITHOUT)
def test_a_value_that_is_known_by_identity_alone_is_refused(own, home, what):
    with pytest.raises(NoValue, match=r"^holds "):
        digest_of_value(WITHOUT[what](own), home)


def test_a_value_that_is_too_large_or_holds_itself_is_refused(home, monkeypatch):
    itself: list[object] = []
    itself.append(itself)
    doubled: list[object] = [1]
    for _ in range(60):
        doubled = [doubled, doubled]
    monkeypatch.setattr(values, "_MOST_ITEMS", 500)
    monkeypatch.setattr(values, "_MOST_BYTES", 5000)
    for value in (itself, doubled, [0] * 600, "x" * 6000, np.zeros(6000, np.int8), (ctypes.c_int8 * 6000)()):
        with pytest.raises(NoValue):
            digest_of_value(value, home)


def test_parameters_count_and_the_workload_values_that_no_text_shows_whole(home):
    workload = Workload("big", {"n": 3, "x": np.zeros(5000)})
    digests, refused = digests_of({"parameter n": 3, "parameter f": object()}, [workload], home)
    assert set(digests) == {"parameter n", "parameter f", "workload big: x"}
    assert digests["parameter f"] == "" and list(refused) == ["parameter f"]
