"""The stress of claims in words: which draws there were, how far apart the arms were, how accurate.

Claims of one proof share a record: it is told once, and named by device where another device's differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_compileiq.claim import Accuracy, Claim, Farthest, Stress
from pytest_compileiq.rules.stress import by_accuracy, failure_bound
from pytest_compileiq.spelling import quantity

_MOST_OUTPUTS = 5  # in one rendering
_MOST_EXACT = 2**53


def stress_lines(claims: Iterable[Claim]) -> list[str]:
    """All that the claims record: the draws first, then what is less accurate, then the differences."""
    return _of_each(claims, lambda told: [told.draws, *told.less_accurate, *told.differences])


def stress_notes(claims: Iterable[Claim]) -> list[str]:
    """As ``stress_lines``, of the claims that were drawn for."""
    return [f"stress: {line}" for line in stress_lines(filter(_is_drawn, claims))]


def draws_lines(claims: Iterable[Claim]) -> list[str]:
    """The draws and the differences of the claims that record a stress."""
    recorded = (claim for claim in claims if claim.stress is not None)
    return _of_each(recorded, lambda told: [told.draws, *told.differences])


def less_accurate_lines(claims: Iterable[Claim]) -> list[str]:
    """The outputs in which the tuned arm is surely less accurate than the baseline."""
    return _of_each(filter(_is_drawn, claims), lambda told: told.less_accurate)


class _Told(NamedTuple):
    draws: str
    less_accurate: list[str]
    differences: list[str]


def _told(stress: Stress | None) -> _Told:
    if stress is None:
        return _Told("not stressed", [], [])
    less, others = by_accuracy(stress)
    repeats = ["the test declares repeats=True: the gain may be one of remembered input"] if stress.repeats else []
    return _Told(_draws(stress), [_less_accurate(output) for output in less], [*repeats, *_differences(stress, others)])


def _is_drawn(claim: Claim) -> bool:
    return claim.stress is not None and (claim.stress.draws > 0 or claim.stress.repeats)


def _of_each(claims: Iterable[Claim], lines_of: Callable[[_Told], list[str]]) -> list[str]:
    devices: dict[str, dict[str, None]] = {}
    records: dict[str, Stress | None] = {}
    for claim in claims:
        key = claim.stress.model_dump_json() if claim.stress else ""
        records[key] = claim.stress
        devices.setdefault(key, {})[claim.device] = None
    return [
        f"{', '.join(devices[key])}: {line}" if len(records) > 1 else line
        for key, record in records.items()
        for line in lines_of(_told(record))
    ]


def _draws(stress: Stress) -> str:
    """How many draws there were, and the failure rate that they exclude."""
    if stress.draws == 0:
        return "0 draws: the body does not read acf.rng"
    seeds = f"seeds {stress.seed} to {(stress.seed or 0) + stress.draws - 1}"
    unusable = stress.draws - stress.usable
    if stress.usable == 0:
        return f"{quantity(stress.draws, 'draw')}, {seeds}, none of them usable, so no failure rate is excluded"
    count = f"{stress.usable} of {stress.draws} draws" if unusable else quantity(stress.draws, "draw")
    rate = f"{100 * failure_bound(stress.usable):.0f} %"
    rest = f"; {unusable} unusable" if unusable else ""
    return f"{count}, all clean: a failure rate above {rate} is excluded (95 %); {seeds}{rest}"


def _less_accurate(output: Accuracy) -> str:
    times = f"{output.ratio:.3g} times the baseline's error"
    return f"less accurate: {_where(output)} has {times}, and is farther off its reference on {_of(output)}"


def _of(output: Accuracy) -> str:
    return f"{output.worse} of {quantity(output.worse + output.better, 'draw')}"


def _differences(stress: Stress, not_less_accurate: Sequence[Accuracy]) -> Iterator[str]:
    for output in not_less_accurate[:_MOST_OUTPUTS]:
        differs = output.worse + output.better > 0
        apart = f"farther off its reference on {_of(output)}" if differs else "as near to its reference on every draw"
        yield f"not less accurate: {_where(output)}, {apart}"
    if stress.largest is not None:
        yield f"largest difference: {_farthest(stress.largest)}"
    elif stress.outputs:
        yield "every compared output has the baseline's bits"
    if stress.spread is not None:
        yield f"the baseline differs from itself: {_farthest(stress.spread)}"


def _where(place: Accuracy | Farthest) -> str:
    return f"{place.output!r} on {place.workload}"


def _farthest(place: Farthest) -> str:
    apart = f"{place.ulps:,} ulps, " if place.ulps < _MOST_EXACT else ""
    share = f"{place.relative:.2g} of the largest value" if place.relative < 1e20 else "no number in one of them"
    at = f"{_where(place)}, element {place.index}, draw {place.draw}"
    return f"{place.baseline} → {place.other}, {apart}{share} ({at})"
