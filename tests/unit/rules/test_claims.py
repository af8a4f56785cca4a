"""What a claim says of its own metric."""

from __future__ import annotations

import pytest

from pytest_compileiq.artifact import Controls, FrontPoint
from pytest_compileiq.claim import Claim, DecisionRecord, Summary
from pytest_compileiq.model import Thresholds
from pytest_compileiq.rules.claims import direction_of, directions, in_order, leading_claim, standing
from pytest_compileiq.rules.recompute import recorded_thresholds
from tests.unit.artifacts import make_artifact

DECISION = DecisionRecord(alpha=0.02, level=0.003, look=1, processes=8, flips=4096, seed=1, finalists=1)


def spread(mean: float) -> Summary:
    return Summary(n=4, mean=mean, std=0.1, p5=mean, p50=mean, p95=mean, p99=mean)


def measured(objective="runtime", *, baseline=1.0, tuned=0.5, speedup=2.0, kind="gain", **changes) -> Claim:
    values = {
        "device": "cpu", "workload": "w", "objective": objective, "kind": kind, "speedup": speedup, "cohens_d": 3.0,
        "speedup_low": speedup * 0.99, "speedup_high": speedup * 1.01, "p_value": 1e-5, "samples": "s.csv",
        "test": DECISION, "baseline": spread(baseline), "tuned": spread(tuned),
    }  # fmt: skip
    return Claim(**(values | changes))


DIRECTIONS = {
    "recorded": (measured("rate", direction="maximize", tuned=0.9, speedup=0.9, kind="non-inferior"), "maximize"),
    "recorded, against all appearance": (measured(direction="maximize"), "maximize"),
    "of a metric that is known": (measured(tuned=2.0), "minimize"),
    "of a known metric's tail": (measured("runtime@p99", tuned=2.0), "minimize"),
    "of a metric of the test's own that rose in a gain": (measured("rate", tuned=2.0), "maximize"),
    "of a metric of the test's own that fell in a gain": (measured("errors"), "minimize"),
    "of a metric of the test's own that rose without a gain": (measured("rate", tuned=2.0, speedup=0.5), "minimize"),
    "of a metric of the test's own that rose and is no better": (measured("rate", tuned=2.0, speedup=1.0), "minimize"),
    "of a metric of the test's own whose mean stayed": (measured("rate", tuned=1.0), "minimize"),
    "of a metric of the test's own that fell without a gain": (measured("rate", speedup=0.5), "minimize"),
}


@pytest.mark.parametrize(("claim", "direction"), DIRECTIONS.values(), ids=DIRECTIONS)
def test_the_direction_is_the_recorded_one_or_what_the_metric_and_the_gain_tell(claim, direction):
    assert direction_of(claim) == direction


def test_the_thresholds_of_a_decision_are_the_recorded_ones_and_for_the_rest_a_plain_marker_s():
    assert recorded_thresholds(measured()) == Thresholds(alpha=0.02)
    held = Thresholds(alpha=0.02, min_speedup=1.05, min_effect=0.5, max_regression=0.1)
    record = DECISION.model_copy(update={"min_speedup": 1.05, "min_effect": 0.5, "max_regression": 0.1})
    assert recorded_thresholds(measured(test=record)) == held


def test_the_directions_of_a_search_are_on_record_or_follow_from_its_claims_and_from_known_metrics():
    controls = Controls(kind="options", file="p.acf", sha256="0" * 64, size_bytes=1)
    metrics = {"code_bytes": 0.5, "rate": 2.0, "unknown": 2.0}
    front = (FrontPoint(controls=controls, metrics=metrics),)
    older = make_artifact(claims=(measured("rate", tuned=2.0),), front=front)
    assert directions(older) == {"rate": "maximize", "code_bytes": "minimize"}
    recorded = {"rate": "minimize", "code_bytes": "maximize"}
    search = older.search.model_copy(update={"objectives": recorded})
    assert directions(older.model_copy(update={"search": search})) == recorded


def counted(before: int, after: int, metric="registers", *, direction="minimize", workload="w") -> Claim:
    return Claim(
        device="sm_90a", workload=workload, objective=metric, direction=direction, kind="exact", baseline_value=before,
        tuned_value=after,
    )  # fmt: skip


def between(low: float, high: float, **changes) -> Claim:
    return measured(speedup=(low + high) / 2, speedup_low=low, speedup_high=high, **changes)


STANDINGS = {
    "a proven gain": (between(1.1, 1.2), "gained"),
    "a proven gain whose two-sided interval holds 1": (between(0.999, 1.02), "gained"),
    "a gain that is none": (between(0.9, 1.1), "level"),
    "a gain that is a loss": (between(0.8, 0.9), "worse"),
    "not worse, and perhaps better": (between(1.01, 1.1, kind="non-inferior"), "level"),
    "up to as good": (between(0.9, 1.0, kind="non-inferior"), "level"),
    "a loss": (between(0.9, 0.99, kind="non-inferior"), "worse"),
    "fewer": (counted(8, 7), "gained"),
    "as many": (counted(8, 8), "level"),
    "more": (counted(8, 9), "worse"),
    "fewer of what is to be many": (counted(8, 7, direction="maximize"), "worse"),
    "more of what is to be many": (counted(8, 9, direction="maximize"), "gained"),
}


@pytest.mark.parametrize(("claim", "said"), STANDINGS.values(), ids=STANDINGS)
def test_how_a_metric_stands_against_the_baseline(claim, said):
    assert standing(claim) == said


def test_the_surest_gain_of_the_first_objective_that_gained_leads_then_what_is_worse():
    level, worse = counted(0, 0, "spill_bytes"), between(0.8, 0.9, workload="odd", kind="non-inferior")
    first, surer = between(1.1, 1.9), between(1.3, 1.4, workload="large")
    energy = measured("energy", speedup=3.0)
    claims = (level, worse, first, surer, energy)
    assert in_order(claims) == (surer, worse, first, energy, level)
    assert leading_claim(make_artifact(claims=claims)) == surer
    assert in_order((level, worse)) == (level, worse)
    assert in_order(()) == ()
    assert leading_claim(make_artifact(outcome="baseline", controls=None, claims=())) is None


def test_an_exact_metric_is_told_once_and_a_measured_one_for_each_workload():
    size, again = counted(8, 7), counted(8, 7, workload="v")
    other = counted(8, 6, workload="u")  # of a build that is not the same, which replay refuses
    twice = (between(1.1, 1.2), between(1.1, 1.2, workload="v"))
    assert in_order((*twice, size, again, other)) == (*twice, size, other)
