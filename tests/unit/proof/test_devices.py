"""Proofs over several devices, on fakes: which processes count, what is claimed, and what a replay makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pytest_compileiq import maximize, minimize
from pytest_compileiq.benchmark.block import BlockAnswer
from pytest_compileiq.model import MOST_DEVICES, Candidate, Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.proof.blocks import Unprovable
from pytest_compileiq.proof.claims import NoWinner, Proof
from pytest_compileiq.proof.prove import Comparison
from pytest_compileiq.proof.remeasure import prove_again
from pytest_compileiq.rules.recompute import recompute
from pytest_compileiq.store.samples import decode_samples, encode_samples
from pytest_compileiq.testing import FakeBuilder, FakeCarrier, FakePool, fake_benchmark, obedient
from pytest_compileiq.testing.fakes import FakeTimer, by_options
from pytest_compileiq.timing.sampler import Slot
from pytest_compileiq.workers.messages import BlockTask, Start
from pytest_compileiq.workers.pool import EvaluationFailed, Pool
from tests.unit.project_on_fakes import ProjectOnFakes

FAST = FakeBuilder().render(Candidate({"-fast": ""}))


@dataclass
class Cluster(FakePool):
    """A pool over devices on which ``-fast`` gains different things.

    Attributes:
        gains: what it gains, device by device.
        gone: device → the process from which on it is lost, so that the next device stands in.
    """

    gains: tuple[float, ...] = (1.05, 1.05, 1.05)
    gone: dict[int, int] = field(default_factory=dict)
    value: float = 1e-3

    def __post_init__(self) -> None:
        self.devices = len(self.gains)
        self.units = lambda number: f"GPU-{self.place(number)}"

    def place(self, number: int) -> int:
        place = number % self.devices
        return (place + 1) % self.devices if number >= self.gone.get(place, 1000) else place

    def block(self, number, benchmark, arms, workload, plan):
        gain = self.gains[self.place(number)]
        self.seconds = by_options({"-fast\n": self.value / gain}, otherwise=self.value)
        return super().block(number, benchmark, arms, workload, plan)


@pytest.fixture
def proving(tmp_path):
    def run(pool, *, against=None, **marker) -> Proof | NoWinner:
        benchmark = fake_benchmark(tmp_path, FakeBuilder(), **marker)
        return Comparison(pool, benchmark, against, 1, lambda _: None).prove_and_confirm([FAST])

    return run


def processes(pool) -> int:
    return len({number for what, number, _ in pool.asked if what == "block"})


# ── what is claimed ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gain_on_three_devices_is_claimed_on_these_and_recomputed(proving):
    pool = Cluster(gains=(1.04, 1.05, 1.06))
    proof = proving(pool)
    (claim,) = proof.claims
    assert claim.units == ("GPU-0", "GPU-1", "GPU-2") and claim.fleet is None
    assert [device.processes for device in claim.devices] == [4, 4, 4]
    assert (claim.test.processes, claim.test.second, processes(pool)) == (12, 12, 24)
    assert [device.speedup for device in claim.devices] == pytest.approx([1.04, 1.05, 1.06], rel=1e-3)
    samples = decode_samples(encode_samples(proof.rows), "x.csv")
    (key,) = samples.measured()
    recompute(claim, samples.rows(key), thresholds=Thresholds(), direction="minimize")


def test_a_gain_on_five_devices_is_claimed_for_the_fleet(proving):
    (claim,) = proving(Cluster(gains=(1.04, 1.05, 1.06, 1.05, 1.045))).claims
    assert len(claim.units) == 5 and claim.test.processes == 20
    assert claim.fleet.another_low < 1.045 < claim.fleet.another_high
    assert claim.speedup == pytest.approx(1.049, rel=1e-3)


def test_a_pool_whose_workers_are_all_on_one_machine_claims_as_without_devices(proving):
    one = Cluster(gains=(1.05, 1.05))
    one.units = lambda number: "node-7"
    proof = proving(one)
    (claim,) = proof.claims
    assert claim.devices == () and claim.test.processes == 8
    assert b"unit" not in encode_samples(proof.rows)


def test_devices_that_do_not_know_their_names_prove_nothing(proving):
    half = Cluster(gains=(1.05, 1.05))
    half.units = lambda number: ("GPU-0", "")[number % 2]
    lost = proving(half)
    assert isinstance(lost, NoWinner) and lost.lost and "set ACF_MACHINE" in lost.reason


def test_a_device_that_pays_for_the_others_is_named_in_why_nothing_was_proven(proving):
    refused = proving(Cluster(gains=(1.1, 1.1, 0.95)))
    assert isinstance(refused, NoWinner) and not refused.lost
    assert refused.reason.endswith("surely more than 1.0% worse on GPU-2")


def test_an_outlier_that_keeps_a_fleet_from_being_claimed_is_named(proving):
    lost = proving(Cluster(gains=(1.05, 1.05, 1.05, 1.05, 1.0)))
    assert isinstance(lost, NoWinner) and "an outlier among them: GPU-4, 1.00" in lost.reason


def test_a_score_is_claimed_over_devices_by_its_difference(proving):
    (claim,) = proving(Cluster(gains=(1.5, 1.6, 1.4), value=-1.0), objectives=[maximize("score")]).claims
    assert (claim.kind, len(claim.devices)) == ("gain", 3) and claim.scale == pytest.approx(1.0, rel=1e-2)
    assert claim.devices[0].speedup == pytest.approx(1 + 1 / 3, abs=0.01)


def test_a_score_that_is_one_number_on_all_devices_is_exact_and_one_that_each_has_its_own_of_is_not(proving):
    pool = Cluster(gains=(1.5, 1.5), noise=0)
    (claim,) = proving(pool, objectives=[minimize("score")]).claims
    assert (claim.kind, claim.devices) == ("exact", ()) and processes(pool) == 8
    (own,) = proving(Cluster(gains=(1.5, 1.6), noise=0), objectives=[minimize("score")]).claims
    assert (own.kind, own.units) == ("gain", ("GPU-0", "GPU-1"))


def test_what_is_no_worse_on_several_devices_is_claimed_so_over_them(proving):
    class OnlyOneGains(Cluster):
        def block(self, number, benchmark, arms, workload, plan):
            self.gains = (1.0,) * 3 if workload.name == "level" else (1.05,) * 3
            return super().block(number, benchmark, arms, workload, plan)

    claims = proving(OnlyOneGains(), workloads={"level": {}, "gained": {}}).claims
    assert {claim.workload: claim.kind for claim in claims} == {"level": "non-inferior", "gained": "gain"}
    assert {claim.units for claim in claims} == {("GPU-0", "GPU-1", "GPU-2")}


def test_more_devices_than_a_claim_holds_are_told_so_before_anything_is_measured(proving):
    pool = Cluster(gains=(1.05,) * (MOST_DEVICES + 1))
    with pytest.raises(Unprovable, match="61 devices are more than the 60 that a claim holds"):
        proving(pool)
    assert not pool.asked


# ── devices that are lost ────────────────────────────────────────────────────────────────────────────────────────


def test_a_device_that_is_lost_early_is_in_no_claim_and_its_samples_are_not_stored(proving):
    pool = Cluster(gains=(1.05, 1.05, 1.05), gone={2: 5})  # it gave process 2 alone
    proof = proving(pool)
    (claim,) = proof.claims
    assert claim.units == ("GPU-0", "GPU-1") and (claim.test.processes, claim.test.second) == (11, 12)
    assert [device.processes for device in claim.devices] == [8, 4]
    assert {row.unit for row in proof.rows} == {"GPU-0", "GPU-1"}


def test_a_device_that_is_lost_after_enough_processes_stays_in_the_claim(proving):
    pool = Cluster(gains=(1.02, 1.02, 1.02), gone={2: 60}, noise=0.1)
    (claim,) = proving(pool).claims
    assert claim.test.look == 3, "the second sample begins with process 48"
    assert [device.processes for device in claim.devices][2] == 4


def test_a_fleet_that_loses_devices_is_claimed_on_those_that_are_left(proving):
    (claim,) = proving(Cluster(gains=(1.05,) * 5, gone={4: 0})).claims
    assert claim.units == ("GPU-0", "GPU-1", "GPU-2", "GPU-3") and claim.fleet is None


def test_one_device_that_is_left_has_to_give_what_one_alone_gives(proving):
    (claim,) = proving(Cluster(gains=(1.05, 1.05), gone={1: 0})).claims
    assert claim.devices == () and claim.test.processes == 8
    some = Cluster(gains=(1.05, 1.05, 1.05))
    some.units = lambda number: f"GPU-{0 if number % 3 == 0 else number}"  # each of the others is lost at once
    later = proving(some)
    assert isinstance(later, Proof) and later.claims[0].devices == () and later.claims[0].test.processes == 8
    scattered = Cluster(gains=(1.05, 1.05))
    scattered.units = lambda number: f"GPU-{number}"
    lost = proving(scattered)
    assert isinstance(lost, NoWinner) and lost.lost and "among several devices each needs 4" in lost.reason


def test_what_is_lost_in_the_middle_of_a_block_is_asked_for_again(proving):
    class Flaky(Cluster):
        def block(self, number, benchmark, arms, workload, plan):
            if number == 4 and not any(what == "lost" for what, _, _ in self.asked):
                self.asked.append(("lost", number, ""))
                raise EvaluationFailed(None, "lost", "the node is gone")
            return super().block(number, benchmark, arms, workload, plan)

    (claim,) = proving(Flaky()).claims
    assert [device.processes for device in claim.devices] == [4, 4, 4]


# ── through the real pool ────────────────────────────────────────────────────────────────────────────────────────


def on_devices(count: int) -> FakeCarrier:
    """A carrier over devices: each worker knows its own, is a little slower than the last, and gains 5 %."""

    def answer(worker, order):
        given = obedient(order)
        if not isinstance(order, BlockTask):
            return given
        slots = tuple(
            Slot(slot.quad, slot.slot, slot.arm, tuple(
                1e-3 * (1 + 0.1 * (worker % count)) * (1 + 1e-3 * ((slot.quad * 4 + slot.slot + number) % 5))
                / (1.05 if slot.arm == "tuned" else 1.0)
                for number in range(len(slot.values))
            ))
            for slot in given.slots["runtime"]
        )  # fmt: skip
        return BlockAnswer({"runtime": slots}, {}, given.touched, units={"runtime": f"CPU-{worker % count}"})

    return FakeCarrier(answer, devices=count)


@pytest.mark.parametrize("count", [1, 2, 6])
def test_what_workers_say_of_their_devices_reaches_the_claim(proving, count):
    start = Start(".", ("test_kernel.py::test_kernel",), {}, (), (None,), {})
    pool = Pool(start, on_devices(count), timer=FakeTimer())
    proof = proving(pool)
    (claim,) = proof.claims
    assert claim.units == (tuple(f"CPU-{number}" for number in range(count)) if count > 1 else ())
    assert claim.speedup == pytest.approx(1.05, abs=2e-3)
    assert claim.test.processes == max(8, 4 * count) and {row.unit for row in proof.rows} == {
        f"CPU-{n}" for n in range(count)
    }


# ── replay ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def replaying(proving, tmp_path):
    """Prove on devices with these gains; returns what a replay on a device makes of it."""

    def claimed(*gains):
        (claim,) = proving(Cluster(gains=gains)).claims

        def replay(unit, gain):
            here = Cluster(gains=(gain,))
            here.units = lambda number: unit
            return prove_again(here, fake_benchmark(tmp_path, FakeBuilder()), FAST, claim, seed=2)

        return replay

    return claimed


def test_a_replay_says_whether_its_device_is_one_of_the_claim(replaying):
    replay = replaying(1.04, 1.05, 1.06)
    own, another = replay("GPU-1", 1.05), replay("GPU-7", 1.05)
    assert own.verdict is another.verdict is Verdict.PROVEN
    assert own.reason.endswith("claimed on 3 devices, this is GPU-1 of them")
    assert another.reason.endswith("claimed on 3 devices; this is another")
    assert replay("", 1.05).reason.endswith("whether this is one of them is not known")
    assert "on these" not in own.reason


def test_a_device_that_gains_less_than_the_others_still_holds_what_it_showed(replaying):
    replay = replaying(1.10, 1.10, 1.02)
    assert replay("GPU-2", 1.02).verdict is Verdict.PROVEN  # half of the whole would be 3.6 %
    assert replay("GPU-2", 1.0).verdict is Verdict.REFUTED
    assert replay("GPU-7", 1.02).verdict is Verdict.REFUTED


def test_a_device_that_never_gained_is_no_refutation_and_no_pass(replaying):
    replay = replaying(1.10, 1.10, 1.0)
    as_before = replay("GPU-2", 1.0)
    assert as_before.verdict is Verdict.INCONCLUSIVE and "as the claim leaves room for here" in as_before.reason
    assert replay("GPU-2", 0.95).verdict is Verdict.REFUTED


def test_another_device_of_a_fleet_is_held_to_what_was_predicted(replaying):
    replay = replaying(1.04, 1.06, 1.08, 1.02, 1.05, 1.07)
    assert replay("GPU-7", 1.05).verdict is Verdict.PROVEN
    within = replay("GPU-7", 1.005)
    assert within.verdict is Verdict.INCONCLUSIVE and "was predicted" in within.reason
    assert replay("GPU-7", 0.9).verdict is Verdict.REFUTED
    better = replay("GPU-7", 1.3)
    assert better.verdict is Verdict.PROVEN and better.note.startswith("more than claimed")


def test_a_tune_over_devices_is_stored_read_back_and_replayed(tmp_path):
    project = ProjectOnFakes(tmp_path)
    report = project.tune(Cluster(gains=(1.25, 1.3, 1.2)))
    assert report.verdict is Verdict.TUNED and report.results[0].scope == "on these 3 devices"
    assert report.results[0].devices == ("GPU-0", "GPU-1", "GPU-2")
    (_, stored), *_ = ((name, project.store.read(name, target)) for name, target in project.store.artifacts())
    assert stored.claims[0].units == ("GPU-0", "GPU-1", "GPU-2")
    one_of_them = Cluster(gains=(1.3,))
    one_of_them.units = lambda number: "GPU-1"
    replayed, _ = project.replay(one_of_them)
    assert replayed.verdict is Verdict.PROVEN and "this is GPU-1 of them" in replayed.message
    assert replayed.results[0].scope == "" and replayed.results[0].evidence == "measured now"
