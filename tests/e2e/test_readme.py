"""What the README shows is what happens."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_compileiq import options
from tests.projects import UNREDUCED_INI, Project

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Project:
    """The README's example beside the demo's own fixture and kernel."""
    root = tmp_path_factory.mktemp("readme")
    shutil.copy(ROOT / "examples/demo/demo.c", root)
    given = (ROOT / "examples/demo/test_demo.py").read_text(encoding="utf-8")
    fixture = given[given.index("import ctypes") : given.index("@pytest.mark.tune")]
    (root / "test_demo.py").write_text(fixture + PYTHON[0])
    (root / "pytest.ini").write_text(UNREDUCED_INI)
    return Project(root)


def test_the_readme_benchmark_is_tuned_and_then_goes_stale_as_shown(demo):
    assert "TUNED" in demo.pytest("--tune", "--tune-budget=20", code=0)
    demo.edit("demo.c", "2.0f * at[1]", "3.0f * at[1]")
    output = demo.pytest("--acf-check=replay", code=1)
    shown = next(line for line in README.splitlines() if "STALE: demo.c" in line)
    assert shown.split(" (since then")[0] in output
    assert "pytest --tune test_demo.py::test_demo" in output and "pytest --tune test_demo.py::test_demo" in README


def test_the_readme_names_every_option_and_setting():
    declared = Path(options.__file__).read_text(encoding="utf-8")
    for name in set(re.findall(r'"(--(?:tune|acf)[a-z-]*|(?:acf|tune)_[a-z_]+)"', declared)):
        assert name in README or f"--{name.replace('_', '-')}" in README, name
