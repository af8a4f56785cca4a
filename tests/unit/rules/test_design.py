import random
import statistics
from dataclasses import replace

import numpy as np
import pytest

from pytest_compileiq.errors import StoreError
from pytest_compileiq.rules.evidence import slot_values, start_values
from pytest_compileiq.samples import SampleRow, SampleTable, SlotStart

ARMS = ("baseline", "tuned", "tuned", "baseline")


def rows_of(objective="runtime", samples=5, seed=0):
    random_ = random.Random(seed)
    rows = [
        SampleRow("cpu", "w", objective, process, quad, slot, arm, sample, random_.lognormvariate(0, 0.1))
        for process in (2, 5, 7)
        for quad in range(2)
        for slot, arm in enumerate(ARMS)
        for sample in range(samples)
    ]
    random_.shuffle(rows)
    return rows


def by_hand(rows, value):
    """Each slot's value by a walk over the rows, shape (3, 2, 2) for each arm."""
    arms = []
    for arm in ("baseline", "tuned"):
        slots = [number for number, name in enumerate(ARMS) if name == arm]
        arms.append(
            [
                [
                    [
                        value([row.value for row in rows if (row.process, row.quad, row.slot) == (p, q, s)])
                        for s in slots
                    ]
                    for q in range(2)
                ]
                for p in (2, 5, 7)
            ]
        )
    return arms


@pytest.mark.parametrize("samples", [1, 4, 5])
def test_a_slot_is_the_median_of_its_samples_whatever_their_order(samples):
    rows = rows_of(samples=samples)
    assert np.allclose(slot_values(rows), by_hand(rows, statistics.median), rtol=1e-15)


def test_a_slot_of_a_tail_is_its_quantile():
    rows = rows_of("runtime@p95", samples=21)
    assert np.allclose(slot_values(rows), by_hand(rows, lambda values: np.percentile(values, 95)), rtol=1e-15)


def test_a_table_and_its_rows_are_the_same_samples():
    rows = rows_of()
    table = SampleTable.of(rows)
    assert list(table) == rows and len(table) == len(rows) and SampleTable.of(table) is table
    assert np.array_equal(slot_values(table), slot_values(rows))


def test_a_dropped_sample_takes_its_quad_and_no_other():
    rows = rows_of()
    lost = replace(rows[0], dropped=True)
    gone = np.isnan(slot_values([lost, *rows[1:]]))
    assert gone[:, (2, 5, 7).index(lost.process), lost.quad].all() and gone.sum() == 4


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda rows: [], "there are none"),
        (lambda rows: [row for row in rows if (row.process, row.quad) != (5, 1)], "20 slots for 3 processes of 2 quads"),
        (lambda rows: [replace(row, slot=7) if row.slot == 3 else row for row in rows[:-1]], "one slot has 4, another 5"),
        (lambda rows: [replace(row, arm="tuned") if row.slot == 0 else row for row in rows], "baseline: 1 slot"),
        (lambda rows: [replace(rows[0], sample=5), *rows[1:]], f"process {rows_of()[0].process}, .* missing or stands"),
        (lambda rows: [replace(rows[0], value=0.0), *rows[1:]], f"process {rows_of()[0].process}, .* not a positive"),
        (lambda rows: [replace(row, objective="score", value=float("inf")) for row in rows], "not a finite number"),
    ],
)  # fmt: skip
def test_what_is_no_complete_design_is_named(spoil, said):
    with pytest.raises(StoreError, match=said):
        slot_values(spoil(rows_of()))


def test_start_values_are_the_fastest_that_were_not_dropped():
    taken = {0: 5.0, 1: 3.0, 2: 4.0, 3: 2.0}  # of the slots of process 5, in every quad but the dropped one

    def start_of(process, quad, slot):
        return SlotStart("sham", 1.0 if quad == 2 else taken[slot]) if process == 5 else None

    rows = [
        SampleRow(
            "cpu", "w", "runtime", process, quad, slot, arm, 0, 1.0, quad == 2, start=start_of(process, quad, slot)
        )
        for process in (3, 5)
        for quad in range(3)
        for slot, arm in enumerate(ARMS)
    ]
    values = start_values(rows)
    assert values.keys() == {"sham"} and np.isnan(values["sham"][0]).all()
    assert values["sham"][1].tolist() == [2.0, 3.0]
