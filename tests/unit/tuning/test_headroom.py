"""A look before a night: what twenty random builds say of a space, and that nothing is kept of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest

from pytest_compileiq import choice, minimize
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.outcome import ItemReport, MetricRange, RunReport, Verdict
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, FakeProgress, fake_settings
from pytest_compileiq.tuning.headroom import CANDIDATES, EVALUATED, look
from pytest_compileiq.workers.pool import EvaluationFailed
from tests.unit.project_on_fakes import ProjectOnFakes

SIZES = {"-size=": choice(range(1, 31))}  # a space that holds more than the candidates


def size_of(knobs) -> dict[str, str]:
    """Machine code of the length that the knob says, in steps of ten."""
    return {"kernel": "x" * max(10, knobs.get("-size=", 0) // 10 * 10)}


def looked(root, builder=None, pool=None, *, space=SIZES, seed=0, **marker) -> ItemReport:
    root = Path(mkdtemp(dir=root))  # builds are kept by their project
    project = ProjectOnFakes(root, space=space, **marker)
    benchmark = project.benchmark(builder or FakeBuilder(code=size_of))
    settings = fake_settings(root, headroom=True, tune=True, seed=seed)
    report = look(benchmark, settings=settings, pool=pool or FakePool(), progress=FakeProgress())
    assert not (root / "acf").exists() and not (root / ".compileiq").exists()
    return report


def test_machine_codes_are_counted_and_metrics_told_from_end_to_end(tmp_path):
    report = looked(tmp_path)
    found = report.headroom
    assert report.verdict is Verdict.HEADROOM and not report.failed
    assert (found.candidates, found.distinct, found.failed) == (CANDIDATES, 2, {})
    assert found.unchanged == CANDIDATES - sum(size >= 20 for size in sizes(tmp_path))
    assert found.metrics == {"code_bytes": MetricRange(10, 20, 30)}
    assert report.message == "2 distinct machine codes among 20 random candidates"
    assert "code_bytes 10 in the baseline, 20 to 30 in the others" in report.notes


def sizes(root) -> list[int]:
    """What the candidates of the same seed ask for."""
    builder = FakeBuilder(code=size_of)
    looked(root, builder)
    return [int(text.removeprefix("-size=")) for text in builder.built if text]


def test_candidates_are_random_and_the_seed_brings_them_back(tmp_path):
    first, again, other = FakeBuilder(code=size_of), FakeBuilder(code=size_of), FakeBuilder(code=size_of)
    for builder, seed in ((first, 0), (again, 0), (other, 1)):
        looked(tmp_path, builder, seed=seed)
    assert first.built == again.built != other.built
    assert len(set(first.built)) == 1 + CANDIDATES


def test_a_few_are_evaluated_and_the_night_is_counted_from_them(tmp_path):
    pool = FakePool()
    found = looked(tmp_path, FakeBuilder(code=lambda knobs: {"kernel": "x" * knobs.get("-size=", 31)}), pool).headroom
    assert 1 <= len({options for what, _, options in pool.asked if what == "block"}) <= 1 + EVALUATED
    slow = replace(found, distinct=10, seconds_a_build=2.0, seconds_an_evaluation=4.0)
    assert slow.evaluations_in_8_h == 7200  # 2 s each, and 4 s for every other one
    assert replace(slow, seconds_an_evaluation=None).evaluations_in_8_h == 14400


def test_without_the_device_it_says_what_builds_alone_say(tmp_path):
    pool = FakePool()
    report = looked(tmp_path, FakeBuilder(code=size_of, native="no GPU is here"), pool)
    assert not pool.asked and report.headroom.seconds_an_evaluation is None
    assert "no evaluation was timed: no GPU is here" in report.notes
    assert any("at most about" in note for note in report.notes)


def test_candidates_that_do_not_build_are_counted_with_the_first_reason(tmp_path):
    refusals = {f"-size={size}\n": "internal error" for size in range(1, 16)}
    report = looked(tmp_path, FakeBuilder(code=size_of, refusals=refusals))
    (count,) = report.headroom.failed.values()
    assert 0 < count < CANDIDATES
    assert f"{count} of 20 did not build (compile): internal error" in report.notes


def test_a_baseline_or_a_space_that_does_not_build_fails(tmp_path):
    with pytest.raises(TuneFailed, match="the baseline does not build: gone"):
        looked(tmp_path, FakeBuilder(refusals={"": "gone"}))
    every = {f"-size={size}\n": "refused" for size in range(1, 31)}
    with pytest.raises(TuneFailed, match="none of 20 random candidates builds: refused"):
        looked(tmp_path, FakeBuilder(refusals=every))


def test_a_space_that_changes_nothing_is_said_to_be_one(tmp_path):
    report = looked(tmp_path, FakeBuilder(code=lambda knobs: {"kernel": "x"}), objectives=[minimize("code_bytes")])
    assert report.message == "no candidate of 20 changes anything: a search would find nothing here"
    assert "unmoved: code_bytes" in report.notes and "20 of 20 changed nothing" in report.notes


def test_a_candidate_that_is_wrong_is_not_timed(tmp_path):
    wrong = EvaluationFailed(None, "wrong", "no")
    failures = {f"-size={size}\n": wrong for size in range(1, 31)}
    report = looked(tmp_path, pool=FakePool(failures=failures))
    assert report.headroom.seconds_an_evaluation is None
    assert "no evaluation was timed: what was tried is not usable (wrong): no" in report.notes


def test_a_report_carries_it_between_processes_and_into_the_json(tmp_path):
    report = looked(tmp_path)
    assert ItemReport.from_json(report.to_json()) == report
    (item,) = json.loads(json.dumps(RunReport([report]).as_dict()))["items"]
    assert item["headroom"]["distinct"] == 2 and item["headroom"]["evaluations_in_8_h"] > 0
    assert item["headroom"]["metrics"] == {"code_bytes": {"baseline": 10, "lowest": 20, "highest": 30}}
