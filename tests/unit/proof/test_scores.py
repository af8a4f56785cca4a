"""Scores in the proof and on replay, on fakes: compared exactly where they never vary, and else by the gate."""

from __future__ import annotations

import re
from typing import ClassVar

import pytest

from pytest_compileiq import maximize, minimize
from pytest_compileiq.benchmark.compared import Outputs
from pytest_compileiq.benchmark.fixture import Acf
from pytest_compileiq.errors import BodyError, NoDevice
from pytest_compileiq.model import Candidate, Workload
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.proof.claims import NoWinner, Proof
from pytest_compileiq.proof.prove import Comparison
from pytest_compileiq.proof.remeasure import prove_again
from pytest_compileiq.report.artifact import artifact_lines
from pytest_compileiq.report.claims import claim_text
from pytest_compileiq.rules.gate import LOOKS
from pytest_compileiq.store.store import Store
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, by_options, fake_benchmark
from tests.unit.project_on_fakes import ProjectOnFakes

SCORE = [minimize("score")]
WORKLOADS = {"small": {}, "large": {"weight": 3}}


def controls(text: str):
    return FakeBuilder().render(Candidate({text: ""}))


@pytest.fixture
def proving(tmp_path):
    def run(pool, *texts, objectives=SCORE, **marker) -> Proof | NoWinner:
        benchmark = fake_benchmark(tmp_path, FakeBuilder(), objectives=objectives, **marker)
        return Comparison(pool, benchmark, None, 1, lambda _: None).prove_and_confirm(list(map(controls, texts)))

    return run


def blocks(pool) -> int:
    return sum(what == "block" for what, _, _ in pool.asked)


# ── one number ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_score_that_is_one_number_in_every_process_is_claimed_exactly_and_stores_no_samples(proving):
    pool = FakePool(seconds=by_options({"-fast": -1.52}, otherwise=-1.2), noise=0)
    proof = proving(pool, "-fast")
    (claim,) = proof.claims
    assert (claim.kind, claim.baseline_value, claim.tuned_value, proof.rows) == ("exact", -1.2, -1.52, ())
    assert claim_text(claim) == "score -1.2 → -1.52"
    assert blocks(pool) == LOOKS[0]


def test_the_better_of_two_exact_scores_wins_and_a_worse_one_is_told_with_both_values(proving):
    values = by_options({"-good": 0.94, "-best": 0.95, "-bad": 0.9}, otherwise=0.91)
    best = proving(FakePool(seconds=values, noise=0), "-good", "-best", objectives=[maximize("accuracy")])
    assert best.winner == controls("-best")
    worse = proving(FakePool(seconds=values, noise=0), "-bad", objectives=[maximize("accuracy")])
    assert isinstance(worse, NoWinner) and "something is worse: accuracy 0.91 → 0.9" in worse.reason
    same = proving(FakePool(seconds=lambda _: 0.0, noise=0), "-any", objectives=[maximize("accuracy")])
    assert isinstance(same, NoWinner) and same.reason == "no better: accuracy 0 → 0"


def test_one_value_that_differs_in_one_process_is_judged_by_the_gate(proving):
    class Moved(FakePool):
        def block(self, number, *arguments):
            block = super().block(number, *arguments)
            rows = [row.__class__(**{**{name: getattr(row, name) for name in row.__slots__}, "value": row.value - 1e-3 * number}) for row in block.rows]  # fmt: skip
            return block.__class__(rows, block.conditions, block.touched)

    (claim,) = proving(Moved(seconds=by_options({"-fast": -1.52}, otherwise=-1.2), noise=0), "-fast").claims
    assert (claim.kind, claim.scale) == ("gain", pytest.approx(1.2, rel=0.01))


# ── a number that varies ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_noisy_negative_score_is_proven_by_its_difference(proving):
    pool = FakePool(seconds=by_options({"-fast": -1.52}, otherwise=-1.2), noise=0.01)
    proof = proving(pool, "-fast")
    (claim,) = proof.claims
    assert claim.kind == "gain" and claim.scale == pytest.approx(1.2, rel=0.01)
    assert (claim.speedup - 1) * claim.scale == pytest.approx(0.32, abs=0.02)
    assert len(proof.rows) == 2 * LOOKS[0] * 4 * 4 * 5
    before, after, how, interval = re.fullmatch(
        r"score (\S+) → (\S+), lower by (\S+), (.*)", claim_text(claim)
    ).groups()
    assert (float(before), float(after), float(how)) == pytest.approx((-1.2, -1.52, 0.32), abs=0.02)
    assert re.fullmatch(r"0\.3\d+ to 0\.3\d+", interval)


