"""The statistics of the gate. Arrays are log slot values of shape (processes, quads, 2); lower is better.

``scipy.stats`` takes 0.7 s to import, so distributions come from ``scipy.special`` here, and the tests compare them
with ``scipy.stats``. That takes 0.3 s too, but ``scipy`` imports it on first use, and not every run has samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_SIGNS_AT_ONCE = 1 << 17  # a batch that fits the caches is fastest
_ENUMERATED_QUADS = 14


@dataclass(frozen=True)
class TTest:
    """A one-sided t-test: the statistic is positive when tuned is faster."""

    statistic: float
    degrees: float
    p_value: float


@dataclass(frozen=True)
class Interval:
    """An estimate with a lower and an upper bound."""

    estimate: float
    low: float
    high: float


def t_quantile(degrees: float, tail: float) -> float:
    """The value that Student's t of so many degrees of freedom exceeds with the probability ``tail``."""
    return float(-scipy.special.stdtrit(degrees, tail))


def welch_centred(baseline: Floats, tuned: Floats) -> TTest:
    """Welch's t-test on slots centred per process, one-sided for tuned < baseline (Welch, Biometrika 34, 1947).

    Taking out P process means costs P − 1 degrees of freedom beyond the arms' own two, half of them in either arm: each
    arm's variance is its sum of squares over n − 1 − (P − 1)/2, and Satterthwaite's degrees use these divisors.

    Args:
        baseline, tuned: logs, shape (P, Q, 2); NaN slots are dropped.
    """
    a, b, processes = _centred(baseline, tuned)
    # Of n_a + n_b values, P means and the difference of the arms are fitted; each arm bears half of the loss.
    lost = (processes - 1) / 2
    free_a, free_b = a.size - 1 - lost, b.size - 1 - lost
    if min(free_a, free_b) < 1:
        return TTest(0.0, 1.0, 1.0)
    var_a, var_b = float(((a - a.mean()) ** 2).sum()) / free_a, float(((b - b.mean()) ** 2).sum()) / free_b
    error = var_a / a.size + var_b / b.size
    difference = float(a.mean() - b.mean())
    if error <= _negligible(difference):
        return _without_noise(difference)
    degrees = error**2 / ((var_a / a.size) ** 2 / free_a + (var_b / b.size) ** 2 / free_b)
    statistic = difference / math.sqrt(error)
    return TTest(statistic, degrees, float(scipy.special.stdtr(degrees, -statistic)))


