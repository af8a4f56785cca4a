"""The variables that a run reads are part of a claim, and those that this tool sets are none of them."""

from __future__ import annotations

import subprocess
import sys

from pytest_compileiq.timing.conditions import run_environment


def test_what_libraries_read_at_run_time_is_told_by_value_and_a_preloaded_file_by_name(monkeypatch):
    for name in run_environment():
        monkeypatch.delenv(name)
    for name, value in {"OMP_NUM_THREADS": "3", "GLIBC_TUNABLES": "x", "MALLOC_ARENA_MAX": "", "HOME": "/x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LD_PRELOAD", "/home/a/one.so:/opt/two.so")
    assert run_environment() == {"GLIBC_TUNABLES": "x", "LD_PRELOAD": "one.so two.so", "OMP_NUM_THREADS": "3"}


def test_a_search_adds_nothing_to_it():
    code = (
        "from pytest_compileiq.timing.conditions import run_environment as told\n"
        "before = told()\nfrom pytest_compileiq.search.loop import one_thread\n"
        "with one_thread(): pass\nimport pytest_compileiq.engines.ga.engine\nassert told() == before, told()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
