"""Draws of ``acf.rng``: which failure rate clean ones exclude, whether an arm is less accurate, what claims record."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from pytest_compileiq.model import LARGEST_NUMBER
from pytest_compileiq.rules.calls import FirstCalls

if TYPE_CHECKING:
    from pytest_compileiq.claim import Accuracy, Stress  # heavy: pydantic, and a worker imports this module

_FEWEST_PAIRS = 4  # of draws: fewer may be equal by chance
_FEWEST_APART = 2  # draws
_LESS_ACCURATE_LEVEL = 0.01  # of all outputs together
_FARTHEST_LOG = 60.0  # an error that is infinite in one arm: beyond 1e26


class Difference(Struct, frozen=True):
    """Where one output of two runs of a body is farthest apart."""

    output: str
    index: int  # the element's, flat
    baseline: str  # its value in words, as the other
    other: str
    ulps: int  # floating-point numbers between them; of integers their distance
    relative: float  # their distance over the baseline's largest magnitude; infinite where one is no number


class Draw(Struct, frozen=True, tag=True):
    """A draw on which the tuned body held, and the baseline's twice."""

    outputs: tuple[str, ...] = ()  # the names of what the bodies compare
    differences: tuple[Difference, ...] = ()  # where the arms' bits differ, the farthest element of each output
    spread: tuple[Difference, ...] = ()  # the same of the baseline's second run against its first
    errors: Mapping[str, tuple[float, float]] = msgspec.field(default_factory=dict)  # of both arms, in half ulps
    calls: FirstCalls | None = None  # first and later calls on another such draw, if timed
    written: tuple[str, ...] = ()  # digests of measure(outputs=…): of the tuned arm and of the baseline's two runs
    apart: str | None = None  # how those of the tuned arm differ from the baseline's; None where they hardly do


def why_not_computed(draws: Sequence[Draw]) -> str | None:
    """Why the tuned arm does not compute its outputs from its input; None where nothing says so.

    It writes the same bytes on most pairs of draws on which the baseline's differ. On single pairs it may: outputs of
    few values can be equal by chance.
    """
    written = [draw.written for draw in draws if draw.written]
    pairs = [(one, other) for one, other in itertools.pairwise(written) if one[1] != other[1]]
    stale = sum(one[0] == other[0] for one, other in pairs)
    if len(pairs) < _FEWEST_PAIRS or 2 * stale <= len(pairs):
        return None
    return (
        f"outputs= are the same bytes on {stale} of {len(pairs)} pairs of draws of acf.rng on which the baseline's "
        "differ: the call does not compute them from its input; do the work in every call"
    )


def why_apart(draws: Sequence[Draw]) -> str | None:
    """Why the tuned arm computes something else than the baseline; None where nothing says so.

    A baseline that does not repeat itself, as one with inputs of its own in each run, says nothing.
    """
    if any(draw.written[1:2] != draw.written[2:] for draw in draws):
        return None
    seen = [(draw.apart, None if draw.calls is None else draw.calls.apart) for draw in draws]
    apart = [each for each in seen if any(each)]
    if not apart or len(apart) < min(len(draws), _FEWEST_APART):
        return None
    where = f"on {len(apart)} of {len(draws)} draws, " if len(draws) > 1 else ""
    return where + next(filter(None, apart[0]))


def failure_bound(clean: int, confidence: float = 0.95) -> float:
    """The failure rate that ``clean`` draws without a failure exclude with ``confidence``.

    The exact one-sided bound of Clopper and Pearson (Biometrika 26, 1934), which is 1 - (1 - confidence)^(1 / clean)
    where nothing failed.
    """
    return 1.0 if clean == 0 else 1.0 - math.pow(1 - confidence, 1 / clean)


def sign_test(worse: int, better: int) -> float:
    """One-sided p-value that a draw is as likely better as worse, where ties were dropped (Arbuthnot, 1710).

    The binomial tail as an incomplete beta function, since an artifact may record thousands of draws.
    """
    from scipy.special import betainc  # heavy

    return float(betainc(worse, better + 1, 0.5)) if worse else 1.0


def median_ratio(errors: Sequence[tuple[float, float]]) -> float:
    """The median over draws of the tuned arm's error over the baseline's, of pairs in half ulps; less count as one."""
    from statistics import median  # heavy: decimal

    def log_ratio(baseline: float, tuned: float) -> float:
        baseline, tuned = max(1.0, baseline), max(1.0, tuned)
        ratio = 0.0 if tuned == baseline else math.log(tuned) - math.log(baseline)
        return max(-_FARTHEST_LOG, min(_FARTHEST_LOG, ratio))

    return math.exp(median(itertools.starmap(log_ratio, errors)))


# ── what claims record ───────────────────────────────────────────────────────────────────────────────────────────


def record_of(seed: int, draws: Sequence[Mapping[str, Draw] | None], *, repeats: bool = False) -> Stress:
    """The record of draws with the seeds ``seed``, ``seed + 1``, …: what each workload gave; None: unusable.

    Raises:
        StoreError: something in it is beyond what an artifact may hold.
    """
    from pytest_compileiq.claim import Stress

    usable = [
        (workload, number, draw)
        for number, of_all in enumerate(draws, start=seed)
        for workload, draw in (of_all or {}).items()
    ]
    errors: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for workload, _, draw in usable:
        for output, pair in draw.errors.items():
            errors.setdefault((workload, output), []).append(pair)
    accuracy = tuple(
        {
            "workload": workload,
            "output": output,
            "worse": sum(tuned > baseline for baseline, tuned in pairs),
            "better": sum(tuned < baseline for baseline, tuned in pairs),
            "ratio": median_ratio(pairs),
        }
        for (workload, output), pairs in sorted(errors.items())
    )
    return Stress.of({
        "draws": len(draws),
        "usable": sum(of_all is not None for of_all in draws),
        "seed": seed,
        "repeats": repeats,
        "outputs": len({(workload, output) for workload, _, draw in usable for output in draw.outputs}),
        "largest": _farthest((place, at, found) for place, at, draw in usable for found in draw.differences),
        "spread": _farthest((place, at, found) for place, at, draw in usable for found in draw.spread),
        "accuracy": accuracy,
    })  # fmt: skip


def _farthest(places: Iterable[tuple[str, int, Difference]]) -> dict[str, object] | None:
    """Of (workload, seed, difference) the largest relative one; of equal ones the most ulps decide, then the first."""
    workload, seed, largest = max(places, key=lambda place: (place[2].relative, place[2].ulps), default=(None, 0, None))
    if largest is None:
        return None
    relative = min(largest.relative, LARGEST_NUMBER)
    return {**msgspec.structs.asdict(largest), "relative": relative, "workload": workload, "draw": seed}


def by_accuracy(stress: Stress) -> tuple[list[Accuracy], list[Accuracy]]:
    """The outputs in which the tuned arm is surely farther off the reference than the baseline, and the others.

    Bonferroni's correction is for the number of outputs.
    """
    less: list[Accuracy] = []
    others: list[Accuracy] = []
    level = _LESS_ACCURATE_LEVEL / max(len(stress.accuracy), 1)
    for output in stress.accuracy:
        is_less = output.worse > output.better and sign_test(output.worse, output.better) <= level
        (less if is_less else others).append(output)
    return less, others
