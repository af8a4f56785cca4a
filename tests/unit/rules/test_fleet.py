"""The statistics of several devices, against scipy, cases by hand, and small simulations of a known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats

from pytest_compileiq.rules import fleet, stats

RANDOM = np.random.default_rng(15)


def drawn(count: int, *, between=0.0, within=0.01, processes=4, mean=0.02, random=RANDOM) -> dict[str, np.ndarray]:
    effects = random.normal(mean, between, count)
    return {f"d{place}": effect + random.normal(0, within, processes) for place, effect in enumerate(effects)}


# ── named devices ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_mean_of_two_devices_is_tested_as_welch_tests_one_against_the_others_negative():
    one, other = np.array([0.02, 0.03, 0.01, 0.05]), np.array([0.04, 0.01, 0.02, 0.03, 0.025])
    theirs = scipy.stats.ttest_ind(one - 0.01, 0.01 - other, equal_var=False, alternative="greater")
    assert stats.stratified_p([one, other], 0.01) == pytest.approx(theirs.pvalue)
    half = scipy.stats.ttest_ind(one, -other, equal_var=False).confidence_interval(0.95)
    mine = stats.stratified_interval([one, other], 0.025)
    assert (mine.low, mine.high) == pytest.approx((half.low / 2, half.high / 2))
    assert mine.estimate == pytest.approx((one.mean() + other.mean()) / 2)


def test_the_mean_of_three_devices_by_hand():
    # Means 2, 4, 9; each device varies by a sample variance of 2/3 over 4 processes: its mean's error is 1/6 squared.
    groups = [np.array([1.0, 2, 2, 3]), np.array([3.0, 4, 4, 5]), np.array([8.0, 9, 9, 10])]
    mine = stats.stratified_interval(groups, 0.025)
    reach = scipy.stats.t.ppf(0.975, 9) * math.sqrt(3 / 6) / 3  # 3 degrees of freedom a device
    assert (mine.estimate, mine.low, mine.high) == pytest.approx((5, 5 - reach, 5 + reach))
    p_value = scipy.stats.t.sf((5 - 4.5) / (math.sqrt(3 / 6) / 3), 9)
    assert stats.stratified_p(groups, 4.5) == pytest.approx(p_value)


def test_a_device_counts_once_however_many_processes_it_gave():
    many, few = np.tile([0.0, 0.002], 50), np.array([0.03, 0.032, 0.03, 0.032])
    assert stats.stratified_interval([many, few], 0.025).estimate == pytest.approx(0.016)


def test_of_the_noise_of_one_device_the_others_take_no_share():
    quiet, noisy = np.array([0.02, 0.0201, 0.02, 0.0199]), np.array([0.0, 0.04, -0.03, 0.07])
    degrees = 3.0  # all of the error is the noisy one's
    p_value = scipy.stats.t.sf(0.02 / (math.sqrt(noisy.var(ddof=1) / 4) / 2), degrees)
    assert stats.stratified_p([quiet, noisy], 0.0) == pytest.approx(p_value, rel=1e-3)


@pytest.mark.parametrize(("floor", "p_value"), [(0.0, 1e-12), (0.02, 1.0), (0.03, 1.0)])
def test_devices_without_noise_are_sure(floor, p_value):
    groups = [np.full(4, 0.01), np.full(4, 0.03)]
    assert stats.stratified_p(groups, floor) == p_value
    assert stats.stratified_interval(groups, 0.025) == stats.Interval(0.02, 0.02, 0.02)


def test_a_device_with_one_process_gives_no_interval():
    groups = [np.array([0.02]), np.array([0.02, 0.03])]
    assert stats.stratified_interval(groups, 0.025) == stats.Interval(0.0225, -math.inf, math.inf)
    assert stats.stratified_p(groups, 0.0) == 0.5


# ── which test belongs to how many ───────────────────────────────────────────────────────────────────────────────


def test_one_device_is_judged_by_its_processes():
    differences = RANDOM.normal(0.02, 0.01, 8)
    assert fleet.gain_interval({"": differences}, 0.025) == stats.paired_interval(differences, 0.025)
    assert fleet.p_above({"": differences}, 0.01) == stats.paired_p(differences, 0.01)
    assert fleet.surely_below({"": differences - 1}, -0.01) == fleet.outliers({"": differences}) == ()
    assert fleet.on_devices({"": differences}, math.exp) == () and fleet.fleet_of({"": differences}, math.exp) is None


@pytest.mark.parametrize("count", [2, 3, 4])
def test_up_to_four_devices_are_those_very_ones(count):
    devices = drawn(count)
    groups = list(devices.values())
    assert not fleet.is_fleet(devices) and fleet.fleet_of(devices, math.exp) is None
    assert fleet.gain_interval(devices, 0.025) == stats.stratified_interval(groups, 0.025)
    assert fleet.p_above(devices, 0.01) == stats.stratified_p(groups, 0.01)


def test_from_five_on_students_t_is_over_the_devices_means():
    devices = drawn(5, between=0.01)
    means = [own.mean() for own in devices.values()]
    theirs = scipy.stats.ttest_1samp(means, 0.01, alternative="greater")
    assert fleet.is_fleet(devices) and fleet.p_above(devices, 0.01) == pytest.approx(theirs.pvalue)
    mine = fleet.gain_interval(devices, 0.025)
    assert (mine.low, mine.high) == pytest.approx(
        scipy.stats.t.interval(0.95, 4, np.mean(means), scipy.stats.sem(means))
    )
    worse = {unit: -own for unit, own in devices.items()}
    assert fleet.p_above(worse, -0.01) == pytest.approx(1 - theirs.pvalue)


def test_processes_add_no_devices():
    few = drawn(5, between=0.01, within=1e-9)
    many = {unit: np.repeat(own, 8) for unit, own in few.items()}
    assert fleet.p_above(many, 0.005) == pytest.approx(fleet.p_above(few, 0.005))


# ── one of them ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_device_is_surely_worse_by_its_own_upper_95_percent_bound():
    own = np.array([-0.03, -0.02, -0.025, -0.035])
    bound = own.mean() + scipy.stats.t.ppf(0.95, 3) * scipy.stats.sem(own)
    devices = {"a": own, "b": np.full(4, 0.05)}
    assert fleet.surely_below(devices, bound + 1e-6) == ("a",)
    assert fleet.surely_below(devices, bound - 1e-6) == ()


def test_what_is_just_at_a_level_counts(monkeypatch):
    own, floor = np.array([-0.03, -0.02, -0.025, -0.035]), -0.02
    monkeypatch.setattr(fleet, "WORSE_TAIL", stats.paired_p(-own, -floor))
    assert fleet.surely_below({"a": own, "b": own + 1}, floor) == ("a",)
    noise = np.array([-0.1, 0.1, 0.0, 0.0])
    three = {"a": 0 + noise, "b": 1 + noise, "c": 2.25 + noise}
    monkeypatch.setattr(fleet, "OUTLIER_LEVEL", 0.0)
    assert fleet.outliers(three) == ()
    distance, error = 2.25 - 0.5, math.sqrt(three["a"].mean() * 0 + 0.5 * 3 / 2)
    monkeypatch.setattr(fleet, "OUTLIER_LEVEL", 3 * (2 * float(scipy.special.stdtr(1, -distance / error))))
    assert fleet.outliers(three) == ("c",)


def test_what_each_device_showed_is_its_own_interval():
    devices = {"a": np.array([0.01, 0.02, 0.03, 0.02]), "b": np.array([0.0, 0.0, 0.01, 0.01, 0.02])}
    first, second = fleet.on_devices(devices, math.exp)
    low, high = scipy.stats.t.interval(0.95, 3, 0.02, scipy.stats.sem(devices["a"]))
    assert (first.unit, first.processes, second.unit, second.processes) == ("a", 4, "b", 5)
    assert (first.speedup, first.speedup_low, first.speedup_high) == pytest.approx(
        (math.exp(0.02), math.exp(low), math.exp(high))
    )
    assert not first.outlier


def test_an_outlier_is_held_against_the_mean_and_spread_of_all_others():
    # Means 1, 2, 3 and d; processes of all vary alike, so that the textbook's externally studentised residual is left.
    noise = np.array([-0.1, 0.1, 0.0, 0.0])
    others = {"a": 1 + noise, "b": 2 + noise, "c": 3 + noise}
    # |d - 2| / √(1 · 4/3) on 2 degrees of freedom, two-sided, times 4, is at 5 %: t = 8.860.
    least = 2 + scipy.stats.t.ppf(1 - 0.05 / 8, 2) * math.sqrt(4 / 3)
    for sign in (1, -1):
        at = {**others, "d": 2 + sign * (least + 1e-6 - 2) + noise}
        inside = {**others, "d": 2 + sign * (least - 1e-6 - 2) + noise}
        assert fleet.outliers(at) == ("d",) and fleet.outliers(inside) == ()
        assert [device.unit for device in fleet.on_devices(at, math.exp) if device.outlier] == ["d"]


def test_of_three_devices_the_third_is_held_against_two():
    noise = np.array([-0.1, 0.1, 0.0, 0.0])
    least = 0.5 + scipy.stats.t.ppf(1 - 0.05 / 6, 1) * math.sqrt(0.5 * 3 / 2)
    pair = {"a": 0 + noise, "b": 1 + noise}
    assert fleet.outliers({**pair, "c": least + 1e-6 + noise}) == ("c",)
    assert fleet.outliers({**pair, "c": least - 1e-6 + noise}) == ()


def test_the_noise_of_a_device_beyond_the_others_counts_for_it():
    quiet = np.array([-0.1, 0.1, 0.0, 0.0])
    others = {"a": 1 + quiet, "b": 2 + quiet, "c": 3 + quiet}
    noisy = 14.0 + np.array([-12.0, 12.0, 0.0, 0.0])  # of variance 96, of its mean 24
    excess = 24 - 0.02 / 3 / 4
    p_value = 2 * scipy.stats.t.sf(12 / math.sqrt(4 / 3 + excess), 2)
    assert p_value * 4 > 0.05 and fleet.outliers({**others, "d": noisy}) == ()
    assert fleet.outliers({**others, "d": 14.0 + quiet}) == ("d",)
    loud = 100 * quiet  # the others' noise is in their spread already, and is no excess of this one
    assert fleet.outliers({"a": 1 + loud, "b": 2 + loud, "c": 3 + loud, "d": 14.0 + quiet}) == ("d",)


def test_of_two_devices_neither_is_the_odd_one_and_of_three_equal_ones_none():
    assert fleet.outliers({"a": np.full(4, 0.0), "b": np.full(4, 9.0)}) == ()
    assert fleet.outliers(dict.fromkeys("abc", np.full(4, 0.02))) == ()
    assert fleet.outliers({**dict.fromkeys("abc", np.full(4, 0.02)), "d": np.full(4, 0.03)}) == ("d",)


# ── another one ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_another_device_is_predicted_by_hand():
    # Means 1 to 5: mean 3, variance 2.5; Student's quantile on 4 degrees of freedom is 2.776.
    devices = {f"d{mean}": np.array([mean - 0.5, mean + 0.5, mean, mean]) for mean in range(1, 6)}
    reach = 2.7764451 * math.sqrt(2.5) * math.sqrt(1 + 1 / 5)
    predicted = fleet.another(devices)
    assert (predicted.estimate, predicted.low, predicted.high) == pytest.approx((3, 3 - reach, 3 + reach))
    # Processes add 1/6 / 4 to the variance of each mean, so that 2.5 less that is between the devices.
    assert fleet.between_sd(devices) == pytest.approx(math.sqrt(2.5 - 1 / 24))
    told = fleet.fleet_of(devices, lambda step: 1 + step)
    assert (told.between_sd, told.another_low, told.another_high) == pytest.approx(
        (math.sqrt(2.5 - 1 / 24), 4 - reach, 4 + reach)
    )


def test_devices_that_differ_less_than_their_processes_do_not_differ():
    devices = {unit: np.array([-1.0, 1.0, -1.0, 1.0]) + shift for unit, shift in zip("abcde", range(5), strict=True)}
    close = {unit: own - 0.999 * own.mean() for unit, own in devices.items()}
    assert fleet.between_sd(close) == 0.0


def test_what_another_device_shows_lies_where_it_was_predicted():
    random = np.random.default_rng(3)
    for between in (0.0, 0.005, 0.02):
        held = 0
        for _ in range(400):
            *known, new = drawn(6, between=between, random=random).values()
            predicted = fleet.another(dict(enumerate(known)))
            held += predicted.low <= new.mean() <= predicted.high
        low, high = scipy.stats.binomtest(held, 400).proportion_ci(0.999)
        assert low < 0.95 < high, (between, held)


def test_outliers_are_named_falsely_no_more_often_than_they_may_be_even_beside_noise():
    random = np.random.default_rng(4)
    for count in (3, 5, 8):
        false = noisy = 0
        for _ in range(400):
            false += bool(fleet.outliers(drawn(count, between=0.005, random=random)))
            strange = drawn(1, within=0.05, random=random)["d0"]
            noisy += bool(fleet.outliers({**drawn(count, random=random), "d0": strange}))
        assert max(false, noisy) <= scipy.stats.binom.ppf(0.999, 400, 0.05), (count, false, noisy)


# ── more of it ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_deviation_between_processes_of_one_device_is_pooled_over_devices():
    assert fleet.within_sd({"a": np.array([1.0, 3.0]), "b": np.array([10.0, 10, 14, 14])}) == pytest.approx(
        math.sqrt((2 + 16) / 4)
    )
    own = RANDOM.normal(0, 1, 8)
    assert fleet.within_sd({"": own}) == own.std(ddof=1)


def test_more_processes_decide_about_named_devices_and_more_devices_about_a_fleet():
    named = {unit: np.array([0.0, 0.02, 0.01, 0.03]) for unit in "ab"}
    needed = stats.processes_for(0.015, 0.005, fleet.within_sd(named), 0.003)
    assert fleet.what_would_decide(named, 0.005, 0.003) == f"{needed} processes"
    several = {unit: np.full(4, 0.01 * place) for place, unit in enumerate("abcde")}
    needed = stats.processes_for(0.02, 0.005, np.std([0, 0.01, 0.02, 0.03, 0.04], ddof=1), 0.003)
    assert fleet.what_would_decide(several, 0.005, 0.003) == f"{needed} devices"
    assert fleet.what_would_decide(several, 0.005, 0.4) == "6 devices"
    assert fleet.what_would_decide(named, 0.005, 0.4) == "9 processes"
    assert fleet.what_would_decide(named, 0.015, 0.003) is None


def test_several_devices_count_only_with_names_and_four_processes_each():
    four, three = np.zeros(4), np.zeros(3)
    assert fleet.why_too_few({"a": four, "b": four}) is None
    assert "3 processes on b gave samples" in fleet.why_too_few({"a": four, "b": three})
    assert "is not known" in fleet.why_too_few({"": four, "b": four})
    assert fleet.why_too_few({"": three}) is None
