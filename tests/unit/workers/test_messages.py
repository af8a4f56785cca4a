"""Messages arrive as they were, or not at all: a worker has run a candidate's machine code."""

from __future__ import annotations

import math

import msgspec
import pytest

from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.rules.calls import CallTimes
from pytest_compileiq.rules.stress import Difference, Draw
from pytest_compileiq.samples import ChecksMade, Conditions
from pytest_compileiq.timing.sampler import BlockPlan, Slot
from pytest_compileiq.workers.messages import (
    BlockAnswer,
    BlockTask,
    CheckTask,
    DrawTask,
    Enter,
    Entered,
    Failed,
    FailureAnswer,
    Leave,
    Left,
    LookTask,
    Quit,
    Ready,
    Start,
    decode_answer,
    decode_order,
    encode,
)

CONTROLS = ControlsFile("options", b"-O3\n", {"-O": 3, "-ffast": True, "ratio": 0.5, "name": "x"})
BLOB = ControlsFile("blob", bytes(range(256)), {})
PLAN = BlockPlan("tuned", ("ABBA", "BAAB"), 2, checks={0: 64, 5: 0})
TOUCHED = Touched(frozenset({"kernel"}), frozenset({"TILE"}))
ORDERS = [
    Start("sub", ("test_k.py::test_k",), {"verbose": 1}, ("slow: slow",), ("src", None), {"HOME": "/"}),
    Enter("test_k.py::test_k", b"\x80pickled"), Enter("test_k.py::test_k", None), Leave(), Quit(),
    CheckTask("default", CONTROLS), CheckTask("default", None), DrawTask("default", CONTROLS, 7, True), BlockTask("default", BLOB, None, PLAN),
    LookTask("small", CONTROLS),
]  # fmt: skip
ANSWERS = [
    Ready(), Entered(), Left(None), Left("teardown"), Failed("ImportError"), TOUCHED,
    BlockAnswer({"runtime": (Slot(0, 1, "tuned", (1e-3, 2.0)),)}, {}, TOUCHED),
    BlockAnswer({}, {"runtime": Conditions("H200", "graph", "warm", True, 1.5e-6, None)}, TOUCHED),
    BlockAnswer({}, {}, TOUCHED, ("short",), {"runtime": ChecksMade("check", 288, 32)}),
    BlockAnswer({}, {}, TOUCHED, units={"runtime": "GPU-1a2b3c4d-0000"}),
    Draw(("out",), (Difference("out", 3, "1.0", "nan", 2**63 - 1, math.inf),), (), {"out": (1.0, 2.5)}),
    None, CallTimes(1.0, 0.5, 0.7, 3, 0.5, None),
    FailureAnswer("tuned", "wrong", "AssertionError", True), FailureAnswer(None, "disturbed", "a neighbour", False),
]  # fmt: skip


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
def test_an_order_arrives_as_it_was(order):
    assert decode_order(encode(order)) == order


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_an_answer_arrives_as_it_was(answer):
    assert decode_answer(encode(answer)) == answer


MALFORMED = {
    "no message": b"\xc1", "nothing": b"", "cut off": encode(ANSWERS[6])[:-3], "an order": encode(ORDERS[0]),
    "a type that is none": encode({"type": "Pickle"}), "a field short": encode({"type": "Touched"}),
    "a number for a text": encode({"type": "Left", "reason": 3}),
    "an arm that is none": encode({"type": "FailureAnswer", "arm": "both", "kind": "wrong", "reason": "",
                                   "poisoned": False}),
    "a text for a time": encode({"type": "BlockAnswer", "touched": {"used": [], "read": []},
                                 "slots": {"runtime": [{"quad": 0, "slot": 0, "arm": "tuned", "values": ["1"]}]}}),
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
def test_an_answer_of_another_form_is_refused(what):
    with pytest.raises((msgspec.DecodeError, ValueError)):
        decode_answer(MALFORMED[what])
