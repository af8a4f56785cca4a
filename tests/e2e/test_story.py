"""What happens to artifacts over the months: refactors, other devices, a driver, a toolkit; each as the people live it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_compileiq.store.store import Store
from tests.examples import KERNEL_C, KERNEL_H, TEST_PY
from tests.projects import Project, naming

pytestmark = pytest.mark.slow

AWAY = "NVIDIA H200"
TARGET = "x86-64-v3-gcc12"
KERNELS = 3
# A stand-in for the failure alone: the real gcc, but for the version that it tells.
NEW_GCC = """\
#!/bin/sh
case "$*" in
    *--version*) gcc-of-before "$@" | sed 's/12[.][0-9]*[.][0-9]*/13.1.0/g' ;;
    *-dM*) gcc-of-before "$@" | sed 's/__GNUC__ 12/__GNUC__ 13/' ;;
    *) exec gcc-of-before "$@" ;;
esac
"""
KERNELS_PY = f"""\
import pytest
from pytest_compileiq import Cc, choice, minimize


@pytest.mark.parametrize("n", range({KERNELS}))
@pytest.mark.tune(Cc("k.c", flags="-O3 -march=x86-64-v3"), space={{"-O": choice(["s"])}}, objectives=[minimize("code_bytes")])
def test_k(acf, n):
    acf.build()
"""


def claim_it(made: Project, **changes: object) -> None:
    """Rewrite what is stored as if its claim had been proven elsewhere, or under another driver."""
    store = Store(made.root / "acf")
    artifact = store.read("kernel", TARGET)
    (claim,) = artifact.claims
    other = claim.model_copy(update=changes)
    ((_, taken),) = store.read_samples("kernel", artifact)
    rows = [replace(row, device=other.device) for row in taken]
    data = store.read_controls("kernel", artifact)
    store.write("kernel", artifact.model_copy(update={"claims": (other,)}), controls=[data], samples=rows)


def devices(made: Project) -> set[str]:
    return {claim.device for claim in Store(made.root / "acf").read("kernel", TARGET).claims}


def test_who_refactors_without_the_device_retires_and_who_has_it_tunes_anew(tuned: Project):
    claim_it(tuned, device=AWAY)
    assert f"proven on {AWAY}" in tuned.pytest(code=0)
    tuned.edit("kernel.c", "for (int i", "for (long i")
    stale = tuned.pytest(code=1)
    assert "STALE: kernel.c (changed): the machine code is another" in stale
    # Nothing can be measured here, so the claim is withdrawn in the open, and the kernel ships as it is.
    tuned.acf("retire", "kernel", "--reason", "the kernel was rewritten; its H200 is not at hand")
    assert "its H200 is not at hand" in tuned.pytest(code=0)
    # Whoever has a device takes up what is stale or retired, and nothing else.
    output = tuned.pytest("--tune", "--tune-stale-only", "--tune-budget=6", code=0)
    assert "TUNED" in output
    assert AWAY not in devices(tuned)
    assert "1 replayed" in tuned.pytest("--acf-check=replay", code=0)


def test_a_second_device_s_better_controls_do_not_overturn_the_first_one_s_claim(project):
    made = project(
        {"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": TEST_PY.replace("choice([2, 3])", "choice([1])")}
        | naming("-ffast-math")
    )
    made.edit("test_kernel.py", "-O1 -march", "-O0 -march")
    made.edit("test_kernel.py", "kernel(*arguments))", "kernel(*arguments), outputs=[y])")
    made.pytest("--tune", "--tune-budget=2", code=0)
    claim_it(made, device=AWAY)
    made.edit("test_kernel.py", "choice([1])", "choice([1, 3])")
    made.edit("test_kernel.py", '"-fno-math-errno"', '"-ffast-math": literal("", knockout_prob=0.5), "-fno-math-errno"')
    kept = made.pytest("--tune", "--tune-budget=8", "--tune-engine=grid", code=0)
    assert "KEPT" in kept and f"unmeasured on {AWAY}, which holds a claim" in kept, kept
    assert devices(made) == {AWAY}


def test_a_second_device_adds_its_claim_to_the_first_one_s_and_proves_the_controls_anew_after_a_refactor(
    tuned: Project,
):
    claim_it(tuned, device=AWAY)
    tuned.pytest("--tune", "--tune-budget=0", code=0)
    assert len(devices(tuned)) == 2 and AWAY in devices(tuned)
    assert "1 replayed" in tuned.pytest("--acf-check=replay", code=0)
    controls = tuned.one("acf/kernel/*.acf").read_bytes()
    tuned.edit("kernel.c", "for (int i", "for (long i")
    tuned.pytest("--acf-check=replay", code=1)
    output = tuned.pytest("--tune", "--tune-budget=0", code=0)
    assert "PROVEN" in output
    assert f"the claim of {AWAY} was of other machine code and is dropped: prove it there" in output
    assert AWAY not in devices(tuned)
    assert tuned.one("acf/kernel/*.acf").read_bytes() == controls
    assert len(list((tuned.root / "acf/kernel").iterdir())) == 3
    tuned.pytest("--acf-check=replay", code=0)


def test_another_driver_is_measured_again_and_named(tuned: Project):
    claim_it(tuned, driver="570.0")
    tuned.pytest("--acf-report=report.json", code=0)
    (item,) = json.loads((tuned.root / "report.json").read_text())["items"]
    assert item["evidence"] == "measured now"
    assert any(note.startswith("proven under driver 570.0, measured now under unknown") for note in item["notes"])


@pytest.fixture
def several(project) -> Project:
    made = project({"k.c": "int k(const int *x, int n) { int s = 0; while (n--) s += x[n]; return s; }\n",
                    "test_k.py": KERNELS_PY})  # fmt: skip
    made.pytest("--tune", "--tune-budget=1", code=0)
    return made


def test_a_toolkit_upgrade_ends_all_artifacts_and_one_command_renews_them(several: Project, tmp_path, monkeypatch):
    gcc = Path(subprocess.run(["which", "gcc"], capture_output=True, text=True, check=True).stdout.strip()).resolve()
    tools = tmp_path / "new-toolkit"
    tools.mkdir()
    (tools / "gcc-of-before").symlink_to(gcc)
    (tools / "gcc").write_text(NEW_GCC)
    (tools / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    ended = several.pytest(code=1)
    assert f"{KERNELS} stale" in ended
    assert f"the artifact is for {TARGET}, and the compiler here makes x86-64-v3-gcc13" in ended
    assert f"{KERNELS} stale" in several.pytest("-o", "acf_stale=warn", code=0)
    renewed = several.pytest("--tune", "--tune-stale-only", "--tune-budget=1", code=0)
    assert f"{KERNELS} tuned" in renewed
    assert f"{KERNELS} proven" in several.pytest("--acf-check=replay", code=0)
