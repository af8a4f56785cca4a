"""``make gpu-evidence`` rehearsed above the driver without a GPU, and where no GPU is shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu_evidence.kernels import CALIBRATED
from tests import needs

pytestmark = [needs.nvcc, needs.ptxas, needs.cuda_core]
ROOT = Path(__file__).parents[2]


def call(out: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    own = {name: value for name, value in os.environ.items() if name != "OUT"}
    command = [sys.executable, "-m", "bench.gpu_evidence", "run", f"--out={out}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=own | environment, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_a_rehearsal_tunes_and_replays_and_its_page_calls_every_figure_one(tmp_path):
    steps = "--steps=tune-stencil,replay-stencil"
    small = ("--rehearse", "--tune-seconds=1", "--replays=1", steps, f"--results={tmp_path / 'copy'}")

    code, output = call(tmp_path / "out", *small)

    assert code == 0, output
    page = (tmp_path / "copy" / "page.md").read_text()
    assert page.startswith("# REHEARSAL in virtual time: no GPU evidence")
    assert "| 1 | Stub H200 (sm_90a) | 580.65.06 | 700 W (rehearsal) |" in page
    assert "| replay-stencil | done | 1 replays |" in page
    assert "| calibrate-stencil | to do |" in page
    report = json.loads((tmp_path / "copy" / "results" / "tune-stencil" / "report.json").read_text())
    assert report["items"][0]["verdict"] in ("TUNED", "BASELINE")
    assert list((tmp_path / "copy" / "results" / "tune-stencil" / "acf").glob("stencil/*.toml"))
    assert "tune-stencil            done" in call(tmp_path / "out", "--rehearse", "--list")[1]


def test_where_no_gpu_is_shown_every_step_says_so_and_the_call_fails(tmp_path):
    code, output = call(tmp_path / "out", CUDA_VISIBLE_DEVICES="")

    assert code == 1
    assert "gpu-tests: not run: " in output
    assert "calibrate-matmul: not run: " in output
    page = (tmp_path / "out" / "page.md").read_text()
    assert page.startswith("# GPU evidence")
    assert "| 1 | none: " in page


@pytest.mark.slow
def test_the_benchmarks_build_without_a_gpu(tmp_path):
    for kernel in CALIBRATED:
        command = [sys.executable, "-m", "pytest", "--acf-check=off", "-p", "no:cacheprovider", kernel.nodeid]
        done = subprocess.run(
            command, cwd=kernel.project(tmp_path, conftest=None), env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip

        assert done.returncode == 0, done.stdout
        assert "1 unchecked" in done.stdout
