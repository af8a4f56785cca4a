"""A limit on a metric of a build: a candidate above it is invalid, and so are committed controls."""

from __future__ import annotations

import pytest

from pytest_compileiq import choice
from pytest_compileiq.errors import MarkerError, TuneFailed
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool
from tests.unit.project_on_fakes import FAKE, ProjectOnFakes

SPACE = {"-O": choice([1, 2, 3])}


def sizes(knobs):
    """The faster, the larger."""
    return {"kernel": "x" * (40 + 10 * knobs.get("-O", 0))}


def seconds(controls):
    return 1e-3 / (1 + (controls.knobs["-O"] if controls else 0))


@pytest.fixture
def project(tmp_path):
    return lambda **limits: ProjectOnFakes(tmp_path, space=SPACE, limits=limits)


def test_a_candidate_above_a_limit_is_invalid_with_the_reason_and_the_best_below_it_wins(project):
    made = project(code_bytes=60)
    report = made.tune(FakePool(seconds=seconds), FakeBuilder(code=sizes), evaluations=3)
    assert report.verdict == "TUNED" and made.store.read("kernel", FAKE).controls.knobs == {"-O": 2}
    assert any("1 invalid (limit): code_bytes is 70, above the limit of 60" in note for note in report.notes)


def test_committed_controls_above_a_limit_fail(project):
    project().tune(FakePool(seconds=seconds), FakeBuilder(code=sizes), evaluations=3)
    report, _ = project(code_bytes=60).replay(FakePool(seconds=seconds), builder=FakeBuilder(code=sizes))
    assert (report.verdict, report.message) == ("FAILED", "code_bytes is 70, above the limit of 60")
    assert "pytest --tune" in report.remedy


def test_a_limit_on_what_the_build_does_not_have_is_refused_before_the_search(project):
    with pytest.raises(TuneFailed, match=r"no 'code_byte' \(did you mean 'code_bytes'\?\)"):
        project(code_byte=60).tune(FakePool(seconds=seconds), FakeBuilder(code=sizes))


@pytest.mark.parametrize(("limits", "said"), [({"runtime": 1}, "a metric of a build"), ({"registers": True}, "whole number"),
                                              ({"registers": -1}, "whole number"), ({3: 3}, "a metric")])  # fmt: skip
def test_a_limit_that_is_none_is_refused(tmp_path, limits, said):
    with pytest.raises(MarkerError, match=said):
        ProjectOnFakes(tmp_path, space=SPACE, limits=limits).benchmark()
