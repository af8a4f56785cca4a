"""What conditions mean for a claim: those of many blocks as one, and what a reader is told."""

from __future__ import annotations

import pytest

from pytest_compileiq.artifact import StoredConditions
from pytest_compileiq.model import Conditions
from pytest_compileiq.rules.conditions import stored_conditions, told


def taken(empty_us: float, ratio: float | None, *, all_streams: bool = False) -> Conditions:
    return Conditions("graph", "flush", all_streams, empty_us * 1e-6, ratio)


def test_those_of_many_blocks_are_one_by_their_medians():
    blocks = [taken(2, 1.5), taken(9, None), taken(3, 1.3, all_streams=True)]
    together = StoredConditions(launch="graph", l2="flush", all_streams=True, empty_s=3e-6, eager_ratio=1.4)
    assert stored_conditions(blocks, 20e-6) == together
    assert stored_conditions([taken(2, None)], 20e-6).eager_ratio is None


@pytest.mark.parametrize(("call_us", "diluted"), [(9.99, True), (10.01, False)])
def test_a_call_of_less_than_ten_microseconds_is_diluted(call_us, diluted):
    assert stored_conditions([taken(2, None)], call_us * 1e-6).diluted is diluted


def test_a_reader_is_told_of_dilution_and_of_a_graph_that_makes_a_difference():
    conditions = stored_conditions([taken(2.25, 1.1)], 6e-6)
    assert told(conditions, 6e-6) == [
        "measured in a CUDA graph: launched one by one, the calls take 1.1 times as long",
        "diluted: of the call's 6.0 µs an empty kernel would take 2.2, so that the kernel itself gains more than is "
        "claimed",
    ]
    assert told(stored_conditions([taken(2, 1.09)], 20e-6), 20e-6) == []
