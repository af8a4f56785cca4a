"""The tests that ``make gpu`` runs on a GPU, above the driver without one: they pass, and not without what they test."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import needs
from tests.driver.build import AS_ON_A_MACHINE
from tests.driver.conftest import ROOT

pytestmark = [needs.ptxas, needs.cuda_core]

GPU_TESTS = ("tests/gpu/test_clock.py", "tests/gpu/test_devices.py", "tests/gpu/test_launcher.py")
PLUGINS = ("no:cacheprovider", "no:randomly", "no:xdist", "no:hypothesispytest", "tests.driver.taken_out")


@pytest.fixture
def run(driver, tmp_path):
    """Run tests for a GPU, with a feature taken out; returns what pytest printed."""

    def run(*arguments: str, without: str = "") -> str:
        shown = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CUDA_VISIBLE"))}
        # Where every pytest keeps its directories, another may remove one while this one looks.
        options = [*(f"-p{name}" for name in PLUGINS), "-oacf_no_device=fail", f"--basetemp={tmp_path / 'temporary'}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *arguments],
            cwd=ROOT, env={**shown, **driver, **AS_ON_A_MACHINE, "TAKEN_OUT": without}, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        return done.stdout + done.stderr

    return run


def test_they_pass_above_the_driver(run):
    output = run(*GPU_TESTS)
    assert " passed" in output and "failed" not in output and "error" not in output, output


@pytest.mark.parametrize(
    ("feature", "test"),
    [
        ("sweeps", "chain_of_loads"),
        ("warm calls", "chain_of_loads"),
        ("clean sweeps", "known_length and flush-eager-2e"),
        ("graphs", "known_length and warm-graph-2e"),
        ("all streams", "non_blocking"),
        ("a refusal of nothing", "launches_nothing"),
        ("the host's share", "shorter_than_their_launch"),
        ("waiting for the GPU", "known_length and warm-graph-2e"),
    ],
)
def test_without_what_it_tests_a_test_fails(run, feature, test):
    output = run(GPU_TESTS[0], "-k", test, without=feature)
    assert "1 failed" in output, output
