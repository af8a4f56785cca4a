"""``acf import``: an ACF that somebody else's search found is proven here before it is anything."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pytest_compileiq.store.packs import ptx_hash
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs
from tests.projects import make_project

ROOT = Path(__file__).parents[2]
TEST_PY = """\
import pytest
from pytest_compileiq import Ptxas, minimize

@pytest.mark.tune(Ptxas("attention.ptx", arch="sm_90a"), objectives=[minimize("spill_bytes")])
def test_attention(acf):
    acf.build()
"""


@pytest.mark.slow
@needs.nvcc
@needs.ptxas
def test_a_neighbours_acf_is_tried_proven_and_stored_as_what_was_measured_here(tmp_path):
    project = make_project(tmp_path / "project", {"test_attention.py": TEST_PY})
    nvcc, ptx = next(installed("nvcc")), project.root / "attention.ptx"
    source = ROOT / "tests/kernels/cuda/attention.cu"
    subprocess.run([nvcc.program, "-arch=sm_90a", "-O3", "-ptx", source, "-o", ptx], check=True)
    (acf,) = (ROOT / "acf/cuda-attention").glob("*.acf")
    name = f"{ptx_hash(ptx.read_text())}.13.3.acf"
    store = tmp_path / "store/sm_90a"
    store.mkdir(parents=True)
    (store / name).write_bytes(acf.read_bytes())
    (store / f"{name}.json").write_text(json.dumps({"arch": "sm_90a", "entry": "attention", "search_win": 7.0}))
    (store / f"{'0' * 64}.13.3.acf").write_bytes(b"for another kernel")

    output = project.acf("import", str(store.parent), "--ptx", "attention.ptx", "--to", "theirs")
    assert "attention" in output and "700.0% faster" in output
    assert "1 candidate in theirs, none of them a claim" in output
    output = project.pytest("--tune", "--tune-engine=pack", "--tune-from=theirs", code=0)
    assert "TUNED      spill_bytes 200 → 160" in output and "700" not in output
    assert "PROVEN" in project.pytest(code=0)


def test_what_there_is_is_shown_and_nothing_for_this_kernel_is_a_sentence(tmp_path):
    project = make_project(tmp_path / "project", {})
    store = project.root / "store/sm_90a"
    store.mkdir(parents=True)
    (store / f"{'0' * 64}.13.3.acf").write_bytes(b"controls")
    listed = json.loads(project.acf("import", "store", "--format=json"))
    assert [entry["ptxas"] for entry in listed["candidates"]] == ["13.3"] and listed["left_out"] == []
    output = project.acf("import", "store")
    assert "PTX 00000000  not said" in output
    assert "1 candidate; --to DIR writes them" in output
    (project.root / "own").mkdir()
    (project.root / "own/k.acf").write_bytes(b"controls of a file that says nothing")
    assert "k.acf" in project.acf("import", "own") and "PTX" not in project.acf("import", "own")
    output = project.acf("import", "store", "--ptxas=12.9", code=2)
    assert "store: no ACF that could be tried; it holds 1 for something else" in output
    output = project.acf("import", "nowhere", code=2)
    assert "nowhere: expected a directory of .acf files, a booster pack (.zip)" in output
