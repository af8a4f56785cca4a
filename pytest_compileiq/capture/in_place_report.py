"""Results of a validation, in words."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_compileiq.capture.in_place import InPlace, WorkloadInPlace, is_against, open_in, wrong_in
from pytest_compileiq.report.times import time_text
from pytest_compileiq.spelling import quantity


def standing_text(record: InPlace) -> str:
    """What one validation came to."""
    if is_against(record):
        return f"{record.program} contradicts it on {record.device}"
    is_open = any(open_in(record))
    return f"{record.program} {'left it open' if is_open else 'confirms it'} on {record.device}"


def record_lines(record: InPlace) -> Iterator[str]:
    """What it stands on."""
    for each in record.workloads:
        yield f"{each.workload}: {gain_text(each)}"
    yield f"values: {values_text(record)}"
    yield from (f"contradicts: {said}" for said in wrong_in(record))


def gain_text(workload: WorkloadInPlace) -> str:
    """A workload's gain within the program."""
    pairs = f"{quantity(workload.pairs, 'pair')} of calls"
    if (gain := workload.gain) is None:
        return f"{pairs}: too few for a time"
    asked = f"has to show {workload.least:.3f}x: {workload.standing}"
    # Far more there says that the capture is warmer than the program.
    times = f"{time_text(gain.baseline_ns)} there, and {time_text(1e9 * workload.captured_s)} in the capture"
    return (
        f"{gain.speedup:.3f}x in place, {gain.low:.3f} to {gain.high:.3f}, by {pairs}; {asked}; a call of the baseline "
        f"takes {times}"
    )


def values_text(record: InPlace) -> str:
    """What was compared."""
    count = record.compared
    calls = f"{quantity(count, 'call')} made by both arms"
    beyond = f" by more than {record.rtol:g} of the largest value" if record.rtol else ""
    came_out = "some differ" if record.differing else f"none differs{beyond}" if count else "so nothing was compared"
    output = {"same": "the same output", "differs": "another output", "not compared": "its output was not compared"}
    return f"{calls}, {came_out}; {output[record.output]}"
