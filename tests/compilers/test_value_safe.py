"""The search for a value-safe candidate that changes bits, in short; ``bench/value_safe.py`` is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "value_safe.py"


@pytest.mark.slow
def test_value_safe_candidates_keep_every_bit_where_no_licence_is_found():
    command = [sys.executable, str(BENCH), "--candidates", "8", "--kernels", "sums,logistic"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    assert "nothing unexplained" in finished.stdout


def test_what_was_hardly_tried_is_no_pass(monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCH.parent)
    from value_safe import summary

    row = {"case": "dot", "candidates": 20, "codes": 9, "differ": 0, "licences": [], "expected": [], "unexplained": [],
           "seconds": 1.0}  # fmt: skip
    assert summary(["dot"], [row | {"unbuilt": 2}]) == 0
    assert summary(["dot"], [row | {"unbuilt": 3}]) == 1
    assert summary(["dot", "sums"], [row | {"unbuilt": 0}]) == 1
    assert "dot: 3 of 20 candidates were not built" in (said := capsys.readouterr().out) and "sums: left out" in said