def test_a_noisy_positive_score_is_still_a_ratio(proving):
    (claim,) = proving(FakePool(seconds=by_options({"-fast": 9e-4})), "-fast").claims
    assert claim.scale is None and claim.speedup == pytest.approx(1 / 0.9, rel=1e-2)


class ByWorkload(FakePool):
    """Small values on one workload, and values a hundred times as large on another, which weighs three times as much."""

    VALUES: ClassVar = {
        "small": by_options({"-a": -1.5}, otherwise=-1.2),
        "large": by_options({"-tenth": -132.0, "-twentieth": -126.0}, otherwise=-120.0),
    }

    def block(self, number, benchmark, arms, workload, plan):
        self.seconds = self.VALUES[workload.name]
        return super().block(number, benchmark, arms, workload, plan)


@pytest.mark.parametrize("noise", [0, 1e-3])
@pytest.mark.parametrize(
    ("rival", "best"),
    [
        ("-tenth", "-tenth"),  # 3/4 of 0.1 is above 1/4 of 0.25: unweighted, it would not be
        ("-twentieth", "-a"),  # 3/4 of 0.05 is below, and yet its difference is twenty times as large
    ],
)
def test_the_workloads_differences_weigh_as_shares_of_their_baselines(proving, rival, best, noise):
    proof = proving(ByWorkload(noise=noise), "-a", rival, workloads=WORKLOADS)
    assert proof.winner == controls(best)
    assert sorted(claim.workload for claim in proof.claims) == ["large", "small"]


@pytest.mark.parametrize(
    ("pool", "objectives", "reason"),
    [
        (
            FakePool(seconds=by_options({"-fast": 0.94}, otherwise=0.91), noise=0),
            [maximize("accuracy"), minimize("code_bytes")],
            "something is worse: code_bytes 2 → 15, accuracy 0.91 → 0.94",
        ),
        (
            FakePool(seconds=by_options({"-fast": 8e-4})),
            [minimize("runtime"), minimize("code_bytes")],
            "something is worse: code_bytes 2 → 15",
        ),
    ],
    ids=["beside a score", "beside a time"],
)
def test_a_worse_metric_of_the_build_ends_the_proof_at_its_first_look_and_is_the_reason(
    proving, pool, objectives, reason
):
    proof = proving(pool, "-fast", objectives=objectives)
    assert isinstance(proof, NoWinner) and proof.reason == reason
    assert blocks(pool) == LOOKS[0]


def test_a_claimed_ratio_is_undecided_once_a_value_is_not_positive(proving, tmp_path):
    (claim,) = proving(FakePool(seconds=by_options({"-fast": 9e-4})), "-fast").claims
    benchmark = fake_benchmark(tmp_path, FakeBuilder(), objectives=SCORE)
    decision = prove_again(FakePool(seconds=lambda _: -1.0), benchmark, controls("-fast"), claim, seed=3)
    assert decision.verdict is Verdict.INCONCLUSIVE and "the claim is a ratio" in decision.reason


def test_a_front_of_scores_below_zero_tells_differences_and_no_ratios(tmp_path):
    made = ProjectOnFakes(tmp_path, objectives=[minimize("loss"), maximize("margin")])  # the fake gives both one value
    made.tune(FakePool(seconds=by_options({"-fast": -1.5}, otherwise=-1.2), noise=0))
    artifact = made.store.read("kernel", "fake-fake1")
    assert {**artifact.front[0].shifts} == pytest.approx({"loss": -0.25, "margin": -0.25})
    assert not artifact.front[0].metrics and not artifact.search.improvements
    text = "\n".join(artifact_lines("kernel", artifact))
    assert "loss lower by 0.25 of the baseline's magnitude, worse: margin lower by 0.25" in text


@pytest.mark.parametrize("others", [[], [maximize("margin")]])  # with it there is a front, and nobody to prove
def test_a_search_that_was_killed_at_its_end_still_knows_that_its_scores_are_differences(tmp_path, monkeypatch, others):
    made = ProjectOnFakes(tmp_path, objectives=[minimize("loss"), *others])

    def tuned():
        made.tune(FakePool(seconds=by_options({"-fast": -1.5}, otherwise=-1.2), noise=0))
        return made.store.read("kernel", "fake-fake1")

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Store, "write", killed)
        tuned()
    resumed = tuned()
    made.store.metadata_path("kernel", "fake-fake1").unlink()
    uninterrupted = tuned()
    assert resumed.search.improvements == uninterrupted.search.improvements == ()
    assert resumed.front == uninterrupted.front and len(resumed.front) == len(others)
    assert not any(point.metrics for point in resumed.front)


# ── replay ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def project(tmp_path) -> ProjectOnFakes:
    made = ProjectOnFakes(tmp_path, objectives=[maximize("accuracy")])
    report = made.tune(FakePool(seconds=by_options({"-fast": 0.94}, otherwise=0.91), noise=0))
    assert report.verdict == "TUNED"
    return made


