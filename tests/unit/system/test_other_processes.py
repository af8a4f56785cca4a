"""What others use of the processors: told apart from what this process and its descendants do."""

from __future__ import annotations

from pytest_compileiq.timing.conditions import Others, Process, ProcessorTimes, others_between, others_in

BEFORE = ProcessorTimes(
    1000,
    {
        1: Process(0, "init", 5, 0),
        7: Process(1, "pytest", 100, 10),
        8: Process(7, "python", 50, 0),
        9: Process(8, "gcc", 1, 0),
        20: Process(1, "make", 3, 400),
    },
)


def test_own_descendants_and_what_they_waited_for_are_no_others():
    after = ProcessorTimes(
        1018,
        {
            1: Process(0, "init", 5, 0),
            7: Process(1, "pytest", 102, 10),
            8: Process(7, "python", 55, 6),  # 9 has ended, and 8 waited for it
            11: Process(8, "cc1", 5, 0),
            20: Process(1, "make", 3, 400),
        },
    )
    assert others_between(BEFORE, after, 10, own=7) == Others(0.0, ())


def test_others_are_counted_with_those_that_are_not_seen_and_named_by_their_share():
    after = ProcessorTimes(
        1037,
        {
            1: Process(0, "init", 6, 0),
            7: Process(1, "pytest", 105, 10),
            20: Process(1, "make", 3, 410),
            21: Process(20, "cc1plus", 9, 0),
            23: Process(20, "cc1plus", 7, 0),
            22: Process(20, "as", 2, 0),
        },
    )
    assert others_between(BEFORE, after, 10, own=7) == Others(3.2, ("cc1plus", "as"))


def test_this_machine_says_what_it_does():
    assert others_in(0.0001) is not None
