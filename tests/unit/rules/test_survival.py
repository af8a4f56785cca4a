"""Cumulative incidence by cause, against the estimators that it becomes where days are known exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_compileiq.rules.survival import Lifetime, incidence_of


def ended(after: float, until: float, *ends: str) -> Lifetime:
    return Lifetime(after, until, frozenset(ends))


def share(lifetimes, days: float, *ends: str) -> float:
    return incidence_of(lifetimes, range(len(lifetimes))).by(days, ends).value


def kaplan_meier(lifetimes, days: float) -> float:
    exact = [each.until for each in lifetimes if each.ends]
    going_on = [each.after for each in lifetimes if not each.ends]
    return 1 - stats.ecdf(stats.CensoredData(uncensored=exact, right=going_on)).sf.evaluate(days)


def aalen_johansen(lifetimes, days: float, end: str) -> float:
    """Σ S(t-) d(t)/n(t) over the days on which ``end`` ended a lifetime (Aalen and Johansen 1978)."""
    total, left = 0.0, 1.0
    for day in sorted({each.until for each in lifetimes if each.ends and each.until <= days}):
        at_risk = sum(each.after >= day for each in lifetimes)
        here = [each.ends for each in lifetimes if each.until == day]
        total += left * sum(end in ends for ends in here) / at_risk
        left *= 1 - len(here) / at_risk
    return total


def random_lifetimes(seed: int, count: int = 60) -> list[Lifetime]:
    rng = np.random.default_rng(seed)
    lifetimes = []
    for _ in range(count):
        day, cause = int(rng.integers(1, 20)), rng.choice(["kernel", "compiler", "on"], p=[0.4, 0.25, 0.35])
        lifetimes.append(Lifetime(day) if cause == "on" else ended(day, day, cause))
    return lifetimes


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("days", [1, 7, 15])
def test_days_that_are_known_give_the_estimators_of_kaplan_meier_and_of_aalen_johansen(seed, days):
    lifetimes = random_lifetimes(seed)
    kernel, compiler = share(lifetimes, days, "kernel"), share(lifetimes, days, "compiler")
    assert kernel == pytest.approx(aalen_johansen(lifetimes, days, "kernel"), abs=1e-6)
    assert compiler == pytest.approx(aalen_johansen(lifetimes, days, "compiler"), abs=1e-6)
    assert kernel + compiler == pytest.approx(kaplan_meier(lifetimes, days), abs=1e-6)


def test_days_between_which_it_ended_share_the_mass_by_their_likelihood():
    """By hand: no published example is needed where two places hold all mass."""
    lifetimes = [ended(0, 1, "kernel"), ended(1, 3, "kernel"), ended(1, 3, "kernel"), Lifetime(2)]
    # Mass p in (0, 1] and 1 - p in (2, 3]: the likelihood p (1 - p)^3 is greatest at p = 1/4.
    assert share(lifetimes, 1, "kernel") == pytest.approx(0.25)
    assert share(lifetimes, 2, "kernel") == pytest.approx(0.25)
    assert share(lifetimes, 2.5, "kernel") == pytest.approx(0.625)  # evenly spread between the days
    assert share(lifetimes, 3, "kernel") == pytest.approx(1.0)


def test_one_of_several_causes_is_shared_out_by_what_is_known_of_the_others():
    known = [*[ended(2, 2, "kernel")] * 3, ended(2, 2, "compiler")]
    lifetimes = [*known, *[ended(2, 2, "kernel", "compiler")] * 4]
    assert share(lifetimes, 2, "kernel") == pytest.approx(0.75, abs=1e-6)
    assert share(lifetimes, 2, "compiler") == pytest.approx(0.25, abs=1e-6)


def test_what_replaces_an_artifact_leaves_the_others_their_risk():
    """Censoring a replaced artifact instead would say that all of them end by their kernel."""
    lifetimes = [ended(1, 1, "tuned anew"), ended(2, 2, "kernel")]
    assert share(lifetimes, 5 - 3, "kernel") == pytest.approx(0.5)


interval = st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["kernel", "compiler", ""]))


def lifetime(values) -> Lifetime:
    first, more, end = values
    return ended(first, first + more, end) if end else Lifetime(first)


@settings(max_examples=60)
@given(st.lists(interval, min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_no_other_shares_make_what_was_seen_likelier(values, seed):
    lifetimes = [lifetime(each) for each in values]
    estimate = incidence_of(lifetimes, range(len(lifetimes)))
    if estimate is None:
        return
    may_hold = np.array([[mass.may_hold(each) for mass in estimate.masses] for each in lifetimes], dtype=float)
    assert estimate.shares.sum() == pytest.approx(1)
    best = np.log(may_hold @ estimate.shares).sum()
    others = np.random.default_rng(seed).dirichlet(np.ones(len(estimate.masses)), size=50)
    near = 0.98 * estimate.shares + 0.02 * others
    with np.errstate(divide="ignore"):
        assert (np.log(may_hold @ np.vstack([others, near]).T).sum(axis=0) <= best + 1e-6).all()


@given(st.lists(interval, min_size=1, max_size=12))
def test_curves_rise_and_hold_no_more_than_all(values):
    estimate = incidence_of([lifetime(each) for each in values], range(len(values)))
    for curve in estimate.curves() if estimate else ():
        shares = [share for _, share in curve.points]
        assert shares == sorted(shares)
        assert shares[0] >= -1e-9 and shares[-1] <= 1 + 1e-9


def test_nothing_followed_is_no_estimate():
    assert incidence_of([Lifetime(0.0), Lifetime(0.0)], "ab") is None
    assert incidence_of([], "") is None


def test_the_interval_holds_the_share_and_asks_for_ten_artifacts():
    lifetimes = random_lifetimes(0)
    few = incidence_of(lifetimes, [number % 9 for number in range(60)]).by(7, ["kernel"])
    many = incidence_of(lifetimes, [number % 20 for number in range(60)]).by(7, ["kernel"])
    assert (few.low, few.high) == (None, None)
    assert 0 < many.low < many.value < many.high < 1
    assert few.value == many.value


def test_a_bootstrap_over_artifacts_covers_the_truth():
    """40 artifacts of 3 proofs each that are alike, 100 times: a coverage of 95 % misses fewer than 14 times (1e-4)."""
    missed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        hazard = rng.choice([0.02, 0.2], size=40)  # each artifact's own: its proofs end alike
        days = rng.exponential(1 / np.repeat(hazard, 3))
        lifetimes = [ended(day, day, "kernel") if day < 30 else Lifetime(30.0) for day in days]
        got = incidence_of(lifetimes, np.repeat(range(40), 3).tolist()).by(10, ["kernel"])
        truth = np.mean([1 - math.exp(-0.2), 1 - math.exp(-2)])
        missed += not got.low <= truth <= got.high
    assert missed <= 13


@pytest.mark.parametrize(
    "values", [(-1.0, 2.0, {"kernel"}), (3.0, 2.0, {"kernel"}), (1.0, 2.0, ()), (1.0, math.inf, {"kernel"})]
)
def test_what_is_no_lifetime_is_refused(values):
    with pytest.raises(ValueError, match="is no lifetime"):
        Lifetime(values[0], values[1], frozenset(values[2]))
