"""What controls may change: their own classes, and what a licence makes of these."""

from __future__ import annotations

import pytest

from pytest_compileiq.model import CONTROL_CLASSES, Licence
from pytest_compileiq.rules.classes import Classed, beyond_value_safe, effective_classes, in_order

CONTRACTS = Licence("contraction", "contraction", "-march=x86-64-v3", "-ffp-contract=off")
FAST = Licence("fast maths", "relaxed-maths", "-ffast-math", "without it")


def test_classes_are_told_once_and_narrowest_first():
    assert in_order(["opaque", "value-safe", "order", "opaque"]) == ("value-safe", "order", "opaque")


@pytest.mark.parametrize(
    ("own", "licences", "effective"),
    [
        ("value-safe", (), "value-safe"),
        ("value-safe", (CONTRACTS,), "contraction"),
        ("environment", (FAST, CONTRACTS), "relaxed-maths"),
        ("opaque", (CONTRACTS,), "opaque"),
    ],
)
def test_a_licence_widens_the_class_of_every_control(own, licences, effective):
    assert effective_classes((own,), licences) == (effective,)


def test_what_is_widened_to_the_same_class_is_told_once():
    assert effective_classes(("value-safe", "environment", "relaxed-maths"), [CONTRACTS]) == (
        "contraction",
        "relaxed-maths",
    )
    assert effective_classes((), [CONTRACTS]) == ()


def test_a_reviewer_is_told_of_all_but_value_safe():
    assert beyond_value_safe(CONTROL_CLASSES) == CONTROL_CLASSES[1:]


def test_controls_are_told_by_class_and_the_test_s_own_apart():
    classed = Classed.of([("-O3", "value-safe"), ("-DT=8", None), ("-fb", "order"), ("-fa", "order")])
    assert classed == Classed({"value-safe": ("-O3",), "order": ("-fa", "-fb")}, ("-DT=8",))
    assert classed.own == ("value-safe", "order")
