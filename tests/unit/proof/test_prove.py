"""Fresh samples to claims, driven by a fake pool: looks, shared processes, failures, and what is refused."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from pytest_compileiq import minimize
from pytest_compileiq.claim import ConditionsTable
from pytest_compileiq.errors import ClaimMismatch
from pytest_compileiq.model import Candidate, Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.proof.blocks import Unprovable
from pytest_compileiq.proof.claims import NoWinner, Proof
from pytest_compileiq.proof.prove import Comparison
from pytest_compileiq.proof.remeasure import prove_again
from pytest_compileiq.rules.gate import CONFIRM_AFTER_S, LOOKS, PROCESS_EVERY_S
from pytest_compileiq.rules.recompute import recompute
from pytest_compileiq.samples import Conditions
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, by_options, fake_benchmark
from pytest_compileiq.workers.pool import EvaluationFailed
from tests.unit.pools import UncheckedPool

FAST = {"-fast\n": 9e-4}


@pytest.fixture
def proving(tmp_path):
    """Prove candidates on fakes; returns the proof, the pool and what was said."""

    def run(pool, *texts, builder=None, against=None, seed=1, **marker):
        benchmark = fake_benchmark(tmp_path, builder or FakeBuilder(), **marker)
        finalists = [controls(text) for text in texts]
        said: list[str] = []
        proof = Comparison(pool, benchmark, against, seed, said.append).prove_and_confirm(finalists)
        return proof, said

    return run


def controls(text: str):
    knobs = {"-O": int(text[2:])} if text.startswith("-O") else {text: ""}
    return FakeBuilder().render(Candidate(knobs))


def blocks(pool) -> list[tuple[int, str]]:
    return [(number, options) for what, number, options in pool.asked if what == "block"]


# ── looks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_true_gain_is_proven_at_the_first_look_with_its_claim_and_rows(proving):
    pool = FakePool(seconds=by_options(FAST))
    proof, said = proving(pool, "-fast")
    (claim,) = proof.claims
    assert proof.winner == controls("-fast")
    assert (claim.kind, claim.workload, claim.objective) == ("gain", "default", "runtime")
    assert claim.speedup == pytest.approx(1 / 0.9, rel=1e-3)
    assert (claim.test.look, claim.test.processes, claim.test.finalists) == (1, LOOKS[0], 1)
    assert len(proof.rows) == 2 * LOOKS[0] * 4 * 4 * 5
    assert said == ["proving 1 finalist: look 1, 8 processes", "proving 1 finalist: second sample, 8 processes"]


def test_a_better_finalist_that_is_not_proven_is_told(proving):
    proof, _ = proving(UncheckedPool(seconds=by_options({**FAST, "-vast\n": 5e-5})), "-vast", "-fast")
    assert proof.winner == controls("-fast")
    assert proof.passed_over.startswith("a better finalist was not proven: 20.0")
    assert "above 10x, requires checked calls" in proof.passed_over
    plain, _ = proving(FakePool(seconds=by_options({**FAST, "-slow\n": 1.1e-3})), "-slow", "-fast")
    assert not plain.passed_over


def test_a_claim_of_a_gpu_says_how_its_samples_were_taken(proving):
    taken = Conditions("H200", "graph", "warm", all_streams=False, empty_s=2e-6, eager_ratio=1.5)
    proof, _ = proving(
        FakePool(seconds=by_options({"-fast\n": 8e-6}, otherwise=12e-6), conditions={"runtime": taken}), "-fast"
    )
    (claim,) = proof.claims
    assert claim.conditions == ConditionsTable(
        warm_up_s=0, launch="graph", l2="warm", empty_s=2e-6, eager_ratio=1.5, diluted=True
    )
    long, _ = proving(FakePool(seconds=by_options(FAST), conditions={"runtime": taken}), "-fast")
    assert not long.claims[0].conditions.diluted


def test_equal_arms_are_looked_at_three_times_and_not_proven(proving):
    pool = FakePool()
    proof, said = proving(pool, "-fast", min_speedup=1.0)
    assert isinstance(proof, NoWinner) and not proof.lost
    assert len(said) == len(LOOKS)
    assert {number for number, _ in blocks(pool)} == set(range(LOOKS[-1]))
    assert "no finalist was proven faster by the last look" in proof.reason


def test_why_nothing_was_proven_is_as_true_on_another_day_and_what_disturbed_this_one_is_advice(proving, monkeypatch):
    busy = "other processes keep 1.6 of 2 cores busy: stop them"
    monkeypatch.setattr("pytest_compileiq.proof.prove.cpu_conditions", lambda: [busy])
    proof, _ = proving(FakePool(), "-fast", min_speedup=1.0)
    assert proof.reason == "no finalist was proven faster by the last look"
    assert proof.advice[-1] == busy and proof.told.endswith(busy)


def test_a_great_gain_that_is_refused_is_told_with_why(proving):
    """The baseline is steady and the tuned arm is not: what is faster in the mean may be refused for its spread."""
    random = Random(3)
    pool = FakePool(seconds=lambda controls: 5e-4 * (1 + 1.5 * random.random()) if controls else 1e-3)
    proof, _ = proving(pool, "-fast")
    assert proof.reason == "no finalist was proven faster by the last look"
    assert proof.advice[0].startswith("the best finalist: the spread is wider")


def test_what_cannot_win_any_more_ends_at_the_first_look(proving):
    pool = FakePool(seconds=by_options({"-fast\n": 1.1e-3}))
    proof, said = proving(pool, "-fast")
    assert isinstance(proof, NoWinner) and len(said) == 1
    assert "worse" in proof.reason


def test_workers_of_a_look_are_ready_before_its_first_sample(proving):
    pool = FakePool()
    proving(pool, "-fast", min_speedup=1.0)
    kinds = [(what, number) for what, number, _ in pool.asked]
    first, second = LOOKS[:2]
    assert kinds[: first + 1] == [*(("prepare", number) for number in range(first)), ("block", 0)]
    assert kinds.index(("prepare", first)) == kinds.index(("block", first - 1)) + 1
    assert kinds.index(("block", first)) == kinds.index(("prepare", second - 1)) + 1


def test_finalists_share_processes_in_an_order_that_a_seed_decides(proving):
    times = by_options({"-fast\n": 9e-4, "-O3\n": 9.1e-4})
    first, again, other = (FakePool(seconds=times) for _ in range(3))
    proving(first, "-fast", "-O3", seed=1)
    proving(again, "-fast", "-O3", seed=1)
    proving(other, "-fast", "-O3", seed=2)
    assert blocks(first) == blocks(again) != blocks(other)
    for _, group in itertools.groupby(blocks(first)[: 2 * LOOKS[0]], key=lambda block: block[0]):
        assert sorted(options for _, options in group) == ["-O3\n", "-fast\n"]


# ── the second sample ────────────────────────────────────────────────────────────────────────────────────────────


class Passing(FakePool):
    """A pool whose processes from 8 on give what ``later`` says, by workload."""

    later: dict[str, float]

    def block(self, number, benchmark, arms, workload, plan):
        times = self.later if number >= LOOKS[0] else {}
        self.seconds = by_options({"-fast\n": times.get(workload.name, 9e-4)})
        return super().block(number, benchmark, arms, workload, plan)


def passing(**later: float) -> Passing:
    pool = Passing()
    pool.later = later
    return pool


def test_a_second_sample_is_taken_later_in_other_processes_and_its_interval_is_stored(proving):
    pool = passing(default=8e-4)
    proof, _ = proving(pool, "-fast")
    (claim,) = proof.claims
    assert [number for number, _ in blocks(pool)] == [*range(2 * LOOKS[0])]
    assert (claim.test.processes, claim.test.second) == (LOOKS[0], LOOKS[0])
    assert claim.speedup == pytest.approx(1 / 0.8, rel=1e-3) and claim.tuned.n == LOOKS[0] * 4 * 2
    assert claim.test.first.speedup == pytest.approx(1 / 0.9, rel=1e-3)
    assert claim.test.gap_s == CONFIRM_AFTER_S
    assert pool.timer.waited == CONFIRM_AFTER_S + 2 * (LOOKS[0] - 1) * PROCESS_EVERY_S


def test_a_gain_of_the_first_sample_alone_is_not_proven(proving):
    proof, _ = proving(passing(default=1e-3), "-fast")
    assert isinstance(proof, NoWinner) and not proof.lost
    assert proof.reason.startswith("a second sample did not confirm the gain of the first, 1.11")


@pytest.mark.parametrize(("later", "kind"), [(1e-3, "non-inferior"), (1.1e-3, None)])
def test_a_gain_that_is_not_confirmed_is_not_worse_unless_that_is_contradicted(proving, later, kind):
    two = {"small": {"n": 1}, "large": {"n": 2}}
    proof, _ = proving(passing(large=later), "-fast", workloads=two)
    if kind is None:
        assert isinstance(proof, NoWinner)
        return
    kinds = {claim.workload: claim.kind for claim in proof.claims}
    assert kinds == {"small": "gain", "large": kind}
    for claim in proof.claims:
        rows = [row for row in proof.rows if row.workload == claim.workload]
        recompute(claim, rows, thresholds=Thresholds(), direction="minimize")
    (lesser,) = (claim for claim in proof.claims if claim.workload == "large")
    rows = [row for row in proof.rows if row.workload == "large"]
    with pytest.raises(ClaimMismatch, match="its second sample does not confirm it"):
        flipped = lesser.test.model_copy(update={"flips": 4096})
        claimed = lesser.model_copy(update={"kind": "gain", "test": flipped})
        recompute(claimed, rows, thresholds=Thresholds(), direction="minimize")


def test_a_claim_of_two_samples_is_recomputed_from_both(proving):
    proof, _ = proving(FakePool(seconds=by_options(FAST)), "-fast")
    (claim,) = proof.claims

    def check(rows=proof.rows, **test) -> None:
        altered = claim.model_copy(update={"test": claim.test.model_copy(update=test)})
        recompute(altered, rows, thresholds=Thresholds(), direction="minimize")

    check()
    first = claim.test.first
    for test, said in (
        ({"gap_s": 3.0}, "test.gap_s = 3.0, and a second sample begins 15 s after the first"),
        ({"first": first.model_copy(update={"speedup": 2.0})}, "test.first.speedup = 2.0, and its samples give 1.11"),
        ({"second": 7}, r"its test is of 8 \+ 7 processes, and it has 16"),
    ):
        with pytest.raises(ClaimMismatch, match=said):
            check(**test)
    with pytest.raises(ClaimMismatch, match=r"its test is of 8 \+ 8 processes, and it has 8"):
        check([row for row in proof.rows if row.process < LOOKS[0]])


def test_a_second_sample_without_enough_evidence_is_no_verdict(proving):
    failing = EvaluationFailed("baseline", "crash", "SIGBUS")

    class Ending(FakePool):
        def block(self, number, *rest):
            self.failures = {"-fast\n": failing} if number >= LOOKS[0] else {}
            return super().block(number, *rest)

    with pytest.raises(Unprovable, match="SIGBUS"):
        proving(Ending(seconds=by_options(FAST)), "-fast")

    class Dropping(FakePool):
        def block(self, number, *rest):
            self.drops = lambda quad: number >= LOOKS[0]
            return super().block(number, *rest)

    proof, _ = proving(Dropping(seconds=by_options(FAST)), "-fast")
    assert proof.lost and "100% of the quads were dropped" in proof.reason


# ── the best of several ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("finalists", [("-fast", "-O3"), ("-O3", "-fast")])
def test_of_two_that_are_proven_the_faster_wins(proving, finalists):
    proof, _ = proving(FakePool(seconds=by_options({"-fast\n": 9e-4, "-O3\n": 7e-4})), *finalists)
    assert proof.winner == controls("-O3")
    assert {claim.test.finalists for claim in proof.claims} == {2}


@pytest.mark.parametrize(("weight", "winner"), [(1, "-fast"), (9, "-O3")])
def test_of_several_workloads_the_weighty_ones_decide(proving, weight, winner):
    class TwoWorkloads(FakePool):
        def block(self, number, benchmark, arms, workload, plan):
            small = {"-fast\n": 4e-4, "-O3\n": 9e-4}
            large = {"-fast\n": 9e-4, "-O3\n": 6e-4}
            self.seconds = by_options(small if workload.name == "small" else large)
            return super().block(number, benchmark, arms, workload, plan)

    workloads = {"small": {"n": 1}, "large": {"n": 2, "weight": weight}}
    proof, _ = proving(TwoWorkloads(), "-fast", "-O3", workloads=workloads)
    assert proof.winner == controls(winner)


def sized(**sizes: int) -> FakeBuilder:
    """A compiler whose code has 100 bytes, or what ``sizes`` say of an option's name."""
    return FakeBuilder(code=lambda knobs: {"kernel": "x" * next((sizes[k[1:]] for k in knobs if k[1:] in sizes), 100)})


