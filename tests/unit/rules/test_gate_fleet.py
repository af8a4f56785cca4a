"""The gate over several devices: simulated, where the truth is known, and what it refuses of a committed claim."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from pytest_compileiq.claim import Claim, DecisionRecord
from pytest_compileiq.errors import ClaimMismatch, StoreError
from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.claims import Expected
from pytest_compileiq.rules.comparison import Analysis
from pytest_compileiq.rules.evidence import Evidence, gather, summarise
from pytest_compileiq.rules.gate import (
    LOOKS,
    judge_gain,
    judge_non_inferior,
    judge_replay,
    looks_of,
    lost_among,
    why_lost,
)
from pytest_compileiq.rules.noise import advice
from pytest_compileiq.rules.recompute import recompute
from pytest_compileiq.samples import SampleRow

DEFAULT = Thresholds()
LEVEL = DEFAULT.alpha / len(LOOKS)


def evidence(
    *gains: float, processes=4, sd=0.005, between=0.003, wider=1.0, speeds=None, seed=0, scale=None
) -> Evidence:
    """Devices with these log gains, ``processes`` of each in turn; ``speeds`` are their logs."""
    random = np.random.default_rng(seed)
    device = np.arange(processes * len(gains)) % len(gains)
    common = random.normal(0, 0.002, (device.size, 1, 1)) + np.array(speeds or [0.0] * len(gains))[device, None, None]
    shift = np.array(gains)[device, None, None] + random.normal(0, between, (device.size, 1, 1))
    baseline = common + sd * random.normal(0, 1, (device.size, 4, 2))
    tuned = common - shift + wider * sd * random.normal(0, 1, (device.size, 4, 2))
    units = tuple(f"GPU-{number}" for number in device)
    if scale is not None:
        return Evidence(baseline, tuned, analysis=Analysis(scale), units=units)
    return Evidence(np.exp(baseline), np.exp(tuned), units=units)


def gain_of(one: Evidence, **thresholds):
    return judge_gain(one, replace(DEFAULT, **thresholds), level=LEVEL, seed=1)


# ── what is proven ───────────────────────────────────────────────────────────────────────────────────────────────


def test_each_look_takes_half_as_many_processes_of_each_of_several_devices():
    assert looks_of(1) == LOOKS == (8, 16, 32)
    assert looks_of(2) == (8, 16, 32) and looks_of(3) == (12, 24, 48) and looks_of(5) == (20, 40, 80)


def test_a_gain_on_three_devices_is_one_on_these_three():
    decision = gain_of(evidence(0.03, 0.04, 0.05))
    assert decision.verdict is Verdict.PROVEN and "on these 3 devices" in decision.reason
    assert [device.unit for device in decision.devices] == ["GPU-0", "GPU-1", "GPU-2"]
    assert [math.log(device.speedup) for device in decision.devices] == pytest.approx([0.03, 0.04, 0.05], abs=0.004)
    assert math.log(decision.speedup) == pytest.approx(0.04, abs=0.003)
    assert decision.fleet is None and decision.p_value <= LEVEL


def test_a_gain_on_five_devices_is_one_of_the_fleet_and_predicts_another():
    decision = gain_of(evidence(0.03, 0.04, 0.05, 0.045, 0.035))
    assert decision.verdict is Verdict.PROVEN and "for the fleet (5 devices; another one: " in decision.reason
    assert decision.fleet.another_low < 1.03 < 1.05 < decision.fleet.another_high
    assert decision.fleet.between_sd == pytest.approx(0.008, abs=0.003)


def test_the_gain_of_devices_that_differ_is_sure_of_these_and_not_of_a_fleet():
    gains = (0.005, 0.01, 0.05, 0.06)
    assert gain_of(evidence(*gains)).verdict is Verdict.PROVEN
    of_five = gain_of(evidence(*gains, 0.0))
    assert of_five.verdict is Verdict.INCONCLUSIVE and "devices would prove it" in of_five.reason


def test_one_device_that_is_surely_worse_refuses_what_all_others_gain_and_is_named():
    good = (0.05,) * 3
    assert gain_of(evidence(*good, -0.002)).verdict is Verdict.PROVEN
    refused = gain_of(evidence(*good, -0.03))
    assert refused.verdict is Verdict.REFUTED
    assert refused.reason.endswith("surely more than 1.0% worse on GPU-3")
    assert gain_of(evidence(*good, -0.03), max_regression=0.1).verdict is Verdict.PROVEN
    of_fleet = gain_of(evidence(*good, 0.05, 0.05, 0.05, 0.05, -0.03))
    assert of_fleet.verdict is Verdict.REFUTED and of_fleet.reason.endswith("worse on GPU-7")


def test_an_outlier_is_named_and_kept():
    decision = gain_of(evidence(0.03, 0.031, 0.029, 0.03, 0.2))
    assert [device.unit for device in decision.devices if device.outlier] == ["GPU-4"]
    assert "; an outlier among them: GPU-4, 1.22" in decision.reason and decision.reason.count("outlier") == 1
    assert math.log(decision.speedup) == pytest.approx(0.064, abs=0.003)


def test_devices_of_different_speed_hide_no_wider_spread_and_feign_none():
    speeds = [0.0, 0.4, 0.8]
    assert gain_of(evidence(0.05, 0.05, 0.05, speeds=speeds)).verdict is Verdict.PROVEN
    wide = gain_of(evidence(0.02, 0.02, 0.02, speeds=speeds, wider=3.0, processes=8))
    assert wide.verdict is Verdict.REFUTED and "the spread is wider" in wide.reason
    interacting = gain_of(evidence(0.03, 0.09, 0.15, sd=0.01, between=0.0, processes=8))
    assert interacting.verdict is Verdict.PROVEN


def test_a_wider_spread_of_a_difference_is_refused_where_it_reaches_worse_on_any_device():
    far = evidence(0.5, 0.5, sd=0.01, wider=4.0, scale=1.0, processes=8, between=0.0)
    assert gain_of(far).verdict is Verdict.PROVEN
    # On the second device the tail of the tuned arm is worse; the first, where all is lower, does not outweigh it.
    near = evidence(0.5, 0.02, sd=0.01, wider=4.0, scale=1.0, processes=8, between=0.0, speeds=[0.0, -1.0])
    decision = gain_of(near)
    assert decision.verdict is Verdict.REFUTED and "the spread is wider" in decision.reason


def test_what_varies_and_is_nowhere_worse_than_a_constant_is_no_wider_spread():
    random = np.random.default_rng(6)
    constant = np.ones((8, 4, 2))
    tuned = np.where(random.random(constant.shape) < 0.5, 1.0, 0.5)
    for units in ((), ("GPU-0", "GPU-1") * 4):
        decision = gain_of(Evidence(constant, tuned, analysis=Analysis(1.0), units=units))
        assert decision.verdict is Verdict.PROVEN, decision.reason


def test_arms_are_brought_to_one_level_by_what_compares_them():
    one = evidence(0.05, 0.1, 0.2, speeds=[0.0, 0.4, 0.8])
    of_ratio = [(values, arm, arm / values) for values, arm in zip((one.baseline, one.tuned), one.costs, strict=True)]
    scaled = evidence(0.05, 0.1, 0.2, speeds=[0.0, 0.4, 0.8], scale=2.0)
    of_scale = [(values, arm, arm - values) for values, arm in zip(scaled.compared, scaled.costs, strict=True)]
    for values, arm, moved in (*of_ratio, *of_scale):
        medians = [np.median(arm[one.on(unit)]) for unit in one.devices]
        assert medians == pytest.approx([medians[0]] * 3)
        for unit in one.devices:
            assert np.ptp(moved[one.on(unit)]) < 1e-9  # the same for every value of a device
        assert np.ptp(moved) > 0.1 and values.shape == arm.shape
    assert np.median(of_scale[0][1]) == pytest.approx(1.0)
    alone = replace(one, units=())
    assert alone.costs[0] is alone.baseline and alone.costs[1] is alone.tuned


@pytest.mark.parametrize("middle", [-1.2, 0.0, 1.2])
def test_a_spread_of_a_difference_below_half_a_per_cent_of_its_scale_is_none(middle):
    random = np.random.default_rng(5)
    noise = random.normal(0, 1, (2, 8, 4, 2))

    def reason(step: float) -> str:
        return gain_of(Evidence(middle + step * noise[0], middle + 4 * step * noise[1], analysis=Analysis(1.2))).reason

    assert "the spread is wider" in reason(0.1) and "the spread is wider" not in reason(1e-4)


@pytest.mark.parametrize("count", [2, 5])
def test_not_worse_on_several_devices_is_proven_and_refused_for_one_that_is(count):
    level = judge_non_inferior(evidence(*(0.0,) * count, processes=8), DEFAULT, level=LEVEL)
    assert level.verdict is Verdict.PROVEN
    paid = judge_non_inferior(evidence(*(0.05,) * (count - 1), -0.03), DEFAULT, level=LEVEL)
    assert paid.verdict is Verdict.REFUTED and f"worse on GPU-{count - 1}" in paid.reason
    worse = judge_non_inferior(evidence(*(-0.03,) * count, processes=8), DEFAULT, level=LEVEL)
    assert worse.verdict is Verdict.REFUTED


def test_a_device_with_too_few_processes_or_no_name_decides_nothing():
    whole = evidence(0.05, 0.05)
    kept = [0, 1, 2, 3, 4, 5, 6]  # three of the second
    few = Evidence(whole.baseline[kept], whole.tuned[kept], units=tuple(whole.units[place] for place in kept))
    assert gain_of(few).verdict is Verdict.INCONCLUSIVE and "3 processes on GPU-1" in gain_of(few).reason
    assert gain_of(few).p_value == 1.0
    unnamed = replace(whole, units=tuple(unit.replace("GPU-1", "") for unit in whole.units))
    assert "set ACF_MACHINE" in why_lost(unnamed)
    dropped = whole.baseline.copy()
    dropped[1] = np.nan  # every quad of one process of the second device
    lost = Evidence(dropped, whole.tuned, units=whole.units)
    assert "3 processes on GPU-1" in why_lost(lost)


@pytest.mark.parametrize(
    ("processes", "lost"),
    [
        ({"a": 8, "b": 3}, ("b",)),
        ({"a": 7, "b": 3}, ()),
        ({"a": 4, "b": 4, "c": 3}, ("c",)),
        ({"a": 4, "b": 4}, ()),
        ({"a": 3, "b": 3}, ()),
        ({"a": 3}, ()),
        ({"": 8}, ()),
    ],
)
def test_a_lost_device_drops_out_where_enough_is_left(processes, lost):
    assert lost_among(processes) == lost


def test_advice_blames_no_process_for_what_devices_differ_in():
    said = advice(evidence(0.0, 0.1, 0.2, speeds=[0.0, 0.4, 0.8], between=0.0, processes=8))
    assert said == []
    assert "between processes" in advice(evidence(0.0, 0.1, 0.2, between=0.05, processes=8))[0]


def test_a_null_over_simulated_devices_is_hardly_ever_called_a_gain():
    for count, between_devices in ((2, 0.02), (3, 0.005), (5, 0.02), (8, 0.005)):
        random = np.random.default_rng([count, 7])
        false = true = 0
        for trial in range(60):
            effects = random.normal(0, between_devices, count)
            effects -= effects.mean() if count < 5 else 0.0
            for gain in (0.0, 0.1):
                whole = evidence(*(effects + gain), processes=8, between=0.007, seed=trial)
                thresholds = replace(DEFAULT, min_speedup=1.0)
                p_value = judge_gain(whole, thresholds, level=0.01, seed=trial).p_value
                false += gain == 0 and p_value <= 0.01
                true += gain > 0 and p_value <= 0.01
        assert false <= scipy.stats.binom.ppf(0.999, 60, 0.01) and true >= 57, (count, false, true)


# ── replay ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_the_claim_leaves_room_for_is_not_refuted():
    here = replace(evidence(0.01, processes=32), units=())

    def replayed(least):
        return judge_replay(here, Expected(1.06, 1.05, 1.07, least), last_look=True)

    assert replayed(None).verdict is Verdict.REFUTED
    assert replayed(1.03).verdict is Verdict.REFUTED  # the floor is 3 %, and so is what is left
    room = replayed(1.0)
    assert room.verdict is Verdict.INCONCLUSIVE and "as the claim leaves room for here (1.000x better)" in room.reason
    nothing = replace(evidence(-0.05, processes=32), units=())
    gone = judge_replay(nothing, Expected(1.06, 1.05, 1.07, 1.0), last_look=True)
    assert gone.verdict is Verdict.REFUTED
    ample = replayed(1.05)
    assert ample.verdict is Verdict.REFUTED and "floor 1.030x" in ample.reason


def test_a_replay_on_several_devices_is_of_their_mean():
    several = evidence(0.03, 0.05, processes=8)
    decision = judge_replay(several, Expected(1.04, 1.035, 1.045), last_look=True)
    assert decision.verdict is Verdict.PROVEN and "on these 2 devices" in decision.reason


# ── recomputing ──────────────────────────────────────────────────────────────────────────────────────────────────


def rows_of(one: Evidence) -> list[SampleRow]:
    return [
        SampleRow("H200", "w", "runtime", process, quad, slot, arm, 0,
                  float(getattr(one, arm)[process, quad, number]), unit=one.units[process])
        for process, quad in np.ndindex(one.baseline.shape[:2])
        for slot, (arm, number) in enumerate([("baseline", 0), ("tuned", 0), ("tuned", 1), ("baseline", 1)])
    ]  # fmt: skip


def claim_of(rows: list[SampleRow]) -> Claim:
    """The claim that a proof would write about ``rows``."""
    one = gather(rows, "minimize")
    decision = gain_of(one)
    names = ("speedup", "speedup_low", "speedup_high", "p_value", "cohens_d")
    test = DecisionRecord(
        alpha=0.01, level=LEVEL, look=1, processes=one.processes, flips=decision.flips, seed=1, finalists=1
    )
    return Claim(
        device="H200", workload="w", objective="runtime", kind="gain", samples="unnamed.csv", test=test,
        baseline=summarise(one.baseline), tuned=summarise(one.tuned), **{name: getattr(decision, name) for name in names},
        devices=decision.devices, fleet=decision.fleet,
    )  # fmt: skip


def refused(claim: Claim, rows: list[SampleRow], match: str) -> None:
    with pytest.raises(ClaimMismatch, match=match):
        recompute(claim, rows, thresholds=DEFAULT, direction="minimize")


OF_THREE, OF_FIVE = (0.04, 0.05, 0.06), (0.04, 0.041, 0.039, 0.04, 0.06)


@pytest.mark.parametrize("gains", [OF_THREE, OF_FIVE])
def test_a_claim_over_devices_is_recomputed_and_every_altered_number_is_named(gains):
    rows = rows_of(evidence(*gains))
    claim = claim_of(rows)
    recompute(claim, rows, thresholds=DEFAULT, direction="minimize")
    for name in ("processes", "speedup", "speedup_low", "speedup_high"):
        first, *others = claim.devices
        altered = first.model_copy(update={name: getattr(first, name) * 2})
        refused(claim.model_copy(update={"devices": (altered, *others)}), rows, f"devices.0.{name}")
    for name in ("between_sd", "another_low", "another_high") if claim.fleet else ():
        altered = claim.fleet.model_copy(update={name: getattr(claim.fleet, name) * 1.01})
        refused(claim.model_copy(update={"fleet": altered}), rows, f"fleet.{name}")
    turned = tuple(each.model_copy(update={"outlier": not each.outlier}) for each in claim.devices)
    refused(claim.model_copy(update={"devices": turned}), rows, "other outliers")


def test_a_device_cannot_be_left_out_of_a_claim_or_of_its_samples():
    rows = rows_of(evidence(*OF_THREE))
    claim = claim_of(rows)
    without = claim.model_copy(update={"devices": claim.devices[:2]})
    refused(without, rows, "about GPU-0, GPU-1, and its samples are of GPU-0, GPU-1, GPU-2")
    refused(claim.model_copy(update={"devices": ()}), rows, "it is about one device")
    kept = [row for row in rows if row.unit != "GPU-2"]
    refused(claim, kept, "and its samples are of GPU-0, GPU-1")
    refused(without, kept, "its test is of 12 processes, and it has 8")
    fewer = without.model_copy(update={"test": claim.test.model_copy(update={"processes": 8})})
    refused(fewer, kept, "speedup = ")


def test_three_devices_cannot_be_renamed_into_a_fleet():
    rows = rows_of(evidence(*OF_THREE, processes=8))
    claim = claim_of(rows)
    fleet = claim_of(rows_of(evidence(*OF_FIVE)))
    renamed = [replace(row, unit=f"GPU-{row.process % 6}") for row in rows]
    refused(claim, renamed, "its samples are of GPU-0, GPU-1, GPU-2, GPU-3")
    six = tuple(each.model_copy(update={"unit": f"GPU-{number}"}) for number, each in enumerate(claim.devices * 2))
    refused(claim.model_copy(update={"devices": six, "fleet": fleet.fleet}), renamed, "= ")
    too_many = [replace(row, unit=f"GPU-{row.process % 7}") for row in rows]
    seven = tuple(claim.devices[0].model_copy(update={"unit": f"GPU-{number}"}) for number in range(7))
    refused(claim.model_copy(update={"devices": seven, "fleet": fleet.fleet}), too_many, "do not prove it|= ")


def test_processes_cannot_be_moved_between_devices():
    rows = rows_of(evidence(*OF_THREE))
    claim = claim_of(rows)
    swapped = {0: "GPU-2", 2: "GPU-0"}
    moved = [replace(row, unit=swapped.get(row.process, row.unit)) for row in rows]
    refused(claim, moved, "= ")
    uneven = [replace(row, unit="GPU-0") if row.process == 2 else row for row in rows]
    refused(claim, uneven, "= ")
    with pytest.raises(StoreError, match="process 2 ran on two devices: GPU-1 and GPU-2"):
        gather([replace(row, unit="GPU-1") if (row.process, row.quad) == (2, 0) else row for row in rows], "minimize")


def test_a_claim_of_one_device_stands_whatever_it_is_called():
    rows = [replace(row, unit="GPU-7") for row in rows_of(evidence(0.05, processes=8))]
    claim = claim_of(rows)
    assert claim.devices == () and claim.units == ()
    recompute(claim, rows, thresholds=DEFAULT, direction="minimize")
    refused(claim, [replace(row, unit=f"GPU-{row.process % 2}") for row in rows], "it is about one device, and")