def cohens_d(baseline: Floats, tuned: Floats, confidence: float = 0.95) -> Interval:
    """Cohen's d of the centred logs, positive when tuned is faster.

    With Hedges' correction (J. Educational Statistics 6, 1981); the interval is the large-sample normal one (Hedges and
    Olkin, Statistical Methods for Meta-Analysis, 1985, section 5.E).
    """
    a, b, _ = _centred(baseline, tuned)
    free = a.size + b.size - 2
    pooled = (((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()) / max(free, 1)
    difference = float(a.mean() - b.mean())
    if pooled <= _negligible(difference):
        d = math.copysign(1e6, difference) if abs(difference) > 1e-12 else 0.0
        return Interval(d, d, d)
    d = difference / math.sqrt(pooled) * (1 - 3 / (4 * free - 1))
    error = math.sqrt((a.size + b.size) / (a.size * b.size) + d * d / (2 * (a.size + b.size)))
    reach = t_quantile(1e9, (1 - confidence) / 2) * error
    return Interval(d, d - reach, d + reach)


def _centred(baseline: Floats, tuned: Floats) -> tuple[Floats, Floats, int]:
    """The slots of both arms less the mean of their process, flat, and the number of processes that have one."""
    means = np.nanmean(np.concatenate([baseline, tuned], axis=2), axis=(1, 2), keepdims=True)
    return _flat(baseline - means), _flat(tuned - means), int(np.isfinite(means).sum())


def sign_flip(differences: Floats, *, flips: int, seed: int) -> tuple[float, int]:
    """One-sided randomisation test that the mean of ``differences`` (one per quad, baseline − tuned) is positive.

    Fisher, The Design of Experiments (1935), section 21. Up to 14 quads, all sign patterns are enumerated; beyond that,
    ``flips`` random ones and the observed one count (Phipson & Smyth 2010, eq. 2: the p-value is never zero). Returns
    the p-value and the number of patterns.
    """
    values = _flat(differences)
    # A pattern's sum reaches the observed one where the quads that it flips do not add up to more than rounding.
    rounding = 0.5e-12 * float(np.abs(values).sum())
    if values.size <= _ENUMERATED_QUADS:
        patterns = np.arange(1 << values.size)[:, None] >> np.arange(values.size) & 1
        return float((patterns @ values <= rounding).mean()), len(patterns)
    rng = np.random.Generator(np.random.PCG64(seed))
    # A multiple of four: the generator takes four signs from one word, and the rest of a word is lost.
    at_once = max(1, _SIGNS_AT_ONCE // values.size // 4) * 4
    reached = 0
    for start in range(0, flips, at_once):
        flipped = rng.integers(0, 2, size=(min(at_once, flips - start), values.size), dtype=np.int8)
        reached += int((flipped.astype(np.float64) @ values <= rounding).sum())
    return (reached + 1) / (flips + 1), flips


def paired_interval(differences: Floats, tail: float) -> Interval:
    """Student's interval of the mean of ``differences``, one per process (P,), each bound one-sided at ``tail``."""
    return _interval(*_paired(differences), tail)


def paired_p(differences: Floats, floor: float) -> float:
    """One-sided p-value that the mean of ``differences`` (P,) lies above ``floor``."""
    return 1.0 if differences.size < 2 else _p_above(*_paired(differences), floor)


def stratified_interval(groups: Sequence[Floats], tail: float) -> Interval:
    """Student's interval of the mean of the groups' means, each bound one-sided at ``tail``; the groups are these ones.

    Each group has a variance of its own. The error is of their sum, with Satterthwaite's degrees of freedom
    (Biometrics Bulletin 2, 1946): pooled, one noisy group among quiet ones would be called sure twice as often as it
    may be.
    """
    return _interval(*_stratified(groups), tail)


def stratified_p(groups: Sequence[Floats], floor: float) -> float:
    """One-sided p-value that the mean of the groups' means lies above ``floor``; as ``stratified_interval``."""
    return _p_above(*_stratified(groups), floor)


def _interval(mean: float, error: float, degrees: float, tail: float) -> Interval:
    reach = t_quantile(degrees, tail) * error if error else 0.0
    return Interval(mean, mean - reach, mean + reach)


def _p_above(mean: float, error: float, degrees: float, floor: float) -> float:
    distance = mean - floor
    if error * error <= _negligible(distance):
        return _without_noise(distance).p_value
    return float(scipy.special.stdtr(degrees, -distance / error))


def _paired(differences: Floats) -> tuple[float, float, float]:
    """The mean, its standard error, and the degrees of freedom of that."""
    count, mean = differences.size, float(differences.mean())
    if count < 2:
        return mean, math.inf, 1.0
    return mean, float(differences.std(ddof=1)) / math.sqrt(count), count - 1


def _stratified(groups: Sequence[Floats]) -> tuple[float, float, float]:
    """As ``_paired``, of the mean of the groups' means."""
    mean = float(np.mean([group.mean() for group in groups]))
    if min(group.size for group in groups) < 2:
        return mean, math.inf, 1.0
    errors = np.array([group.var(ddof=1) / group.size for group in groups])
    free = np.array([group.size - 1 for group in groups])
    total = float(errors.sum())
    degrees = total**2 / float((errors**2 / free).sum()) if total else float(free.sum())
    return mean, math.sqrt(total) / len(groups), degrees


def step_down(least: Sequence[float], p_value: Callable[[int, float], float], level: float) -> list[float]:
    """The level at which each hypothesis is tested, step-down (Holm, Scand. J. Statistics 6, 1979).

    Each is tested once, at ``level`` over the number of those that are not rejected by then. That holds the level of
    the family in any order: the first true one that is rejected is tested at no more than ``level`` over their number.

    Args:
        least: of each hypothesis a p-value that its own is no smaller than: they are tested in the order of these.
        p_value: the p-value of one, to be compared with the level that is given.
    """
    levels, left = [0.0] * len(least), len(least)
    for place in sorted(range(len(least)), key=lambda place: least[place]):
        levels[place] = level / left
        left -= p_value(place, levels[place]) <= levels[place]
    return levels


def log_spread_ratio(baseline: Floats, tuned: Floats, least_share: float = 0.0) -> tuple[float, float]:
    """Log of the ratio tuned / baseline of the p5-to-p95 spread, pooled over processes, and its standard error.

    Args:
        baseline, tuned: slot values in the metric's unit, shape (P, Q, 2); the error is the jackknife's over processes
            (Efron & Tibshirani 1993, chapter 11).
        least_share: of the baseline's median: a smaller spread counts as this one, since it is the clock's steps.
    """
    processes = baseline.shape[0]
    least = least_share * float(np.median(_flat(baseline))) if least_share else 0.0
    arms = np.stack([baseline, tuned])
    whole = float(np.diff(_log_spreads(arms.reshape(2, -1), least))[0])
    if processes < 2 or not math.isfinite(whole):
        return 0.0, math.inf
    keep = [[other for other in range(processes) if other != left_out] for left_out in range(processes)]
    leave_one_out = np.diff(_log_spreads(arms[:, keep].reshape(2 * processes, -1), least).reshape(2, processes), axis=0)
    if not np.isfinite(leave_one_out).all():
        return 0.0, math.inf
    error = math.sqrt((processes - 1) / processes * float(((leave_one_out - leave_one_out.mean()) ** 2).sum()))
    return whole, error


def _log_spreads(values: Floats, least: float) -> Floats:
    """The log of the spread of each row of ``values``; NaN where there is none."""
    if np.isfinite(values).all():
        low, high = np.percentile(values, [5, 95], axis=1)
    else:
        low, high = np.nanpercentile(np.where(np.isfinite(values), values, np.nan), [5, 95], axis=1)
    spreads = np.maximum(high - low, least)
    return np.asarray(np.log(spreads, out=np.full_like(spreads, np.nan), where=spreads > 0))


def _flat(values: Floats) -> Floats:
    flat = values.ravel()
    return flat[np.isfinite(flat)]


def _negligible(difference: float) -> float:
    """The variance up to which only rounding is left."""
    return 1e-24 + (1e-13 * difference) ** 2


def _without_noise(difference: float) -> TTest:
    """The test of two constants: equal, or different beyond doubt."""
    if difference > 1e-12:
        return TTest(1e6, 1.0, 1e-12)
    return TTest(0.0, 1.0, 1.0 if difference <= 0 else 0.5)


def processes_for(mean: float, floor: float, deviation: float, level: float, power: float = 0.8) -> int | None:
    """How many processes would put a one-sided bound at ``level`` above ``floor`` with probability ``power``.

    All in log-ratios, by the normal approximation n = ((z_level + z_power) sd / (mean - floor))². None where the mean
    itself is not above the floor, since no number of processes would do.
    """
    if not mean > floor:
        return None
    quantiles = float(scipy.special.ndtri(1 - level)) + float(scipy.special.ndtri(power))
    return max(2, math.ceil((quantiles * deviation / (mean - floor)) ** 2))


def binomial_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a rate (Clopper and Pearson, Biometrika 26, 1934)."""
    tail = (1 - confidence) / 2
    low = float(scipy.special.betaincinv(successes, trials - successes + 1, tail)) if successes else 0.0
    high = float(scipy.special.betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    return low, high
