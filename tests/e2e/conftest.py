"""A real project, tuned once with the real compiler; tests work on copies of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

KERNEL_C = """\
#include "kernel.h"
#include <math.h>
/* The root of a sum: math-errno keeps the compiler from vectorising it. */
void kernel(const float *x, float *y, int n) {
    for (int i = 0; i < n; i++)
        y[i] = SCALE * sqrtf(x[i] * x[i] + 1.0f);
}
"""
KERNEL_H = "#define SCALE 2.0f\n"
TEST_PY = """\
import ctypes

import numpy as np
import pytest

from pytest_compileiq import Cc, choice, literal


def expected(x):
    return 2.0 * np.sqrt(x.astype(np.float64) ** 2 + 1.0)


@pytest.fixture(scope="module")
def buffers():
    x = np.linspace(-3, 3, 16384, dtype=np.float32)
    return x, np.empty_like(x)


@pytest.mark.tune(
    Cc("kernel.c", flags="-O1 -march=x86-64-v3"),
    space={"-O": choice([2, 3]), "-fno-math-errno": literal("", knockout_prob=0.5)},
    workloads={"whole": dict(n=16384), "odd": dict(n=1009, weight=0)},
)
def test_kernel(acf, buffers):
    x, y = buffers
    kernel = acf.build().load().kernel
    floats = ctypes.POINTER(ctypes.c_float)
    arguments = x.ctypes.data_as(floats), y.ctypes.data_as(floats), ctypes.c_int(acf.workload.n)
    y[:] = 0
    acf.measure(lambda: kernel(*arguments))
    np.testing.assert_allclose(y[: acf.workload.n], expected(x)[: acf.workload.n], rtol=1e-5)
"""


# Plugins of the suite itself, of which hypothesis alone is a sixth of a short run; and what collects all garbage at the
# end to report an exception that nobody could raise: Python prints its traceback anyway, which no test lets pass.
NOT_NEEDED = ("cacheprovider", "randomly", "xdist", "hypothesispytest", "anyio", "unraisableexception")


@dataclass(frozen=True)
class Project:
    """A directory that pytest runs in, as a user would run it."""

    root: Path

    def pytest(self, *arguments: str, code: int | None = None) -> str:
        """Run pytest in a process of its own; returns what it printed, and checks the exit code when given."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COMPILEIQ_"))}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *(f"-pno:{name}" for name in NOT_NEEDED), *arguments],
            cwd=self.root, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        output = done.stdout + done.stderr
        assert "Traceback" not in output, output
        assert code is None or done.returncode == code, f"exit code {done.returncode}, expected {code}\n{output}"
        return output

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace ``old``, which must be there, in a file."""
        path = self.root / name
        text = path.read_text()
        assert old in text, f"{name} has no {old!r}"
        path.write_text(text.replace(old, new, 1))

    def one(self, pattern: str) -> Path:
        """The only file that matches."""
        (path,) = self.root.glob(pattern)
        return path


def make_project(root: Path, files: dict[str, str]) -> Project:
    """A project of ``files`` with an ini of its own."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Project(root)


def naming(*options: str) -> dict[str, str]:
    """The settings of a project whose maintainers let ``options`` into controls files."""
    return {"pytest.ini": f"[pytest]\nacf_options = {' '.join(options)}\n"}


@pytest.fixture(scope="session")
def _tuned_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = make_project(
        tmp_path_factory.mktemp("tuned") / "project",
        {"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": TEST_PY},
    )
    project.pytest("--tune", "--tune-budget=6", code=0)
    return project.root


@pytest.fixture
def tuned(tmp_path: Path, _tuned_once: Path) -> Project:
    """A copy of a project whose kernel has a proven artifact."""
    shutil.copytree(_tuned_once, tmp_path / "project")
    return Project(tmp_path / "project")


@pytest.fixture
def project(tmp_path: Path):
    """Make a project of the given files."""
    return lambda files: make_project(tmp_path / "project", files)