@pytest.mark.parametrize(
    ("metrics", "winner"), [(("code_bytes", "runtime"), "-fast"), (("runtime", "code_bytes"), "-O3")]
)
def test_the_first_objective_decides_among_those_that_are_proven(proving, metrics, winner):
    pool = FakePool(seconds=by_options({"-fast\n": 9e-4, "-O3\n": 6e-4}))
    objectives = [minimize(metric) for metric in metrics]
    proof, _ = proving(pool, "-fast", "-O3", builder=sized(fast=70, O=90), objectives=objectives)
    assert proof.winner == controls(winner)
    assert [claim.objective for claim in proof.claims] == list(metrics)


def test_a_metric_that_falls_to_nothing_beats_one_that_is_halved(proving):
    pool = FakePool()
    objectives = [minimize("code_bytes"), minimize("runtime")]
    proof, _ = proving(pool, "-O3", "-fast", builder=sized(fast=0, O=50), objectives=objectives, max_regression=0.2)
    assert proof.winner == controls("-fast")


@pytest.mark.parametrize(("size", "proven"), [(125, True), (126, False)])
def test_an_exact_metric_may_be_worse_by_what_the_test_allows(proving, size, proven):
    pool = FakePool(seconds=by_options({"-fast\n": 5e-4}))
    proof, _ = proving(
        pool, "-fast", builder=sized(fast=size), objectives=[minimize("runtime"), minimize("code_bytes")],
        max_regression=0.25,
    )  # fmt: skip
    assert isinstance(proof, Proof) == proven


