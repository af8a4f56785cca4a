"""Results of a validation: tuned controls within the program of their capture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_compileiq.model import tail_of
from pytest_compileiq.spelling import quantity, time_text

if TYPE_CHECKING:
    from pytest_compileiq.capture.program import Apart
    from pytest_compileiq.claim import Claim


@dataclass(frozen=True)
class Gain:
    """The tuned arm's speed-up within the program, its bounds at 99 %, and the median time of a baseline call."""

    speedup: float
    low: float
    high: float
    baseline_ns: float


@dataclass(frozen=True)
class WorkloadInPlace:
    """The times of one workload's calls within the program."""

    workload: str
    pairs: int  # how many neighbouring calls there are, one by each arm
    least: float  # the speed-up that the claim requires in the program
    captured_s: float  # the time of a baseline call in the capture, measured just before
    gain: Gain | None = None  # None for too few pairs

    @property
    def standing(self) -> Literal["holds", "differs", "undecided"]:
        if self.gain is not None and self.gain.low >= self.least:
            return "holds"
        return "differs" if self.gain is not None and self.gain.high < self.least else "undecided"


@dataclass(frozen=True)
class InPlace:
    """One validation, in ``program`` as it was typed, on ``device``."""

    program: str
    device: str
    compared: int  # calls that both arms made on the same memory
    # the program's own, with every call made by one arm and by the other
    output: Literal["same", "differs", "not compared"]
    rtol: float = 0.0  # how far floats may differ, relative to the largest value of their place
    differing: tuple[Apart, ...] = ()  # by more than ``rtol``, and than the baseline from itself
    workloads: tuple[WorkloadInPlace, ...] = ()


FEWEST_PAIRS = 6
LEVEL = 0.99
_MOST_BLOCKS = 40
_FLOOR_CALLS_FACTOR = 4  # as of a captured kernel's floor: some calls show little of how far calls differ


def gain_of(pairs: Sequence[tuple[int, int]]) -> Gain | None:
    """The speed-up that pairs of neighbouring calls show, baseline and tuned; None if there are too few.

    Their times are correlated over a program's run (its phases, the processor's clock), so the pairs are cut into
    blocks by time, each with the medians of both arms, and the interval is Student's over the blocks' log-ratios:
    batch means (Law and Kelton, Simulation Modeling and Analysis, section 9.5.3).
    """
    import numpy as np

    from pytest_compileiq.rules.stats import t_quantile

    if len(pairs) < FEWEST_PAIRS:
        return None
    count = min(_MOST_BLOCKS, len(pairs))
    blocks = np.array_split(np.asarray(pairs, float), count)
    ratios = np.array([math.log(np.median(block[:, 0]) / np.median(block[:, 1])) for block in blocks])
    half = t_quantile(count - 1, (1 - LEVEL) / 2) * ratios.std(ddof=1) / math.sqrt(count)
    mean = ratios.mean()
    baseline_ns = float(np.median([baseline for baseline, _ in pairs]))
    return Gain(math.exp(mean), math.exp(mean - half), math.exp(mean + half), baseline_ns)


def is_of_calls(claim: Claim) -> bool:
    """Whether a claim is of what a program shows: the median of calls' times, no tail, energy or compilation."""
    return tail_of(claim.objective) == ("runtime", 0.5)


def least_in_place(claim: Claim, captured_low: float) -> float:
    """What a program has to show for ``claim`` to hold in it, if the capture shows ``captured_low``."""
    if claim.kind == "gain":
        # Half, in logarithms: caches and neighbours take a part of a gain in every program, and a program that shows
        # less than half runs another kernel than the capture does.
        return math.exp(math.log(captured_low) / 2)
    allowed = claim.test.max_regression if claim.test and claim.test.max_regression is not None else 0.0
    return 1 - allowed


