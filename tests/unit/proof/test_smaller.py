"""Which of two sizes of a proven winner is stored: by samples of both in the same processes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_compileiq import maximize
from pytest_compileiq.model import Candidate
from pytest_compileiq.proof.claims import Finalist
from pytest_compileiq.proof.confirm import UNPROVEN, compare_sizes
from pytest_compileiq.rules.stats import paired_p
from pytest_compileiq.samples import SampleRow
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
        self.benchmark = benchmark

    def compared(self, *, is_proven=True):
        return compare_sizes(self.benchmark, self.full, self.smaller, {"runtime": BUDGET}, is_proven=is_proven)

    def why_larger(self, *, is_proven=True) -> str:
        return self.compared(is_proven=is_proven)[1]


@pytest.fixture
def case(tmp_path):
    (tmp_path / "kernel.src").write_text(FakeBuilder().source)
    return lambda losses: Case(tmp_path, losses)


@pytest.mark.parametrize(("value", "why"), [(0.9, ""), (0.8, "lost more than the budget allows")])
def test_a_score_that_never_varies_may_lose_nothing(tmp_path, value, why):
    builder = FakeBuilder()
    (tmp_path / "kernel.src").write_text(builder.source)
    benchmark = fake_benchmark(tmp_path, builder, objectives=[maximize("accuracy")])

    def finalist(tuned: float) -> Finalist:
        rows = [
            SampleRow("cpu", benchmark.timed_workloads[0].name, "accuracy", process, 0, slot, arm, 0,
                      tuned if arm == "tuned" else 0.5, False)
            for process in range(8)
            for slot, arm in enumerate(ORDER)
        ]  # fmt: skip
        return Finalist(builder.render(Candidate({"-fast": ""})), rows)

    (loss,), said = compare_sizes(benchmark, finalist(0.9), finalist(value), {}, is_proven=True)
    assert said == why
    assert (loss.loss > 0) is bool(why) and loss.low == loss.high == loss.loss


def spread(mean: float, sd: float) -> list[float]:
    steps = np.linspace(-1, 1, 8)
    return list(mean + sd * steps / steps.std(ddof=1))


def test_a_smaller_one_that_is_proven_and_loses_nothing_is_taken(case):
    (loss,), why = case(spread(0.0, 0.002)).compared()
    assert why == ""
    assert loss.low < 0 < loss.high and loss.loss == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("mean", "sd", "why"),
    [(0.005, 0.02, "may have lost more than the budget allows"), (0.03, 0.002, "lost more than the budget allows")],
)
def test_one_that_may_have_lost_too_much_is_not_taken(case, mean, sd, why):
    assert case(spread(mean, sd)).why_larger() == why


def test_its_level_is_whole_since_the_second_sample_has_one_look(case):
    losses = spread(0.0, 0.0125)
    assert 0.05 / 3 < paired_p(-np.array(losses), -BUDGET) < 0.05
    assert case(losses).why_larger() == ""


def test_one_that_is_not_proven_itself_is_not_taken(case):
    assert case(spread(0.0, 0.002)).why_larger(is_proven=False) == UNPROVEN == "were not proven themselves"


def test_one_that_fails_is_not_taken_and_one_whose_larger_fails_is(case):
    made = case(spread(0.0, 0.002))
    made.smaller.out = "failed"
    assert made.why_larger(is_proven=False) == "failed in the proof"
    made.smaller.out, made.full.out = None, "failed"
    assert made.why_larger() == "" and made.why_larger(is_proven=False)
