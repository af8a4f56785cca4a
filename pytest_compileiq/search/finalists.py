"""Which candidates of a search are worth a proof and, with several objectives, which ones no other beats."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from pytest_compileiq.progress import Progress, SearchCounts
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.search.scoring import Scored, Scorer
from pytest_compileiq.workers.pool import EvaluationFailed, asked_again

PLAYOFF = 8
FEWEST_ROUNDS, _MOST_ROUNDS = 3, 12
SHARE_OF_SEARCH = 0.05  # of its time: rounds beyond the fewest take no longer


@dataclass(frozen=True)
class Playoff:
    """``ranked`` are worth a proof, best first; each of ``failures`` ended one that the search had found better."""

    ranked: list[Scored]
    failures: tuple[EvaluationFailed, ...] = ()


@dataclass
class _Entrant:
    scored: Scored
    rows: list[SampleRow] = field(default_factory=list)
    failure: EvaluationFailed | None = None


def choose_finalists(
    scored: Collection[Scored],
    scorer: Scorer,
    tally: SearchCounts,
    progress: Progress,
    clock: Callable[[], float] = time.monotonic,
) -> Playoff:
    """The best by the first objective that worsen no other beyond the margin."""
    margin = math.log1p(scorer.benchmark.spec.thresholds.max_regression)
    better = _better(scored, margin)[:PLAYOFF]
    if not scorer.benchmark.timed_objectives:
        return Playoff(better)
    # The luckiest sample is not the best code: the best few are measured again.
    if better:
        progress.say(f"play-off of the best {len(better)}")
    entrants = [_Entrant(candidate) for candidate in better]
    _each(entrants, lambda entrant: scorer.check(entrant.scored.controls), tally)  # alone
    ends = clock() + SHARE_OF_SEARCH * tally.seconds
    for number in range(_MOST_ROUNDS):  # in turn, so that what disturbs the machine for a while meets all

        def measure(entrant: _Entrant, number: int = number) -> None:
            entrant.rows += scorer.round(entrant.scored.controls, number)

        _each(entrants, measure, tally)
        if not scorer.varies or (number + 1 >= FEWEST_ROUNDS and clock() >= ends):
            break
    settled = [scorer.settled(entrant.scored, entrant.rows) for entrant in entrants if entrant.failure is None]
    failures = tuple(entrant.failure for entrant in entrants if entrant.failure is not None)
    return Playoff(_better(settled, margin), failures)


def _each(entrants: Sequence[_Entrant], ask: Callable[[_Entrant], None], tally: SearchCounts) -> None:
    """Ask of each what has not failed yet; a failure ends it, and is counted."""
    for entrant in entrants:
        if entrant.failure is not None:
            continue
        try:
            asked_again(partial(ask, entrant))
        except EvaluationFailed as failure:
            if failure.kind == "disturbed":  # says nothing about this candidate, which may be the best
                raise
            tally.fail(failure.kind, failure.reason)
            entrant.failure = failure


def pareto_front(scored: Collection[Scored]) -> list[Scored]:
    """With several objectives, the candidates that neither the baseline nor another dominates or equals, in order."""
    if not scored or len(next(iter(scored)).scores) == 1:
        return []
    # Reversed, so that of equal scores the first candidate stays.
    better = {candidate.scores: candidate for candidate in reversed(list(scored)) if min(candidate.scores) < 0}
    return _ranked(
        candidate for scores, candidate in better.items() if not any(dominates(other, scores) for other in better)
    )


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether ``one`` is nowhere worse (higher) than ``other`` and somewhere better."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


def _better(scored: Iterable[Scored], margin: float) -> list[Scored]:
    return _ranked(candidate for candidate in scored if min(candidate.scores) < 0 and max(candidate.scores) <= margin)


def _ranked(scored: Iterable[Scored]) -> list[Scored]:
    return sorted(scored, key=lambda candidate: candidate.scores)
