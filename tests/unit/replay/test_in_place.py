"""What is on record of a program decides whether the artifact of a captured kernel is a pass."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_compileiq.in_place import InPlace, WorkloadInPlace
from pytest_compileiq.outcome import Check, Verdict
from pytest_compileiq.replay.committed import Stop
from pytest_compileiq.replay.in_place import in_place
from tests.unit.artifacts import make_artifact

CAPTURED = SimpleNamespace(name="blur", nodeid="test_blur.py::test_blur", builder=SimpleNamespace(data={}))
WRITTEN = SimpleNamespace(name="blur", nodeid="test_blur.py::test_blur", builder=SimpleNamespace())


def record(**changes) -> InPlace:
    shown = {"speedup": 1.0, "speedup_low": 0.99, "speedup_high": 1.01}
    workload = WorkloadInPlace(workload="big", pairs=40, least=1.1, **shown)
    values = {"program": "python serve.py", "device": "cpu", "compared": 9, "output": "same", "workloads": (workload,)}
    return InPlace(**values | changes)


def checked(benchmark, *records: InPlace) -> tuple[list[Check], list[str]]:
    checks: list[Check] = []
    notes = in_place(benchmark, make_artifact(in_place=records), checks)
    return checks, notes


def test_a_captured_kernel_that_no_program_confirmed_says_so_and_others_have_no_such_check():
    ((check,), notes) = checked(CAPTURED)
    assert (check.name, check.status, notes) == ("in place", "not run", [])
    assert checked(WRITTEN) == ([], [])


def test_a_gain_that_the_program_does_not_show_refutes_the_artifact_until_it_is_explained():
    with pytest.raises(Stop) as stop:
        checked(CAPTURED, record())
    assert (stop.value.verdict, stop.value.ends) == (Verdict.REFUTED, ("gain",))
    assert "acf explain blur --reason" in stop.value.remedy
    ((check,), notes) = checked(CAPTURED, record(explanation="caches are cold there"))
    assert check.status == "passed"
    assert notes == ["python serve.py contradicts it, explained: caches are cold there"]


def test_values_that_differ_come_before_times():
    with pytest.raises(Stop) as stop:
        checked(WRITTEN, record(output="differs"))
    assert (stop.value.verdict, stop.value.ends) == (Verdict.WRONG, ("wrong",))


def test_what_the_program_left_open_is_no_pass():
    ((check,), _) = checked(CAPTURED, record(workloads=(), compared=0))
    assert (check.status, check.detail) == ("not run", "python serve.py: no call was made by both arms")
    ((check,), _) = checked(CAPTURED, record(workloads=()))
    assert (check.status, check.detail) == ("passed", "on record: validated in python serve.py on cpu")
