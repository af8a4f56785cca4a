"""What a claim over several devices says of each, of another one, and of itself before."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pytest_compileiq.claim import Claim
from pytest_compileiq.report.change import facts
from pytest_compileiq.report.claims import claim_text
from pytest_compileiq.rules.claims import Expected, as_measured, devices_lost, expected_of, scope_of
from pytest_compileiq.rules.diff import compare
from pytest_compileiq.rules.gate import undecided
from pytest_compileiq.rules.words import scope_text, unit_text
from tests.unit.artifacts import GPUS, make_artifact, measured_claim, over_devices
from tests.unit.rules.test_diff import side

ALONE = measured_claim("H200")
TWO, THREE, SIX = (over_devices(ALONE, *GPUS[:count]) for count in (2, 3, 6))


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("unit", "shown"),
    [
        (GPUS[1], "GPU-1a2b3c4d"),
        ("MIG-0123abcd-1-2", "MIG-0123abcd"),
        ("CPU-" + "0123456789abcdef" * 2, "CPU-01234567"),
        ("node-7.rack2", "node-7.rack2"),
        ("GPU-1a2b3c4d", "GPU-1a2b3c4d"),
        ("TPU-1a2b3c4d-0000", "TPU-1a2b3c4d-0000"),
    ],
)
def test_a_uuid_is_shortened_for_people_and_a_name_is_not(unit, shown):
    assert unit_text(unit) == shown


def test_a_claim_says_which_devices_it_speaks_for():
    assert scope_of(ALONE) == "" and "device" not in claim_text(ALONE)
    assert scope_of(THREE) == "on these 3 devices"
    assert claim_text(THREE) == "runtime 1.100x faster, 1.050 to 1.200, on these 3 devices"
    assert scope_of(SIX) == "for the fleet (6 devices; another one: 1.020 to 1.090)"
    assert scope_text(5, (0.99, 1.05), None, ("faster", "slower")).endswith("1.010x slower to 1.050x faster)")
    assert scope_text(5, (1.02, 1.05), 10.0).endswith("another one: 0.2 to 0.5)")


# ── on another day ───────────────────────────────────────────────────────────────────────────────────────────────


def test_one_of_its_devices_is_held_to_what_it_showed_itself():
    claim = over_devices(ALONE, *GPUS[:3], speedups=(1.3, 1.2, 1.0))
    assert expected_of(claim, {GPUS[2]}) == Expected(
        1.0, 0.98, 1.02, 0.98, "claimed on 3 devices, this is GPU-2a2b3c4d of them"
    )


def test_another_device_is_held_to_the_claim_as_a_whole_or_to_what_its_fleet_predicts():
    assert expected_of(ALONE, {GPUS[0]}) == Expected(1.1, 1.05, 1.2)
    assert expected_of(THREE, {"GPU-9"}) == Expected(1.1, 1.05, 1.2, None, "claimed on 3 devices; this is another")
    assert expected_of(SIX, {"GPU-9"}) == Expected(
        1.1, 1.02, 1.09, 1.02, "claimed on 6 devices; this is another, for which 1.020 to 1.090 was predicted"
    )
    assert expected_of(THREE, {""}).of_device == "claimed on 3 devices; whether this is one of them is not known"
    assert expected_of(THREE, set(GPUS[:2])) == expected_of(THREE, ()) == Expected(1.1, 1.05, 1.2)


def test_what_is_measured_now_speaks_for_this_device_alone():
    now = as_measured(SIX, undecided(""))
    assert (now.devices, now.fleet, now.speedup) == ((), None, 1.0)


# ── before and after ─────────────────────────────────────────────────────────────────────────────────────────────

STEPS = {
    "the same devices": (THREE, THREE, ""),
    "one more": (TWO, THREE, ""),
    "several for one": (ALONE, THREE, ""),
    "a fleet for a few": (THREE, SIX, ""),
    "other devices of a fleet": (SIX, over_devices(ALONE, *GPUS[2:8]), ""),
    "one less": (THREE, TWO, "no longer on GPU-2a2b3c4d"),
    "another instead": (TWO, over_devices(ALONE, GPUS[0], GPUS[5]), "no longer on GPU-1a2b3c4d"),
    "one for several": (THREE, ALONE, "was on these 3 devices, now on one"),
    "a few for a fleet": (SIX, THREE, "was for a fleet, now only on these 3 devices"),
    "one for a fleet": (SIX, ALONE, "was for a fleet, now only on one device"),
}


@pytest.mark.parametrize(("old", "new", "lost"), STEPS.values(), ids=STEPS)
def test_a_claim_that_speaks_for_fewer_devices_got_worse(old, new, lost):
    assert devices_lost(old, new) == lost
    change = compare(side(claims=(old,)), side(claims=(new,)))
    assert [step.worse for step in change.claims] == [lost]
    loud = [line for fact in facts(change) if fact.loud for line in fact.lines]
    assert [line for line in loud if lost in line] == (loud if lost else [])


def test_a_change_names_the_devices_that_came_and_went():
    def devices(old: Claim, new: Claim) -> list[str]:
        change = compare(side(claims=(old,)), side(claims=(new,)))
        return [line for fact in facts(change) if fact.label == "devices" for line in fact.lines]

    assert devices(TWO, over_devices(ALONE, GPUS[0], GPUS[5])) == [
        "now also on GPU-5a2b3c4d",
        "no longer on GPU-1a2b3c4d",
    ]
    assert devices(THREE, THREE) == []


# ── on disk ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_metadata_with_devices_is_strict():
    def refused(match: str, **changes) -> None:
        with pytest.raises(ValidationError, match=match):
            Claim(**{**dict(SIX), **changes})

    first, *_ = SIX.devices
    refused("it names one", devices=(first,), fleet=None)
    refused("sorted by name", devices=tuple(reversed(SIX.devices)))
    refused("sorted by name", devices=(first,) * 6)
    refused("from 5 of them on", fleet=None)
    refused("from 5 of them on", devices=SIX.devices[:4])
    refused("from 5 of them on", devices=())
    refused("not above 0", devices=(first.model_copy(update={"speedup_low": 0.0}), *SIX.devices[1:]))
    refused("not above 0", fleet=SIX.fleet.model_copy(update={"another_low": -1.0}))
    Claim(
        **{**dict(SIX), "objective": "score", "scale": 1.0, "fleet": SIX.fleet.model_copy(update={"another_low": -1.0})}
    )
    too_many = tuple(first.model_copy(update={"unit": f"GPU-{number:03}"}) for number in range(61))
    refused("at most 60 items", devices=too_many)
    for name, value in (
        ("unit", "a b"),
        ("unit", ""),
        ("processes", 3),
        ("processes", 1001),
        ("speedup", float("nan")),
    ):
        with pytest.raises(ValidationError):
            type(first)(**{**dict(first), name: value})
    for name, value in (("between_sd", -0.1), ("another_high", float("inf"))):
        with pytest.raises(ValidationError):
            type(SIX.fleet)(**{**dict(SIX.fleet), name: value})
    exact = make_artifact().claims[0]
    with pytest.raises(ValidationError, match="'exact' names no devices"):
        Claim(**{**dict(exact), "devices": THREE.devices})
