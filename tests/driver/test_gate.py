"""The gate on a GPU, whole: a search, workers, graphs, a claim and its replay, above the driver without a GPU.

Time is virtual there and proportional to the length of a kernel's code, so the gain is known exactly.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import needs
from tests.projects import UNREDUCED_INI, Project, make_project

pytestmark = [pytest.mark.slow, needs.ptxas, needs.cuda_core]

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
SPIN_PTX = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry spin(.param .u64 ns) { ret; }
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
# The GPU takes as long as it is told, and the host's clock is the driver's.
SPIN_PY = """\
import ctypes
import pytest
from pytest_compileiq import Ptxas, choice
from pytest_compileiq.timing import cuda, cuda_context, launching

host_ns = ctypes.CDLL("libcuda.so.1").stub_host_ns
host_ns.restype = ctypes.c_int64
for module in (cuda, cuda_context, launching):
    module.perf_counter = lambda: host_ns() * 1e-9

@pytest.mark.tune(Ptxas("spin.ptx", arch="sm_90a"), space={"ns": choice([TUNED])})
def test_scale(acf):
    spin, ns = acf.build().load().spin, acf.params.get("ns", 3000)
    acf.measure(lambda: spin(1, 32, ns), l2="warm"MORE)
"""
FILES = {"scale.ptx": PTX, "spin.ptx": SPIN_PTX, "test_scale.py": TEST_PY}
THERMAL_SLOWDOWN, POWER_CAP = "0x40", "0x4"
UNSEEN = "NVML does not show which processes compute on this GPU"
SHARED = "set ACF_LOCK_DIR to a directory"


@pytest.fixture(scope="session")
def tuned_once(tmp_path_factory, driver) -> tuple[Project, str]:
    """A project whose kernel is tuned, and what the search printed: a copy of it replays, wherever it lies."""
    home = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        _above(patch, driver, home)
        project = make_project(home / "project", FILES)
        return project, project.pytest("--tune", "--tune-engine=grid", code=0)


@pytest.fixture
def tuned(tuned_once, project) -> Project:
    """A copy of a project whose kernel is tuned."""
    shutil.copytree(tuned_once[0].root / "acf", project.root / "acf")
    return project


def _above(patch: pytest.MonkeyPatch, driver: dict[str, str], home: Path) -> None:
    """Put what runs above the driver, with locks of its own."""
    patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    locks = home / "locks"
    locks.mkdir()
    for name, value in {**driver, "ACF_LOCK_DIR": str(locks)}.items():
        patch.setenv(name, value)


@pytest.fixture
def project(tmp_path, monkeypatch, driver) -> Project:
    _above(monkeypatch, driver, tmp_path)
    return make_project(tmp_path / "project", FILES)


def test_a_gain_is_found_beside_a_fault_and_proven(tuned_once):
    project, output = tuned_once

    metadata = tomllib.loads(project.one("acf/scale/*.toml").read_text())
    (claim,) = metadata["claims"]
    code = {arm: metadata["code"]["scale"][arm]["metrics"]["code_bytes"] for arm in ("baseline", "tuned")}
    assert claim["speedup"] == pytest.approx(code["baseline"] / code["tuned"])
    assert claim["speedup"] > 1
    assert (claim["device"], claim["driver"], claim["power_limit_w"]) == ("Stub H200", "580.65.06", 700)
    assert metadata["search"]["invalid"] == 1
    assert "1 invalid (wrong): BodyError: a copy between host and GPU fails: CUDA_ERROR_ILLEGAL_ADDRESS" in output


def test_a_search_whose_evidence_was_lost_fails_and_writes_nothing_not_even_over_a_stale_artifact(tuned, monkeypatch):
    stored = contents(tuned)
    tuned.edit("scale.ptx", "mul.f32 %f2, %f2, %f1;", "mul.f32 %f2, %f2, %f1; add.f32 %f2, %f2, %f1;")
    monkeypatch.setenv("STUB_NVML_REASONS", THERMAL_SLOWDOWN)
    output = tuned.pytest("--tune", "--tune-engine=grid", code=1)
    assert "100% of the quads were dropped, and at most 25% may be; the search is kept" in output
    assert contents(tuned) == stored
    assert list((tuned.root / ".compileiq").glob("*.sqlite*"))


def spinning(project, tuned_ns: int, more: str = "") -> None:
    text = SPIN_PY.replace("TUNED", str(tuned_ns)).replace("MORE", more)
    (project.root / "test_scale.py").write_text(text, encoding="utf-8")


@pytest.fixture
def _as_on_a_real_machine(monkeypatch):
    monkeypatch.setenv("STUB_EVENT_NS", "500")
    monkeypatch.setenv("STUB_LAUNCH_NS", "4100")
    monkeypatch.setenv("STUB_GRAPH_NS", "6000")


@pytest.mark.usefixtures("_as_on_a_real_machine")
def test_three_percent_of_three_microseconds_are_proven_and_replayed_only_as_they_were_measured(
    project, monkeypatch, driver
):
    spinning(project, 2910)
    ini = project.root / "pytest.ini"
    ini.write_text(f"{UNREDUCED_INI}acf_lock_clocks = 1500\n")
    monkeypatch.setenv("STUB_NVML_REASONS", POWER_CAP)
    output = project.pytest("--tune", "--tune-engine=grid", code=0)

    (claim,) = tomllib.loads(project.one("acf/scale/*.toml").read_text())["claims"]
    assert claim["speedup"] == pytest.approx(1.03, abs=0.01)
    assert claim["conditions"] == {
        "launch": "graph", "l2": "warm", "all_streams": False, "diluted": True, "settled": True,
        "warm_up_s": pytest.approx(0.2, abs=2), "baseline_mhz": 1500, "tuned_mhz": 1500, "memory_mhz": 3201,
        "empty_s": pytest.approx(1.5e-6, rel=0.1), "eager_ratio": pytest.approx(1.5, abs=0.2), "locked_mhz": 1500,
        "held_by": ["software power cap"],
    }  # fmt: skip
    header, first, *_ = project.one("acf/scale/*.csv").read_text().splitlines()
    assert header.endswith(",dropped,sm_mhz,memory_mhz,held_by") and first.endswith(",1500,3201,software power cap")
    told = (
        "measured in a CUDA graph: launched one by one, the calls take 1.6 times as long",
        "diluted: of the call's 2.9 µs an empty kernel would take 1.5",
        "measured with the clocks locked at 1500 MHz",
        "the power limit held the clocks: baseline at 1500 MHz, tuned at 1500 MHz",
    )
    shown = project.acf("show", "scale")
    ini.write_text("[pytest]\n")  # the claim says where the clocks are to be held
    assert UNSEEN not in output
    with monkeypatch.context() as patch:
        patch.setenv("STUB_NVML_AS", "")
        again = project.pytest(code=0)
    assert "PROVEN" in again and UNSEEN in again and SHARED not in again
    for text in (output, shown, again):
        assert all(sentence in text for sentence in told), text

    with refused(driver):
        output = project.pytest(code=0)
    assert "INCONCLUSIVE" in output and "acf_lock_clocks" in output
    (project.root / "conftest.py").write_text(WITHOUT_GRAPHS, encoding="utf-8")
    output = project.pytest(code=0)
    assert "PROVEN" not in output and "this driver captures nothing" in output


WITHOUT_GRAPHS = """\
from pytest_compileiq.errors import CannotMeasure
from pytest_compileiq.timing import launching

