"""Trials of equal arms, driven by a fake pool: what is counted, by which seeds, and what a count is worth."""

from __future__ import annotations

import json

import pytest

from pytest_compileiq.outcome import Verdict
from pytest_compileiq.proof.blocks import Unprovable
from pytest_compileiq.proof.calibration import Calibration, calibrate, warning
from pytest_compileiq.proof.claims import NoWinner
from pytest_compileiq.proof.prove import Comparison
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, fake_benchmark


@pytest.fixture
def seeds(monkeypatch):
    """The seed of each trial."""
    asked: list[int] = []

    def prove(comparison, finalists):
        asked.append(comparison.seed)
        return NoWinner("no finalist was proven faster by the last look")

    monkeypatch.setattr(Comparison, "prove_and_confirm", prove)
    return asked


def test_trials_add_up_over_runs_and_none_has_the_coins_of_another(tmp_path, seeds):
    benchmark = fake_benchmark(tmp_path, FakeBuilder())
    for trials in (2, 3):
        report = calibrate(benchmark, FakePool(), trials, seed=7, say=lambda _: None)
    assert seeds == [7, 8, 9, 10, 11]
    assert report.verdict is Verdict.CALIBRATED
    assert report.message.startswith("0 of 5 equal pairs were called faster (0.0%, exact 95 % interval 0.0% to 52.2%)")


def test_a_baseline_that_cannot_be_measured_counts_for_nothing(tmp_path, monkeypatch):
    def prove(*_, **__):
        raise Unprovable("nothing can be proven while others compute here")

    monkeypatch.setattr(Comparison, "prove_and_confirm", prove)
    benchmark = fake_benchmark(tmp_path, FakeBuilder())
    report = calibrate(benchmark, FakePool(), 3, seed=0, say=lambda _: None)
    assert (report.verdict, list(tmp_path.rglob("calibration.json"))) == (Verdict.INCONCLUSIVE, [])


@pytest.mark.parametrize(("proven", "warns"), [(0, False), (3, False), (12, True)])
def test_a_gate_that_called_too_many_equal_arms_faster_is_not_to_be_trusted(tmp_path, proven, warns):
    content = {"cpu": vars(Calibration(200, proven, 0.01))}
    (tmp_path / ".compileiq").mkdir()
    (tmp_path / ".compileiq/calibration.json").write_text(json.dumps(content))
    said = warning(tmp_path, "cpu")
    assert (said is not None) is warns
    assert not said or "do not trust this machine's gate: 12 of 200" in said
    assert warning(tmp_path, "another") is None


@pytest.mark.parametrize("content", ["", "[]", "{", '{"cpu": 3}', '{"cpu": {"trials": 1}}'])
def test_a_count_that_cannot_be_read_counts_for_nothing(tmp_path, content):
    (tmp_path / ".compileiq").mkdir()
    (tmp_path / ".compileiq/calibration.json").write_text(content)
    assert warning(tmp_path, "cpu") is None