def test_why_nothing_can_win_is_said_of_the_one_that_came_closest(proving):
    pool = FakePool(seconds=by_options({"-fast\n": 1.5e-3, "-O3\n": 1.1e-3}))
    proof, _ = proving(pool, "-fast", "-O3")
    near, _ = proving(FakePool(seconds=by_options({"-O3\n": 1.1e-3})), "-O3")
    far, _ = proving(FakePool(seconds=by_options({"-fast\n": 1.5e-3})), "-fast")
    assert proof.reason.partition("(")[0] == near.reason.partition("(")[0]
    assert proof.reason != far.reason


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_finalist_that_fails_is_out_and_the_other_is_proven(proving):
    crash = {"-fast\n": EvaluationFailed("tuned", "crash", "SIGSEGV")}
    pool = FakePool(seconds=by_options({"-O3\n": 8e-4}), failures=crash)
    proof, _ = proving(pool, "-fast", "-O3")
    assert proof.winner == controls("-O3")
    assert len([block for block in blocks(pool) if block[1] == "-fast\n"]) == 1


def test_when_every_finalist_fails_the_reason_says_how(proving):
    pool = FakePool(failures={"-fast\n": EvaluationFailed("tuned", "wrong", "1 != 2")})
    proof, _ = proving(pool, "-fast")
    assert isinstance(proof, NoWinner) and not proof.lost
    assert proof.reason == "every finalist failed; failed in the proof (wrong): 1 != 2"


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            EvaluationFailed("baseline", "crash", "SIGBUS"),
            r"the baseline failed while it was measured \(crash\): SIGBUS",
        ),
        (
            EvaluationFailed(None, "disturbed", "others compute on the GPU"),
            "nothing can be proven while others compute",
        ),
    ],
)
def test_a_failure_that_is_nobodys_among_the_finalists_is_no_verdict_on_them(proving, failure, said):
    with pytest.raises(Unprovable, match=said):
        proving(FakePool(failures={"-fast\n": failure}), "-fast")


