"""Which of two sizes of a proven winner is stored: by samples of both in the same processes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_compileiq.model import Candidate, SampleRow
from pytest_compileiq.proof.claims import Finalist
from pytest_compileiq.proof.smaller import PreferSmaller, Proven
from pytest_compileiq.rules.stats import paired_p
from pytest_compileiq.testing.fakes import FakeBuilder, fake_benchmark

BUDGET = 0.01
ORDER = "baseline", "tuned", "tuned", "baseline"


class Case:
    """A full winner that halves the time, and a smaller one whose losses against it are given for each process."""

    def __init__(self, root, losses) -> None:
        builder = FakeBuilder()
        benchmark = fake_benchmark(root, builder)
        workload = benchmark.timed_workloads[0].name

        def finalist(names: str, gains) -> Finalist:
            rows = [
                SampleRow("cpu", workload, "runtime", process, quad, slot, arm, 0,
                          math.exp(-gain) if arm == "tuned" else 1.0, False)
                for process, gain in enumerate(gains)
                for quad in range(2)
                for slot, arm in enumerate(ORDER)
            ]  # fmt: skip
            return Finalist(builder.render(Candidate(dict.fromkeys(names.split(), ""))), rows)

        gain = math.log(2)
        self.full = finalist("-fast -useless", [gain] * len(losses))
        self.smaller = finalist("-fast", [gain - loss for loss in losses])
        assert self.full.controls is not None and self.smaller.controls is not None
        self.choose = PreferSmaller(benchmark, self.full.controls, self.smaller.controls, {"runtime": BUDGET})

    def chosen(self, *proven: Finalist, alive=None, is_last=False) -> Finalist | None:
        entries = [Proven(finalist, (), (), (0.0,), 1) for finalist in proven]
        entry = self.choose(entries, alive or [self.full, self.smaller], is_last)
        return entry and entry.finalist


@pytest.fixture
def case(tmp_path):
    (tmp_path / "kernel.src").write_text(FakeBuilder().source)
    return lambda losses: Case(tmp_path, losses)


def spread(mean: float, sd: float) -> list[float]:
    steps = np.linspace(-1, 1, 8)
    return list(mean + sd * steps / steps.std(ddof=1))


def test_a_smaller_one_that_is_proven_and_loses_nothing_is_taken_at_once(case):
    made = case(spread(0.0, 0.002))
    assert made.chosen(made.full, made.smaller) is made.smaller
    (loss,) = made.choose.losses
    assert loss.low < 0 < loss.high and loss.loss == pytest.approx(0, abs=1e-12)


def test_while_a_loss_beyond_the_budget_is_not_ruled_out_samples_are_taken_and_then_the_full_one(case):
    made = case(spread(0.005, 0.02))
    assert made.chosen(made.full, made.smaller) is None
    assert made.chosen(made.full, made.smaller, is_last=True) is made.full
    assert made.choose.why_not == "may have lost more than the budget allows"


def test_its_level_is_split_over_the_looks(case):
    losses = spread(0.0, 0.0125)
    assert 0.05 / 3 < paired_p(-np.array(losses), -BUDGET) < 0.05
    made = case(losses)
    assert made.chosen(made.full, made.smaller) is None


def test_one_that_surely_lost_too_much_ends_it(case):
    made = case(spread(0.03, 0.002))
    assert made.chosen(made.full, made.smaller) is made.full
    assert made.choose.why_not == "lost more than the budget allows"


def test_one_that_is_not_proven_itself_is_not_taken(case):
    made = case(spread(0.0, 0.002))
    assert made.chosen(made.full) is None
    assert made.chosen(made.full, is_last=True) is made.full
    assert made.choose.why_not == "were not proven themselves"


def test_one_that_fails_in_the_proof_ends_it_and_one_whose_larger_fails_is_proven_alone(case):
    made = case(spread(0.0, 0.002))
    assert made.chosen(made.full, alive=[made.full]) is made.full
    assert made.choose.why_not == "failed in the proof"
    assert made.chosen(made.smaller, alive=[made.smaller]) is made.smaller
    assert made.chosen(alive=[made.smaller], is_last=True) is None
