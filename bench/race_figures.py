"""What races say, as pure functions: values in, figures out. Lower values are better throughout."""

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, friedmanchisquare, mannwhitneyu, rankdata, wilcoxon

Point = Sequence[float]
Values = Mapping[str, Mapping[str, Sequence[float]]]  # objective → engine → one value a seed
REPLICATES = 2000


# ── one race ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def front(scores: Mapping[str, Point]) -> frozenset[str]:
    """The keys whose scores nothing dominates; of one objective the first that is least."""
    if not scores:
        return frozenset()
    if len(next(iter(scores.values()))) == 1:
        return frozenset([min(scores, key=lambda key: scores[key][0])])
    return frozenset(
        key for key, point in scores.items() if not any(_dominates(other, point) for other in scores.values())
    )


def hypervolume(points: Iterable[Point], reference: tuple[float, float]) -> float:
    """The area that ``points`` dominate within ``reference``.

    Zitzler and Thiele, "Multiobjective evolutionary algorithms" (IEEE TEC 3, 1999), section V.
    """
    area, ceiling = 0.0, reference[1]
    for first, second in sorted((point[0], point[1]) for point in points):
        if first < reference[0] and second < ceiling:
            area += (reference[0] - first) * (ceiling - second)
            ceiling = second
    return area


def _dominates(one: Point, other: Point) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


@dataclass(frozen=True)
class Curve:
    """What a race held, from each place on: evaluations, or seconds, that rise. The last place is the race's end."""

    at: tuple[float, ...]
    values: tuple[float, ...]

    def value(self, at: float) -> float:
        """What was held at ``at``; from its first place on."""
        places = [number for number, place in enumerate(self.at) if place <= at]
        return self.values[places[-1] if places else 0]

    def reaches(self, target: float) -> float | None:
        """Where something at least as good as ``target`` was held first; None if never."""
        return next((at for at, value in zip(self.at, self.values, strict=True) if value <= target), None)


# ── races of one engine ──────────────────────────────────────────────────────────────────────────────────────────────


def target_of(start: float, best: float, share: float) -> float:
    """The value that is ``share`` of the way from the baseline's to the best known."""
    return start + share * (best - start)


def expected_running_time(curves: Sequence[Curve], target: float) -> float:
    """What reaching ``target`` costs on average when races are begun anew until it is; infinite if none reaches it.

    All that was spent until the target or the end, over the races that reached it: a race that did not is censored, not
    left out. Hansen et al., "COCO" (Optimization Methods and Software 36, 2021), section 5, average running time.
    """
    hits = [curve.reaches(target) for curve in curves]
    spent = [curve.at[-1] if hit is None else hit for curve, hit in zip(curves, hits, strict=True)]
    reached = sum(hit is not None for hit in hits)
    return sum(spent) / reached if reached else float("inf")


def running_time_interval(curves: Sequence[Curve], target: float, seed: int = 1) -> tuple[float, float]:
    """A 95 % interval of the expected running time, by races drawn anew with repetition (percentiles).

    Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.
    """
    hits = [curve.reaches(target) for curve in curves]
    spent = np.array([curve.at[-1] if hit is None else hit for curve, hit in zip(curves, hits, strict=True)])
    reached = np.array([hit is not None for hit in hits])
    drawn = np.random.default_rng(seed).integers(len(curves), size=(REPLICATES, len(curves)))
    with np.errstate(divide="ignore"):
        times = spent[drawn].sum(axis=1) / reached[drawn].sum(axis=1)
    low, high = np.quantile(times, (0.025, 0.975), method="inverted_cdf")
    return float(low), float(high)


# ── engines against ours ─────────────────────────────────────────────────────────────────────────────────────────────


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p adjusted for all of them, step-down (Holm, Scand. J. Statistics 6, 1979)."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    stepped = [min(1.0, (len(order) - step) * p_values[number]) for step, number in enumerate(order)]
    adjusted = [0.0] * len(order)
    for number, p in zip(order, itertools.accumulate(stepped, max), strict=True):
        adjusted[number] = p
    return adjusted


def differences(values: Values, ours: str) -> dict[tuple[str, str], float]:
    """(objective, engine) → the two-sided Mann-Whitney p against ours, by Holm over all of them."""
    pairs = [(objective, engine) for objective, engines in values.items() for engine in engines if engine != ours]
    raw = [
        float(mannwhitneyu(values[objective][engine], values[objective][ours]).pvalue) for objective, engine in pairs
    ]
    return dict(zip(pairs, holm(raw), strict=True))


def behind(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether a race of ours is above one of theirs more often than below."""
    return sum((our > their) - (our < their) for our in ours for their in theirs) > 0


def mean_ranks(values: Values, engines: Sequence[str]) -> dict[str, list[float]]:
    """Engine → for each objective that all of ``engines`` raced, the mean rank of its races among all of theirs."""
    ranks: dict[str, list[float]] = {engine: [] for engine in engines}
    for raced in values.values():
        if all(engine in raced for engine in engines):
            pooled = rankdata([value for engine in engines for value in raced[engine]])
            ends = list(itertools.accumulate(len(raced[engine]) for engine in engines))
            for engine, begin, end in zip(engines, [0, *ends], ends, strict=False):
                ranks[engine].append(float(np.mean(pooled[begin:end])))
    return ranks


@dataclass(frozen=True)
class Pooled:
    """Engines over objectives.

    Attributes:
        friedman_p: of no engine being different; over three engines or more, else 1.
        ranks: engine → its rank among engines by mean rank, averaged over objectives.
        against: engine → Wilcoxon's signed-rank p over objectives, two-sided, against ours, by Holm.
    """

    friedman_p: float
    ranks: Mapping[str, float]
    against: Mapping[str, float]


def pooled(values: Values, engines: Sequence[str], ours: str) -> Pooled:
    """Ranks pooled over objectives with their tests: Demsar, "Statistical Comparisons" (JMLR 7, 2006), section 3."""
    by_engine = mean_ranks(values, engines)
    within = rankdata([by_engine[engine] for engine in engines], axis=0)
    others = [engine for engine in engines if engine != ours]
    raw = [_signed_rank_p(by_engine[ours], by_engine[engine]) for engine in others]
    return Pooled(
        float(friedmanchisquare(*by_engine.values()).pvalue) if len(engines) > 2 else 1.0,
        {engine: float(np.mean(ranks)) for engine, ranks in zip(engines, within, strict=True)},
        dict(zip(others, holm(raw), strict=True)),
    )


def _signed_rank_p(ours: Sequence[float], theirs: Sequence[float]) -> float:
    if list(ours) == list(theirs):
        return 1.0
    return float(wilcoxon(ours, theirs).pvalue)


def no_worse(ours: Sequence[float], theirs: Sequence[float]) -> tuple[int, float]:
    """On how many objectives ours is no worse, and the two-sided p of the sign test, ties counted for ours.

    Demsar, "Statistical Comparisons" (JMLR 7, 2006), section 3.1.3, which splits ties.
    """
    count = sum(our <= their for our, their in zip(ours, theirs, strict=True))
    return count, float(binomtest(count, len(ours)).pvalue)


def medians(values: Values) -> dict[str, dict[str, float]]:
    """Objective → engine → median."""
    return {
        objective: {engine: statistics.median(raced) for engine, raced in engines.items()}
        for objective, engines in values.items()
    }