def test_a_device_that_drops_everything_is_not_asked_for_more(proving):
    pool = FakePool(seconds=by_options(FAST), drops=lambda quad: True)
    proof, _ = proving(pool, "-fast")
    assert proof.lost and "100% of the quads were dropped" in proof.reason
    assert len(blocks(pool)) == LOOKS[0]


@pytest.mark.parametrize(("dropped", "lost"), [(1, False), (2, True)])
def test_more_than_a_quarter_of_the_quads_dropped_is_lost_evidence(proving, dropped, lost):
    pool = FakePool(seconds=by_options(FAST), drops=lambda quad: quad < dropped)
    proof, _ = proving(pool, "-fast")
    assert isinstance(proof, NoWinner if lost else Proof)
    if lost:
        assert proof.lost and proof.reason == "50% of the quads were dropped, and at most 25% may be"


def test_a_gain_on_one_workload_that_costs_another_more_than_allowed_is_refused(proving):
    class TwoFaced(FakePool):
        def block(self, number, benchmark, arms, workload, plan):
            self.seconds = by_options({"-fast\n": 5e-4 if workload.name == "small" else 1.1e-3})
            return super().block(number, benchmark, arms, workload, plan)

    two = {"small": {"n": 1}, "large": {"n": 2}}
    assert isinstance(proving(TwoFaced(), "-fast", workloads=two)[0], NoWinner)
    proof, _ = proving(TwoFaced(), "-fast", workloads=two, max_regression=0.2)
    assert {claim.workload: claim.kind for claim in proof.claims} == {"small": "gain", "large": "non-inferior"}
    shared, _ = proving(TwoFaced(), "-fast", "-O3", workloads=two, max_regression=0.2)
    levels = [claim.test.level for one in (proof, shared) for claim in one.claims if claim.kind == "non-inferior"]
    assert levels == [0.01 / len(LOOKS), 0.01 / len(LOOKS) / 2]  # any of the finalists may pass by chance


