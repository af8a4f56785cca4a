"""The gate on a GPU, whole: a search, workers, graphs, a claim and its replay, above the driver without a GPU.

Time is virtual there and proportional to the length of a kernel's code, so the gain is known exactly.
"""

from __future__ import annotations

import tomllib

import pytest

from tests import needs
from tests.projects import Project, make_project

pytestmark = [needs.ptxas, needs.cuda_core]

PTX = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 a) {
    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r1, %r1, %r2, %r3;
    ld.param.u64 %rd1, [x]; ld.param.f32 %f1, [a]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
    ld.global.f32 %f2, [%rd1]; mul.f32 %f2, %f2, %f1; mul.f32 %f2, %f2, %f1; st.global.f32 [%rd1], %f2;
    ret;
}
.visible .entry fault() { ret; }
"""
TEST_PY = """\
import numpy as np
import pytest
from pytest_compileiq import DeviceArray, Ptxas, choice

@pytest.mark.tune(Ptxas("scale.ptx", arch="sm_90a", flags="-O0"), space={"-O": choice([1]), "fault": choice([1, 0])})
def test_scale(acf):
    kernels = acf.build().load()
    scale, fault = kernels.scale, kernels.fault
    x = DeviceArray(np.ones(1024, np.float32))
    if acf.params.get("fault"):
        fault(1, 1)
    assert x.host().sum() == 1024
    acf.measure(lambda: scale(8, 128, x, np.float32(2)), graph=True)
    assert x.host().sum() == 1024  # where no GPU is, nothing is computed
"""
THERMAL_SLOWDOWN = "0x40"


@pytest.fixture
def project(tmp_path, monkeypatch, driver) -> Project:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, value in driver.items():
        monkeypatch.setenv(name, value)
    return make_project(tmp_path / "project", {"scale.ptx": PTX, "test_scale.py": TEST_PY})


def test_a_gain_is_found_beside_a_fault_and_proven_and_replayed(project):
    output = project.pytest("--tune", "--tune-engine=grid", code=0)

    metadata = tomllib.loads(project.one("acf/scale/*.toml").read_text())
    (claim,) = metadata["claims"]
    code = {arm: metadata["code"]["scale"][arm]["metrics"]["code_bytes"] for arm in ("baseline", "tuned")}
    assert claim["speedup"] == pytest.approx(code["baseline"] / code["tuned"])
    assert claim["speedup"] > 1
    assert (claim["device"], claim["driver"], claim["power_limit_w"]) == ("Stub H200", "580.65.06", 700)
    assert metadata["search"]["invalid"] == 1
    assert "1 invalid (wrong): BodyError: a copy between host and GPU fails: CUDA_ERROR_ILLEGAL_ADDRESS" in output

    assert "PROVEN" in project.pytest(code=0)


def test_a_search_whose_evidence_was_lost_fails_and_writes_nothing_not_even_over_a_stale_artifact(project, monkeypatch):
    project.pytest("--tune", "--tune-engine=grid", code=0)
    stored = {path.name: path.read_bytes() for path in (project.root / "acf/scale").iterdir()}
    project.edit("scale.ptx", "mul.f32 %f2, %f2, %f1;", "mul.f32 %f2, %f2, %f1; add.f32 %f2, %f2, %f1;")
    monkeypatch.setenv("STUB_NVML_REASONS", THERMAL_SLOWDOWN)
    output = project.pytest("--tune", "--tune-engine=grid", code=1)
    assert "100% of the quads were dropped, and at most 25% may be; the search is kept" in output
    assert {path.name: path.read_bytes() for path in (project.root / "acf/scale").iterdir()} == stored
    assert list((project.root / ".compileiq").glob("*.sqlite*"))
