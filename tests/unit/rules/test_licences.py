"""Licences, and when equal bits are promised."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_compileiq.model import CONTROL_CLASSES, Licence
from pytest_compileiq.rules.classes import each_once, promises_bits, widest

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
