"""What a claim says of its own metric."""

from __future__ import annotations

import pytest

from pytest_compileiq.artifact import Claim, Controls, DecisionRecord, FrontPoint, Summary
from pytest_compileiq.model import Thresholds
from pytest_compileiq.rules.claims import direction_of, directions
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
