from __future__ import annotations

import pytest

from pytest_compileiq.model import CONTROL_CLASSES, Licence
from pytest_compileiq.rules.licences import promises_bits

CONTRACTION = Licence("contraction", "contraction", "k.c:3 (-march=x86-64-v3)", "-ffp-contract=off")


@pytest.mark.parametrize("used", [(), ("value-safe",), ("value-safe", "environment")])
def test_controls_that_keep_values_promise_bits_where_nothing_is_licensed(used):
    assert promises_bits(used, ())


@pytest.mark.parametrize("wider", CONTROL_CLASSES[2:])
def test_one_wider_control_ends_the_promise(wider):
    assert not promises_bits(("value-safe", wider), ())


def test_one_licence_ends_the_promise_for_every_control():
    assert not promises_bits((), (CONTRACTION,))
