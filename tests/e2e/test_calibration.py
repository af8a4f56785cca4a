"""The gate held to its own promise on this machine: the baseline against itself."""

from __future__ import annotations

import json

import pytest

from pytest_compileiq.proof.calibration import warning
from tests.projects import Project

pytestmark = pytest.mark.slow


def test_equal_arms_are_counted_by_device_and_a_bad_rate_is_warned_of(tuned: Project):
    output = tuned.pytest("--acf-calibrate=1", code=0)
    assert "CALIBRATED" in output
    assert "of 1 equal pairs were called faster" in output
    path = tuned.root / ".compileiq" / "calibration.json"
    ((device, counts),) = json.loads(path.read_text()).items()
    assert counts == {"trials": 1, "proven": counts["proven"], "alpha": 0.01}
    path.write_text(json.dumps({device: {"trials": 50, "proven": 9, "alpha": 0.01}}))
    assert "do not trust this machine's gate: 9 of 50 equal pairs" in (warning(tuned.root, device) or "")


def test_a_calibration_that_cannot_be_read_warns_of_nothing(tmp_path):
    (tmp_path / ".compileiq").mkdir()
    path = tmp_path / ".compileiq" / "calibration.json"
    path.write_text(json.dumps({"EPYC": {"trials": 50, "proven": 9, "alpha": 0.01}}))
    assert "9 of 50" in (warning(tmp_path, "EPYC") or "")
    assert warning(tmp_path, "another") is None
    path.write_text("torn")
    assert warning(tmp_path, "EPYC") is None


def test_the_number_of_trials_is_checked_and_exact_objectives_have_none(project):
    made = project({
        "k.c": "int k(int x) { return x * 3; }\n",
        "test_k.py": "import pytest\nfrom pytest_compileiq import Cc, minimize\n"
        "@pytest.mark.tune(Cc('k.c'), objectives=[minimize('code_bytes')])\ndef test_k(acf):\n    acf.build()\n",
    })  # fmt: skip
    assert "--acf-calibrate='0'" in made.pytest("--acf-calibrate=0", code=4)
    assert "nothing to calibrate: its objectives are exact" in made.pytest("--acf-calibrate=2", code=0)