# ── exact objectives ─────────────────────────────────────────────────────────────────────────────────────────────

SIZES = FakeBuilder(code=lambda knobs: {"kernel": "x" * (80 if "-fast" in knobs else 100)})


def test_an_exact_metric_is_two_integers_and_no_sample(proving):
    pool = FakePool()
    proof, _ = proving(pool, "-fast", builder=SIZES, objectives=[minimize("code_bytes")])
    (claim,) = proof.claims
    assert (claim.kind, claim.baseline_value, claim.tuned_value) == ("exact", 100, 80)
    assert not pool.asked and not proof.rows


def test_an_exact_metric_that_is_no_better_is_no_gain(proving):
    proof, _ = proving(FakePool(), "-O3", builder=SIZES, objectives=[minimize("code_bytes")])
    assert isinstance(proof, NoWinner) and proof.reason == "no better: code_bytes 100 → 100"


# ── replay ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("now", "verdict", "processes"),
    [(9e-4, Verdict.PROVEN, 8), (1e-3, Verdict.REFUTED, 8), (9.49e-4, Verdict.INCONCLUSIVE, 32)],
)
def test_a_claim_is_measured_again_until_it_is_decided(proving, tmp_path, now, verdict, processes):
    proof, _ = proving(FakePool(seconds=by_options(FAST)), "-fast")
    pool = FakePool(seconds=by_options({"-fast\n": now}), noise=3e-2 if verdict is Verdict.INCONCLUSIVE else 1e-3)
    decision = prove_again(pool, fake_benchmark(tmp_path, FakeBuilder()), controls("-fast"), proof.claims[0], seed=2)
    assert decision.verdict is verdict
    assert len(blocks(pool)) == processes
    assert "more processes follow" not in decision.reason


def test_an_exact_claim_is_not_measured(proving, tmp_path):
    proof, _ = proving(FakePool(), "-fast", builder=SIZES, objectives=[minimize("code_bytes")])
    with pytest.raises(ValueError, match="compared exactly"):
        prove_again(FakePool(), fake_benchmark(tmp_path, FakeBuilder()), controls("-fast"), proof.claims[0], seed=2)
