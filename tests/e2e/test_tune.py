"""``pytest --tune``: what it finds, what it writes, and what it must never write."""

from __future__ import annotations

import tomllib

import pytest

from tests.examples import KERNEL_C, KERNEL_H, TEST_PY
from tests.projects import naming

SIZE_PY = """\
import pytest
from pytest_compileiq import Cc, choice, minimize


@pytest.mark.tune(Cc("kernel.c", flags="-O3"), space={"-O": choice([1, 2, 3, "s"])}, objectives=[minimize("code_bytes")])
def test_size(acf):
    acf.build()
"""
HOPELESS_PY = TEST_PY.replace(
    '"-O": choice([2, 3]), "-fno-math-errno": literal("", knockout_prob=0.5)',
    '"-fno-ident": literal("", knockout_prob=0.5), "-fno-stack-clash-protection": literal("", knockout_prob=0.5)',
)


def test_the_winner_is_stored_with_its_evidence_and_replayed(tuned):
    metadata = tomllib.loads(tuned.one("acf/kernel/*.toml").read_text())
    assert metadata["outcome"] == "tuned"
    assert metadata["target"].startswith("x86-64-v3-gcc")
    assert metadata["controls"]["knobs"]["-fno-math-errno"] == ""
    assert tuned.one("acf/kernel/*.acf").read_text() == "".join(
        sorted(f"{name}{value}\n" for name, value in metadata["controls"]["knobs"].items())
    )
    (claim,) = metadata["claims"]
    assert (claim["workload"], claim["objective"], claim["kind"]) == ("whole", "runtime", "gain")
    assert claim["speedup_low"] > 1.005 and claim["p_value"] < 0.01
    assert tuned.one("acf/kernel/*.csv").name == claim["samples"]
    assert metadata["search"]["evaluations"] == 4  # the whole space


def test_local_state_stays_out_of_the_repository(tuned):
    assert sorted(path.name for path in (tuned.root / "acf").iterdir()) == ["kernel"]
    assert len(list((tuned.root / "acf/kernel").iterdir())) == 3


def test_a_space_that_cannot_help_commits_no_speed_up(project):
    settings = naming("-fno-ident", "-fno-stack-clash-protection")
    made = project({"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": HOPELESS_PY} | settings)
    output = made.pytest("--tune", "--tune-budget=4", code=0)
    metadata = tomllib.loads(made.one("acf/kernel/*.toml").read_text())
    assert metadata["outcome"] == "baseline"
    assert "BASELINE" in output
    assert "baseline" in made.pytest(code=0)


def test_an_exact_objective_needs_no_samples(project):
    made = project({"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_size.py": SIZE_PY})
    made.pytest("--tune", "--tune-engine=random", "--tune-budget=4", code=0)
    metadata = tomllib.loads(made.one("acf/size/*.toml").read_text())
    (claim,) = metadata["claims"]
    assert claim["kind"] == "exact" and claim["tuned_value"] < claim["baseline_value"]
    assert not list(made.root.glob("acf/size/*.csv"))
    assert (
        "exact metrics compared exactly"
        in made.pytest("--acf-report=r.json", code=0) + (made.root / "r.json").read_text()
    )


def test_controls_that_change_what_the_test_does_not_use_are_never_stored(project):
    made = project(
        {
            "kernel.c": KERNEL_C + "void other(float *x, int n) { for (int i = 0; i < n; i++) x[i] = sqrtf(x[i]); }\n",
            "kernel.h": KERNEL_H,
            "test_kernel.py": TEST_PY,
        }
    )
    output = made.pytest("--tune", "--tune-budget=4", code=1)
    assert "also change other, which the test does not take from load()" in output and "nothing was written" in output
    assert not (made.root / "acf").exists()


def test_new_only_skips_visibly_what_is_tuned_already(tuned):
    assert "1 skipped" in tuned.pytest("--tune", "--tune-new-only", "--tune-budget=2", "-rs", code=0)


def test_a_baseline_that_is_not_correct_ends_with_one(project):
    made = project(
        {"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": TEST_PY.replace("return 2.0", "return 3.0")}
    )
    output = made.pytest("--tune", "--tune-budget=4", code=1)
    assert "the baseline is not usable" in output and "Not equal to tolerance" in output
    assert not (made.root / "acf").exists()


def test_a_baseline_that_does_not_build_ends_with_one(project):
    made = project({"kernel.c": KERNEL_C + "}", "kernel.h": KERNEL_H, "test_kernel.py": TEST_PY})
    output = made.pytest("--tune", "--tune-budget=4", code=1)
    assert "does not build" in output and "kernel.c" in output


def test_tuning_under_xdist_is_a_usage_error(tuned):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--tune", "-n", "2"],
        cwd=tuned.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "--tune does not run under xdist" in done.stderr


SMALLEST_PY = """
import pytest
from pytest_compileiq import Cc, choice, minimize


@pytest.mark.tune(Cc("kernel.c", flags="-O3"), space={"-O": choice(SIZES)}, objectives=[minimize("code_bytes")])
def test_kernel(acf):
    acf.build()
"""


@pytest.mark.slow
def test_a_healthy_incumbent_is_replaced_only_when_beaten(project):
    """In bytes, so that which is better is no matter of noise."""
    made = project({"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": SMALLEST_PY.replace("SIZES", "[2]")})

    def tuned(sizes: str, seed: int) -> tuple[str, bytes]:
        (made.root / "test_kernel.py").write_text(SMALLEST_PY.replace("SIZES", sizes))
        output = made.pytest("--tune", "--tune-budget=4", f"--tune-seed={seed}", code=0)
        return output, made.one("acf/kernel/*.acf").read_bytes()

    assert tuned("[2]", 1)[1] == b"-O2\n"
    output, controls = tuned('[2, "s"]', 2)
    assert "TUNED" in output and controls == b"-Os\n"
    output, controls = tuned('["s", 2]', 3)
    assert "1 proven" in output and controls == b"-Os\n"