def refuse(emit, first):
    raise CannotMeasure("this driver captures nothing")

launching.capture = refuse
"""


@contextmanager
def refused(driver: dict[str, str]) -> Iterator[None]:
    """NVML locks no clocks."""
    no_permission = Path(driver["LD_LIBRARY_PATH"].split(os.pathsep)[0]) / "refusal"
    no_permission.write_text("4")
    try:
        yield
    finally:
        no_permission.unlink()


@pytest.mark.usefixtures("_as_on_a_real_machine")
def test_equal_kernels_of_three_microseconds_are_not_proven(project):
    spinning(project, 3000)
    assert "BASELINE" in project.pytest("--tune", "--tune-engine=grid", code=0)


@pytest.mark.usefixtures("_as_on_a_real_machine")
def test_what_the_host_was_the_limit_of_proves_nothing(project):
    spinning(project, 1000, more=", graph=False")
    output = project.pytest("--tune", "--tune-engine=grid", code=1)
    assert "the call is host-bound: the host takes 4.1 µs to enqueue what the GPU does in 3.0 µs" in output
    assert not list(project.root.glob("acf/**/*.toml"))


# ── neighbours ───────────────────────────────────────────────────────────────────────────────────────────────────

HIDDEN = str(2**31 - 1)  # no process of this machine
COMES_AND_GOES = "6-6"  # within a process's second block of a tune, and at the end of its first one of a replay


@pytest.fixture
def neighbour() -> Iterator[str]:
    """A process of this machine that is none of the run's."""
    script = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        yield str(process.pid)
        process.communicate()


def contents(project: Project) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project.root / "acf/scale").iterdir()}


def test_a_neighbour_that_comes_and_goes_within_a_block_proves_nothing_and_is_named(project, monkeypatch, neighbour):
    monkeypatch.setenv("STUB_NVML_PID", neighbour)
    monkeypatch.setenv("STUB_NVML_DURING", COMES_AND_GOES)

    output = project.pytest("--tune", "--tune-engine=grid", code=1)

    assert f"other processes compute on the GPU: {neighbour}" in output
    assert not (project.root / "acf/scale").exists()


def test_a_proven_gain_is_neither_proven_again_nor_refuted_beside_a_neighbour(tuned, monkeypatch):
    stored = contents(tuned)
    monkeypatch.setenv("STUB_NVML_PID", HIDDEN)
    monkeypatch.setenv("STUB_NVML_DURING", COMES_AND_GOES)
    who = f"other processes compute on the GPU: 1 process of another container or user (pids on the host {HIDDEN})"

    output = tuned.pytest("--tune", "--tune-budget=0", code=1)
    assert f"nothing can be proven while {who}" in output
    output = tuned.pytest(code=0)
    assert "INCONCLUSIVE" in output and who in output
    assert contents(tuned) == stored


def test_what_cannot_be_kept_out_is_told_with_the_verdict(tuned, monkeypatch):
    monkeypatch.setenv("STUB_NVML_AS", HIDDEN)  # as the host numbers it
    monkeypatch.setenv("STUB_NVML_PID", str(os.getpid()))  # for the parent, which has run the body itself
    monkeypatch.delenv("ACF_LOCK_DIR")
    output = tuned.pytest(code=0)
    assert "PROVEN" in output and SHARED in output and UNSEEN not in output
