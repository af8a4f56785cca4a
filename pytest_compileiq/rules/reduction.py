"""Fewer controls for the same gain: delta debugging over them, and when a measured loss is small enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np

from pytest_compileiq.model import Direction
from pytest_compileiq.rules.comparison import BY_RATIO, Analysis, magnitude
from pytest_compileiq.rules.evidence import all_positive, gather
from pytest_compileiq.rules.stats import Floats, paired_p
from pytest_compileiq.samples import SampleRow

Item = TypeVar("Item")

LOOKS = (4, 8, 16, 32)  # pairs of blocks after which a set of controls is judged
LEVEL = 0.05  # of one set of controls, split over the looks; and of the comparison on the proof's samples
_LOSS_SHARE = 0.05
_LEAST_LOSS = 0.003


def ddmin(
    chunks: Sequence[Sequence[Item]],
    holds: Callable[[frozenset[Item]], bool],
    *,
    stays: frozenset[Item] = frozenset(),
    expect: Callable[[Sequence[frozenset[Item]]], None] = lambda sets: None,
) -> list[Item]:
    """The items that have to stay for ``holds``, in their order: no one of them can be left out alone.

    The minimising delta debugging algorithm (Zeller and Hildebrandt, IEEE Transactions on Software Engineering 28,
    2002), without its tests of the chunks themselves: the result is 1-minimal all the same, with fewer tests (Hodovan
    and Kiss, "Practical Improvements to the Minimizing Delta Debugging Algorithm", ICSOFT-EA 2016). ``holds`` is true
    of all items together.

    Args:
        chunks: where to begin: each is left out as a whole, on what is left by then, the first ones first; and halved
            where that does not hold.
        holds: whether a set of items may take the place of all of them.
        stays: items that are in every set, and are not tried.
        expect: told which sets are asked about next.
    """
    kept = [tuple(chunk) for chunk in chunks if chunk]

    def without(place: int) -> frozenset[Item]:
        return stays.union(*kept[:place], *kept[place + 1 :])

    while True:
        expect([without(place) for place in range(len(kept))])
        place = failed = 0
        while failed < len(kept):  # each is tried in turn until all that are left have failed
            place %= len(kept)
            if holds(without(place)):
                del kept[place]
                failed = 0
            else:
                place += 1
                failed += 1
        if all(len(chunk) == 1 for chunk in kept):
            return list(chain.from_iterable(kept))
        middles = [(chunk, (len(chunk) + 1) // 2) for chunk in kept]
        kept = [half for chunk, at in middles for half in (chunk[:at], chunk[at:]) if half]


def ridge_gains(present: Floats, scores: Floats) -> Floats:
    """Estimate each control's effect from the candidates of a search: log-ratios, positive is better.

    Ridge regression with a penalty of one observation: a search has hardly more candidates than controls (Hoerl and
    Kennard, Technometrics 12, 1970).

    Args:
        present: 1 where a candidate has a control, else 0; shape (candidates, controls).
        scores: of the candidates, log-ratios, lower is better; shape (candidates,).
    """
    centred = present - present.mean(axis=0)
    penalised = centred.T @ centred + np.eye(present.shape[1])
    return np.asarray(np.linalg.solve(penalised, centred.T @ (scores.mean() - scores)))


def loss_budget(gain: float) -> float:
    """How much of a log gain all that is left out may cost together: 5 % of it, but at least 0.3 % of the metric."""
    return max(_LOSS_SHARE * gain, math.log1p(_LEAST_LOSS))


def is_within(losses: Floats, budget: float, level: float) -> bool | None:
    """Whether the mean loss is surely within the budget, or surely beyond it (False); None while it is neither.

    Two one-sided paired t-tests at ``level``, for non-inferiority and against it (Wellek, Testing Statistical
    Hypotheses of Equivalence and Noninferiority, 2010, section 5.2).

    Args:
        losses: log-ratios, of shape (pairs,); positive where the smaller set is worse.
    """
    if paired_p(-losses, -budget) <= level:
        return True
    return False if paired_p(losses, budget) <= level else None


def paired_losses(rows: Sequence[SampleRow], direction: Direction) -> Floats:
    """What the tuned arm loses against the other in each process, as steps of their common analysis.

    Raises:
        StoreError: the rows are not a complete design.
    """
    return np.asarray(-gather(rows, direction).by_process)


def losses_beside(full: Sequence[SampleRow], smaller: Sequence[SampleRow], direction: Direction) -> Floats:
    """What the smaller set loses in each process in which both were measured against the same baseline.

    The gain of one less the gain of the other: what a process does to the baseline is in both. Processes are the unit,
    since they are independent (Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013, section 5).

    Args:
        full, smaller: samples of the same processes, each with both arms.

    Raises:
        StoreError: the rows are not a complete design.
    """
    analysis = BY_RATIO
    if not all_positive([*full, *smaller]):
        arms = (np.array([row.value for row in full if row.arm == arm]) for arm in ("baseline", "tuned"))
        analysis = Analysis(magnitude(*arms))
    of_full, of_smaller = (gather(rows, direction, analysis).by_quad for rows in (full, smaller))
    kept = np.isfinite(of_full).any(axis=1) & np.isfinite(of_smaller).any(axis=1)
    return np.asarray(np.nanmean(of_full[kept], axis=1) - np.nanmean(of_smaller[kept], axis=1))
