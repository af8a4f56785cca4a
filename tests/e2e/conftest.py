"""A real project, tuned once with the real compiler; tests work on copies of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.examples import KERNEL_C, KERNEL_H, TEST_PY
from tests.projects import Project, golden, make_project


@pytest.fixture(scope="session")
def _tuned_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(root: Path) -> str:
        project = make_project(root, {"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": TEST_PY})
        return project.pytest("--tune", "--tune-budget=6", code=0)

    return golden(tmp_path_factory, "tuned", make)[0]


@pytest.fixture
def tuned(tmp_path: Path, _tuned_once: Path) -> Project:
    """A copy of a project whose kernel has a proven artifact."""
    shutil.copytree(_tuned_once, tmp_path / "project")
    return Project(tmp_path / "project")


@pytest.fixture(scope="session")
def _proven_again_once(tmp_path_factory: pytest.TempPathFactory, _tuned_once: Path) -> tuple[Path, str]:
    def make(root: Path) -> str:
        shutil.copytree(_tuned_once, root)
        return Project(root).pytest("--acf-report=report.json", "--acf-html=report.html", code=0)

    return golden(tmp_path_factory, "proven-again", make)


@pytest.fixture
def proven_again(tmp_path: Path, _proven_again_once: tuple[Path, str]) -> tuple[Project, str]:
    """A copy of the tuned project after a normal run with both reports, and what that printed."""
    root, output = _proven_again_once
    return Project(shutil.copytree(root, tmp_path / "project")), output


@pytest.fixture
def project(tmp_path: Path):
    """Make a project of the given files."""
    return lambda files: make_project(tmp_path / "project", files)