def recording(tuned: float, baseline: float = 0.91):
    def body(acf) -> None:
        acf.build().load()
        acf.record(accuracy=baseline if acf.is_baseline else tuned)

    return body


def test_an_exact_score_is_compared_by_one_run_of_each_arm_and_no_worker(project):
    pool = FakePool()
    report, _ = project.replay(pool, body=recording(0.94))
    assert (report.verdict, report.failed, pool.asked) == ("PROVEN", False, [])
    assert "default: accuracy 0.91 → 0.94, as proven" in [check.detail for check in report.checks]


@pytest.mark.parametrize(("tuned", "baseline"), [(0.93, 0.91), (0.94, 0.92), (0.9400000000000001, 0.91)])
def test_a_score_that_moves_fails_with_both_values(project, tuned, baseline):
    report, _ = project.replay(body=recording(tuned, baseline))
    assert (report.verdict, report.failed) == ("REFUTED", True)
    assert f"is {baseline} → {tuned} now, and 0.91 → 0.94 was proven" in report.message


def test_on_another_device_an_exact_score_is_not_compared_and_that_is_said(project):
    artifact = project.store.read("kernel", "fake-fake1")
    claims = tuple(claim.model_copy(update={"device": "another"}) for claim in artifact.claims)
    path = project.store.metadata_path("kernel", "fake-fake1")
    path.write_text(path.read_text().replace(artifact.claims[0].device, claims[0].device))
    report, _ = project.replay(body=recording(0.5))
    assert (report.verdict, report.failed) == ("REPLAYED", False)
    assert any(check.status == "not run" and "proven on another" in check.detail for check in report.checks)


def body_without_a_device(acf) -> None:
    raise NoDevice("no device here")


@pytest.mark.parametrize(
    ("builder", "body", "reason"),
    [
        (FakeBuilder(native="foreign machine"), recording(0.94), "foreign machine"),
        (FakeBuilder(), body_without_a_device, "no device here"),
    ],
)
def test_an_exact_score_is_not_compared_where_the_body_cannot_run(project, builder, body, reason):
    report, _ = project.replay(builder=builder, body=body)
    assert (report.verdict, report.failed) == ("REPLAYED", False)
    assert [(check.name, check.detail) for check in report.checks if check.status == "not run"] == [
        ("correctness", reason), ("score", reason),
    ]  # fmt: skip
    report, _ = project.replay(builder=builder, body=body, no_device="fail")
    assert (report.verdict, report.failed, report.message) == ("NO DEVICE", True, reason)


@pytest.mark.parametrize(("no_device", "verdict"), [("replay", "REPLAYED"), ("fail", "NO DEVICE")])
def test_a_device_that_is_lost_before_the_baseline_ran_compares_no_score(project, no_device, verdict):
    calls = []

    def body(acf) -> None:
        calls.append(acf.arm)
        if len(calls) > 1:
            raise NoDevice("the device is gone")
        recording(0.94)(acf)

    report, _ = project.replay(body=body, no_device=no_device)
    assert (report.verdict, report.failed) == (verdict, no_device == "fail")
    assert any(check.status == "not run" and check.name == "score" for check in report.checks) == (
        verdict == "REPLAYED"
    )


def test_a_time_is_never_claimed_exactly(project):
    path = project.store.metadata_path("kernel", "fake-fake1")
    path.write_text(path.read_text().replace('objective = "accuracy"', 'objective = "runtime"'))
    report, _ = project.replay(body=recording(0.94))
    assert report.verdict == "CORRUPT" and "runtime is measured, and never claimed exactly" in report.message


# ── what a body may record ───────────────────────────────────────────────────────────────────────────────────────


def acf(tmp_path) -> Acf:
    builds = fake_benchmark(tmp_path, FakeBuilder()).builds
    return Acf(builds, None, Workload("w"), arm="baseline", measurer=lambda *_: None, outputs=Outputs())


def test_any_finite_number_is_recorded(tmp_path):
    import numpy as np

    recorded = acf(tmp_path)
    recorded.record(a=-1.5, b=0, c=np.float32(0.5), d=np.int64(-3))
    assert recorded.recorded == {"a": -1.5, "b": 0.0, "c": 0.5, "d": -3.0}


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), -float("inf"), 1e31, "1", None, 1j])
def test_what_is_no_finite_number_is_refused(tmp_path, value):
    with pytest.raises(BodyError, match="expected a finite number"):
        acf(tmp_path).record(score=value)


@pytest.mark.parametrize("value", [0, -1.0])
def test_a_recorded_time_is_positive(tmp_path, value):
    with pytest.raises(BodyError, match="expected a positive finite number"):
        acf(tmp_path).record(runtime=value)
