"""What controls may change: their own classes, and what a licence makes of these."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_compileiq.model import CONTROL_CLASSES, Licence
from pytest_compileiq.rules.classes import (
    Classed,
    beyond_value_safe,
    each_once,
    effective_classes,
    in_order,
    promises_bits,
    widest,
)

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


# licences, and when equal bits are promised


CONTRACTION = Licence("contraction", "contraction", "k.c:3 (-march=x86-64-v3)", "-ffp-contract=off")


@pytest.mark.parametrize("used", [(), ("value-safe",), ("value-safe", "environment")])
def test_controls_that_keep_values_promise_bits_where_nothing_is_licensed(used):
    assert promises_bits(used, ())


@pytest.mark.parametrize("wider", CONTROL_CLASSES[2:])
def test_one_wider_control_ends_the_promise(wider):
    assert not promises_bits(("value-safe", wider), ())


def test_one_licence_ends_the_promise_for_every_control():
    assert not promises_bits((), (CONTRACTION,))


def test_licences_that_allow_the_same_and_go_by_the_same_are_one_with_the_first_place():
    elsewhere = replace(CONTRACTION, where="k.c:9 (-march=x86-64-v3)")
    folding = Licence("libm folding", "contraction", "exp at k.c:4", "-fno-builtin-exp")
    assert each_once([CONTRACTION, elsewhere, folding]) == (CONTRACTION, folding)


def test_of_too_many_licences_those_that_allow_most_are_kept():
    fast = Licence("fast maths", "relaxed-maths", "-Ofast", "taking it out")
    assert widest([CONTRACTION, CONTRACTION, fast], 2) == (fast, CONTRACTION)
