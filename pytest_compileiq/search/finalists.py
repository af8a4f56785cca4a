"""Which candidates of a search are worth a proof and, with several objectives, which ones no other beats."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_compileiq.search.scoring import Scored, Scorer
from pytest_compileiq.tally import Progress, Tally
from pytest_compileiq.workers.pool import EvaluationFailed, asked_again

PLAYOFF = 8


@dataclass(frozen=True)
class Playoff:
    """``ranked`` are worth a proof, best first; each of ``failures`` ended one that the search had found better."""

    ranked: list[Scored]
    failures: tuple[EvaluationFailed, ...] = ()


def choose_finalists(scored: Collection[Scored], scorer: Scorer, tally: Tally, progress: Progress) -> Playoff:
    """The best by the first objective that worsen no other beyond the margin.

    With timed objectives the best few are measured again first: the luckiest sample is not the best code.

    Raises:
        EvaluationFailed: the device is disturbed, so that none of them can be judged.
    """
    margin = math.log1p(scorer.benchmark.spec.thresholds.max_regression)
    better = _better(scored, margin)
    if not scorer.benchmark.timed_objectives:
        return Playoff(better[:PLAYOFF])
    if better:
        progress.say(f"play-off of the best {len(better[:PLAYOFF])}")
    settled, failures = [], []
    for candidate in better[:PLAYOFF]:
        try:
            settled.append(asked_again(partial(scorer.settled, candidate)))
        except EvaluationFailed as failure:
            if failure.kind == "disturbed":  # says nothing about this candidate, which may be the best
                raise
            tally.fail(failure.kind, failure.reason)
            failures.append(failure)
    return Playoff(_better(settled, margin), tuple(failures))


def pareto_front(scored: Collection[Scored]) -> list[Scored]:
    """The candidates that neither the baseline nor another one dominates or equals, sorted by the first objective.

    Empty where there is only one objective.
    """
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
