"""Installed and unused, the plugin brings nothing heavy along."""

from __future__ import annotations

HEAVY = ("numpy", "scipy", "pydantic", "git", "rich", "elftools")
CONFTEST = f"""
import atexit, sys

@atexit.register
def tell():
    print("HEAVY", [name for name in {HEAVY!r} if name in sys.modules], file=sys.__stdout__)
"""


def test_a_project_without_tuned_benchmarks_loads_no_heavy_module(project):
    made = project({"conftest.py": CONFTEST, "test_plain.py": "def test_plain():\n    pass\n"})
    assert "HEAVY []" in made.pytest("-s", code=0)
    assert "HEAVY []" in made.pytest("-s", "--collect-only", "-q", code=0)


def test_a_setting_out_of_range_is_a_usage_error_naming_the_choice(project):
    made = project({"test_plain.py": "def test_plain():\n    pass\n"})
    output = made.pytest("-o", "acf_stale=maybe", code=4)
    assert "acf_stale = 'maybe': expected fail, warn" in output
    assert "--tune-budget='soon'" in made.pytest("--tune", "--tune-budget=soon", code=4)
