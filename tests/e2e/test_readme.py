"""The README's examples, run from the built wheel in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```(?:c|cuda|python)\n(?://|#) (\S+)\n(.*?)```", README, re.DOTALL))


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> dict[str, str]:
    """An environment in which the wheel, and nothing of this checkout, is the plugin."""
    place = tmp_path_factory.mktemp("wheel")
    tool = [sys.executable, "-m"]
    subprocess.run([*tool, "hatchling", "build", "-t", "wheel", "-d", place], cwd=ROOT, check=True, capture_output=True)
    pip = [*tool, "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", place / "site"]
    subprocess.run([*pip, next(place.glob("*.whl"))], check=True, capture_output=True)
    return os.environ | {"PYTHONPATH": str(place / "site"), "PYTHONSAFEPATH": "1"}


def run(module: str, *arguments: str, cwd: Path, environment: dict[str, str], code: int = 0) -> str:
    """The output of ``python -m module`` in ``cwd``, which ends with ``code``."""
    argv = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_readme_five_minutes_happen_as_shown(tmp_path, installed):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    run("pytest_compileiq.cli", "init", cwd=tmp_path, environment=installed)
    tuned = run("pytest", "--tune", "--tune-budget=20", "--no-tune-reduce", cwd=tmp_path, environment=installed)
    assert "TUNED      runtime at least" in tuned
    kernel = tmp_path / "acf_starter.c"
    kernel.write_text(kernel.read_text().replace("x[i] * x[i]", "x[i] * x[i] + 1.0f"))
    stale = run("pytest", cwd=tmp_path, environment=installed, code=1)
    (shown,) = re.findall(r"`(STALE: .*?)`", README)
    assert shown in stale


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        pytest.param("saxpy.c", [], marks=pytest.mark.slow),
        pytest.param("stencil.cu", ["--tune-jobs=1"], marks=[needs.nvcc, pytest.mark.slow]),
    ],
)
def test_readme_kernel_of_your_own_is_tuned(kernel, options, tmp_path, installed):
    test = f"test_{Path(kernel).stem}.py"
    for name in (kernel, test):
        (tmp_path / name).write_text(FILES[name])
    ended = run(
        "pytest", "--tune", "--tune-budget=4", "--no-tune-reduce", *options, cwd=tmp_path, environment=installed
    )
    assert re.search(r"^1 (tuned|baseline)$", ended, re.MULTILINE), ended


def test_readme_is_short_and_readable_on_a_package_index():
    assert len(README.splitlines()) <= 120 and len(README.encode()) <= 8192
    assert README.encode().index(b"pip install pytest-compileiq") < 1500
    assert (ROOT / "docs/report.png").is_file() and "/main/docs/report.png)" in README
    assert not re.findall(r"\]\((?!https://)", README), "relative links are dead on a package index"
