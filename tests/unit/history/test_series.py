"""How long artifacts held, from versions in git and what runs found."""

from __future__ import annotations

import math

import pytest

from pytest_compileiq.history.records import Sighting
from pytest_compileiq.history.series import lifetimes_of
from pytest_compileiq.history.sources import ArtifactVersion
from pytest_compileiq.review.snapshots import Version
from pytest_compileiq.rules.staleness import proof_of
from tests.unit.artifacts import NEW_CODE, NEW_SOURCES, TARGET, make_artifact, measured_claim

DAY_S = 86_400
FIRST = make_artifact()
CHANGED = make_artifact(fingerprint=NEW_SOURCES, code=NEW_CODE)


def committed(day: float, artifact=FIRST, name: str = "k", target: str = TARGET) -> ArtifactVersion:
    return ArtifactVersion(
        Version(f"{name}/{target}.toml", "0" * 40 if artifact else None, "1" * 40, int(day * DAY_S)), artifact
    )


def seen(day: int, *ends: str, artifact=FIRST) -> Sighting:
    return Sighting(
        date=f"1970-01-{day + 1:02}T00:00:00Z", name="k", target=TARGET, proof=proof_of(artifact), ends=ends
    )


def lifetimes(history, sightings=()) -> list[tuple[float, float, frozenset[str]]]:
    return [(each.after_days, each.until_days, each.ends) for each in lifetimes_of(history, sightings)]


def ended(after: float, until: float, *ends: str) -> tuple[float, float, frozenset[str]]:
    return after, until, frozenset(ends)


def held(after: float) -> tuple[float, float, frozenset[str]]:
    return after, math.inf, frozenset()


def test_it_goes_on_until_a_run_last_found_it_to_hold():
    assert lifetimes([committed(0)]) == [held(0.0)]
    assert lifetimes([committed(2)], [seen(9), seen(5)]) == [held(7.0)]


def test_it_ended_between_two_runs():
    assert lifetimes([committed(0)], [seen(3), seen(5, "kernel"), seen(9)]) == [ended(3, 5, "kernel")]
    assert lifetimes([committed(0)], [seen(5, "kernel", "compiler")]) == [ended(0, 5, "kernel", "compiler")]


def test_git_tells_that_it_ended_before_what_took_its_place():
    history = [committed(0), committed(10, CHANGED)]
    assert lifetimes(history) == [ended(0, 10, "kernel"), held(0.0)]
    assert lifetimes(history, [seen(4), seen(20, artifact=CHANGED)]) == [ended(4, 10, "kernel"), held(10.0)]
    assert lifetimes(history, [seen(4), seen(6, "driver")])[0] == ended(4, 6, "driver")


def test_what_was_replaced_before_it_ended_was_so_on_that_day():
    anew = make_artifact(controls=FIRST.controls.model_copy(update={"sha256": "9" * 64}))
    assert lifetimes([committed(0), committed(10, anew)], [seen(4), seen(12, "kernel")])[0] == ended(
        10, 10, "tuned anew"
    )
    assert lifetimes([committed(0), committed(10, None)]) == [ended(10, 10, "withdrawn")]


def test_a_compiler_upgrade_takes_the_artifact_of_the_old_line_away():
    upgraded = make_artifact(target="x86-64-v3-gcc13")
    history = [committed(0), committed(10, upgraded, target="x86-64-v3-gcc13"), committed(11, None)]
    assert lifetimes(history) == [ended(0, 11, "compiler"), held(0.0)]
    other_machine = committed(10, make_artifact(target="x86-64-v4-gcc12"), target="x86-64-v4-gcc12")
    assert lifetimes([committed(0), other_machine, committed(11, None)])[0] == ended(11, 11, "withdrawn")


def test_a_claim_for_another_device_goes_on_with_it():
    one, two = (make_artifact(claims=tuple(map(measured_claim, devices))) for devices in ("a", "ab"))
    history = [committed(0, one), committed(5, two)]
    assert lifetimes(history, [seen(3, artifact=one), seen(8, artifact=two)]) == [held(8.0)]


@pytest.mark.parametrize("outcome", [{"outcome": "baseline", "controls": None, "claims": ()}])
def test_what_claims_nothing_has_no_lifetime(outcome):
    assert lifetimes([committed(0, make_artifact(**outcome))]) == []


def test_clocks_that_went_backwards_cost_no_answer():
    assert lifetimes([committed(5), committed(3, None)]) == [ended(0, 0, "withdrawn")]
    assert lifetimes([committed(5)], [seen(1, "kernel")]) == [ended(0, 0, "kernel")]
    assert lifetimes([committed(5)], [seen(1)]) == [held(0)]


def test_other_artifacts_are_told_apart_and_sorted():
    history = [committed(0, name="z"), committed(0, name="a")]
    assert [each.name for each in lifetimes_of(history, [])] == ["a", "z"]
