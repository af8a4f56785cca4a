"""What conditions mean for a claim: those of many blocks as one, and what a reader is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_compileiq.claim import ConditionsTable
from pytest_compileiq.rules.claims import POWER_CAP, stored_conditions, told
from pytest_compileiq.samples import ClockReading, Conditions, SampleRow

FREE = Conditions("H200", "graph", "flush", all_streams=False, empty_s=2e-6)
CALL_S = 20e-6


def row(arm: str, sm_mhz: int | None, *reasons: str) -> SampleRow:
    return SampleRow("H200", "w", "runtime", 0, 0, 0, arm, 0, CALL_S, clocks=ClockReading(sm_mhz, 3201, reasons))


def test_those_of_many_blocks_are_one_by_their_medians():
    blocks = [
        replace(FREE, eager_ratio=1.5, warm_up_s=0.2, settled=True),
        replace(FREE, empty_s=9e-6, warm_up_s=0.6, settled=True),
        replace(FREE, empty_s=3e-6, eager_ratio=1.3, all_streams=True, settled=False),
    ]
    assert stored_conditions(blocks, [], CALL_S) == ConditionsTable(
        launch="graph", l2="flush", all_streams=True, empty_s=3e-6, eager_ratio=1.4, warm_up_s=0.6, settled=False
    )
    bare = stored_conditions([FREE], [], CALL_S)
    assert (bare.eager_ratio, bare.settled, bare.baseline_mhz, bare.held_by) == (None, None, None, ())


def test_the_clocks_are_the_medians_of_each_arm_and_every_reason():
    rows = [row("baseline", 1980), row("baseline", 1950, POWER_CAP), row("tuned", 1700, "idle"), row("tuned", None)]
    taken = stored_conditions([FREE], rows, CALL_S)
    assert (taken.baseline_mhz, taken.tuned_mhz, taken.memory_mhz) == (1950, 1700, 3201)
    assert taken.held_by == ("idle", POWER_CAP)
    assert told(taken, CALL_S) == ["the power limit held the clocks: baseline at 1950 MHz, tuned at 1700 MHz"]
    silent = taken.model_copy(update={"baseline_mhz": None, "tuned_mhz": None})
    assert told(silent, CALL_S) == ["the power limit held the clocks"]


@pytest.mark.parametrize(("call_us", "diluted"), [(9.99, True), (10.01, False)])
def test_a_call_of_less_than_ten_microseconds_is_diluted(call_us, diluted):
    assert stored_conditions([FREE], [], call_us * 1e-6).diluted is diluted


def test_a_reader_is_told_of_dilution_of_locked_clocks_and_of_a_graph_that_makes_a_difference():
    conditions = stored_conditions([replace(FREE, empty_s=2.25e-6, eager_ratio=1.1, locked_mhz=1500)], [], 6e-6)
    assert told(conditions, 6e-6) == [
        "measured in a CUDA graph: launched one by one, the calls take 1.1 times as long",
        "diluted: of the call's 6.0 µs an empty kernel would take 2.2, so that the kernel itself gains more than is "
        "claimed",
        "measured with the clocks locked at 1500 MHz",
    ]
    assert told(stored_conditions([replace(FREE, eager_ratio=1.09)], [], CALL_S), CALL_S) == []
