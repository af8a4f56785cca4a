"""Installed and unused, the plugin brings nothing heavy along; used, what is used."""

from __future__ import annotations

import inspect
import re

import pytest

from pytest_compileiq.benchmark.marker import read_marker

HEAVY = ("numpy", "scipy", "pydantic", "git", "rich", "elftools", "msgspec", "pytest_compileiq.model")
CONFTEST = f"""
import atexit, sys

@atexit.register
def tell():
    print("HEAVY", [name for name in {HEAVY!r} if name in sys.modules], file=sys.__stdout__)
"""


def test_a_project_without_tuned_benchmarks_loads_no_heavy_module(project):
    made = project({"conftest.py": CONFTEST, "test_plain.py": "def test_plain():\n    pass\n"})
    assert "HEAVY []" in made.pytest("-s", code=0, forked=False)
    assert "HEAVY []" in made.pytest("-s", "--collect-only", "-q", code=0, forked=False)


def test_every_argument_of_the_marker_is_listed_by_markers(project):
    said = project({"test_plain.py": ""}).pytest("--markers", code=0)
    (line,) = (line for line in said.splitlines() if line.startswith("@pytest.mark.tune("))
    given = line.partition("*, ")[2].partition(")")[0].split(", ")
    taken = re.findall(r"kwargs(?:\.get\(|, )\"(\w+)\"", inspect.getsource(read_marker))
    assert sorted(given) == sorted(taken)


LOADED = """
import atexit, gc, sys
from pathlib import Path

@atexit.register
def tell():
    who = "worker" if any(word.endswith(".worker_plugin") for word in sys.orig_argv) else "pytest"
    Path(f"{who}.txt").write_text(" ".join(sys.modules))
    Path(f"{who}-frozen.txt").write_text(str(gc.get_freeze_count()))
"""
TEST_PY = """
import pytest
from pytest_compileiq import Cc, choice, minimize


@pytest.mark.tune(Cc("k.c", flags="-O3"), space={"-O": choice(["s"])}, objectives=[minimize("code_bytes")])
def test_k(acf):
    acf.build().load().k
"""
KERNEL_C = "int k(const int *x, int n) { int s = 0; while (n--) s += x[n]; return s; }\n"


@pytest.mark.slow
def test_a_worker_and_a_replay_of_exact_claims_load_what_they_use(project):
    made = project({"conftest.py": LOADED, "test_k.py": TEST_PY, "k.c": KERNEL_C})
    made.pytest("--tune", "--tune-budget=1", code=0, forked=False)
    worker = (made.root / "worker.txt").read_text().split()
    assert "pytest_compileiq.benchmark.body" in worker
    assert not {"pydantic", "elftools", "scipy", "git"} & set(worker)
    assert int((made.root / "worker-frozen.txt").read_text()) > 10_000  # what it loaded is collected no more
    assert "1 proven" in made.pytest(code=0, forked=False)
    replayed = (made.root / "pytest.txt").read_text().split()
    assert not {"numpy", "scipy", "pytest_compileiq.store.packs"} & set(replayed)
    apart = "pytest_compileiq.capture", "pytest_compileiq.history", "pytest_compileiq.ray"
    assert not [module for module in worker + replayed if module.startswith(apart)]


def test_a_setting_out_of_range_is_a_usage_error_naming_the_choice(project):
    made = project({"test_plain.py": "def test_plain():\n    pass\n"})
    output = made.pytest("-o", "acf_stale=maybe", code=4)
    assert "acf_stale = 'maybe': expected fail, warn" in output
    assert "--tune-budget='soon'" in made.pytest("--tune", "--tune-budget=soon", code=4)
