"""The whole way on a GPU: a search, its proof, what is stored, the replay and the calibration of the gate."""

from __future__ import annotations

import tomllib

import pytest

from bench.gpu_evidence.kernels import KERNELS
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs
from tests.projects import Project, make_project

some_nvcc = pytest.mark.skipif(
    next(installed("nvcc"), None) is None, reason="no nvcc: pip install 'pytest-compileiq[cuda]'"
)
SPIN_CU = """\
extern "C" __global__ void spin(long long wanted) {
    long long begun = clock64();
    while (clock64() - begun < wanted) {}
}
"""
SPIN_PY = """\
import pytest
from pytest_compileiq import Nvcc, choice

@pytest.mark.tune(Nvcc("spin.cu", arch="ARCHITECTURE"), space={"cycles": choice([CYCLES])})
def test_spin(acf):
    spin, cycles = acf.build().load().spin, acf.params.get("cycles", 10_000)
    acf.measure(lambda: spin(1, 32, cycles), l2="warm")
"""


@pytest.fixture
def spinning(device, tmp_path):
    """A project whose baseline takes 10,000 cycles, and its one candidate so many."""

    def make(cycles: int) -> Project:
        text = SPIN_PY.replace("ARCHITECTURE", device.architecture).replace("CYCLES", str(cycles))
        return make_project(tmp_path / "project", {"spin.cu": SPIN_CU, "test_spin.py": text})

    return make


@some_nvcc
def test_a_true_gain_is_proven_and_replayed_as_it_was_measured(spinning, device):
    project = spinning(9_000)
    project.pytest("--tune", "--tune-engine=grid", code=0)

    (claim,) = tomllib.loads(project.one("acf/spin/*.toml").read_text())["claims"]
    assert claim["device"] == device.name
    assert 1.03 < claim["speedup"] < 1.15
    assert (claim["conditions"]["launch"], claim["conditions"]["l2"]) == ("graph", "warm")
    assert "PROVEN" in project.pytest(code=0)


@some_nvcc
def test_equal_kernels_are_not_proven(spinning):
    assert "BASELINE" in spinning(10_000).pytest("--tune", "--tune-engine=grid", code=0)


@some_nvcc
def test_the_gate_is_calibrated_on_equal_arms(spinning):
    assert "CALIBRATED" in spinning(9_000).pytest("--acf-calibrate=2", code=0)


@needs.triton
@pytest.mark.usefixtures("_computes")
def test_a_triton_kernel_is_tuned_and_replayed(device, tmp_path, monkeypatch):
    monkeypatch.setenv("GPU_ARCHITECTURE", device.architecture)
    (kernel,) = (kernel for kernel in KERNELS if kernel.name == "triton-matmul")
    project = Project(kernel.project(tmp_path, conftest=None))

    output = project.pytest("--tune", "--tune-engine=grid", "--tune-budget=4", code=0)
    assert "TUNED" in output or "BASELINE" in output
    assert "STALE" not in project.pytest(code=0)
