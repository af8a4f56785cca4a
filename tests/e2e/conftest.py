"""A real project, tuned once with the real compiler; tests work on copies of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.examples import KERNEL_C, KERNEL_H, TEST_PY
from tests.projects import Project, make_project


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