def left_out(timed: Sequence[tuple[Claim, bool]], shape_of: Mapping[str, int | None]) -> Iterator[str]:
    """Tell which claims on a time, each with whether it was measured, cannot be held against a program, and why."""
    for claim, was_measured in timed:
        claimed = f"{claim.objective} of {claim.workload}"
        if not is_of_calls(claim):
            yield f"{claimed} is no median of calls' times, so it was not compared with the program's"
        elif not was_measured:
            yield f"{claimed} is claimed on {claim.device} and was not measured here, so no time was compared"
        elif shape_of.get(claim.workload) is None:
            told = f"workloads={{{claim.workload!r}: dict(shape=0)}}"
            yield f"{claimed}: its test does not say which captured shape that is, as {told} does"


def is_allowed(apart: Apart, rtol: float) -> bool:
    """Whether a difference from the baseline is within ``rtol``, or what the baseline's own calls differ by."""
    return apart.tuned is not None and apart.tuned <= max(rtol, _FLOOR_CALLS_FACTOR * (apart.own or 0.0))


def wrong_in(record: InPlace) -> Iterator[str]:
    """What the program's values say against the controls, a part of a sentence each."""
    for each in record.differing:
        by = "" if each.tuned is None else f", by up to {each.tuned:.2g} of its largest value"
        yield f"{each.place} differs on {each.calls} of {quantity(record.compared, 'call')} that both arms made{by}"
    if record.output == "differs":
        yield "the program's output differs"


def slower_in(record: InPlace) -> Iterator[str]:
    """Which workloads the program contradicts, a part of a sentence each."""
    for each in record.workloads:
        if each.gain is not None and each.standing == "differs":
            yield (
                f"{each.workload} is {each.gain.low:.3f} to {each.gain.high:.3f} times as fast in it, and would have "
                f"to be {each.least:.3f}"
            )


def is_against(record: InPlace) -> bool:
    """Whether the program contradicts the artifact."""
    return any(wrong_in(record)) or any(slower_in(record))


def open_in(record: InPlace) -> Iterator[str]:
    """What the program left open, a part of a sentence each."""
    if not record.compared:
        yield "no call was made by both arms"
    for each in record.workloads:
        if each.standing == "undecided":
            told = "" if each.gain is None else f", {each.gain.low:.3f} to {each.gain.high:.3f} times as fast"
            yield f"{each.workload} is undecided by {quantity(each.pairs, 'pair')} of calls{told}"


def standing_text(record: InPlace) -> str:
    """Tell what one validation came to."""
    if is_against(record):
        return f"{record.program} contradicts it on {record.device}"
    is_open = any(open_in(record))
    return f"{record.program} {'left it open' if is_open else 'confirms it'} on {record.device}"


def record_lines(record: InPlace) -> Iterator[str]:
    """Tell what a validation stands on."""
    for each in record.workloads:
        yield f"{each.workload}: {_gain_text(each)}"
    calls = f"{quantity(record.compared, 'call')} made by both arms"
    beyond = f" by more than {record.rtol:g} of the largest value" if record.rtol else ""
    agreed = f"none differs{beyond}" if record.compared else "so nothing was compared"
    output = {"same": "the same output", "differs": "another output", "not compared": "its output was not compared"}
    yield f"values: {calls}, {'some differ' if record.differing else agreed}; {output[record.output]}"
    yield from (f"contradicts: {said}" for said in wrong_in(record))


def _gain_text(workload: WorkloadInPlace) -> str:
    pairs = f"{quantity(workload.pairs, 'pair')} of calls"
    if (gain := workload.gain) is None:
        return f"{pairs}: too few for a time"
    # Far more there says that the capture is warmer than the program.
    times = f"{time_text(gain.baseline_ns)} there, and {time_text(1e9 * workload.captured_s)} in the capture"
    return (
        f"{gain.speedup:.3f}x in place, {gain.low:.3f} to {gain.high:.3f}, by {pairs}; has to show "
        f"{workload.least:.3f}x: {workload.standing}; a call of the baseline takes {times}"
    )
