"""Projects that pytest runs in, as a user would run it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_compileiq.system.files import locked
from tests.files import write_files
from tests.forked import run_module

# Plugins of the suite itself, of which hypothesis alone is a sixth of a short run; and what collects all garbage at the
# end to report an exception that nobody could raise: Python prints its traceback anyway, which no test lets pass.
NOT_NEEDED = ("cacheprovider", "randomly", "rerunfailures", "xdist", "hypothesispytest", "anyio", "unraisableexception")


# The command where no script is on PATH, as a shell reads it.
ACF = shlex.join([sys.executable, "-m", "pytest_compileiq.cli"])


@dataclass(frozen=True)
class Project:
    """A directory that pytest runs in, as a user would run it."""

    root: Path

    def pytest(self, *arguments: str, code: int | None = None, forked: bool = True) -> str:
        """Run pytest in a process of its own; returns what it printed, and checks the exit code when given.

        One that is not ``forked`` has imported nothing.
        """
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COMPILEIQ_"))}
        options = [*(f"-pno:{name}" for name in NOT_NEEDED), *arguments]
        given, output = run_module("pytest", options, cwd=self.root, environment=environment, forked=forked)
        assert "Traceback" not in output, output
        assert code is None or given == code, f"exit code {given}, expected {code}\n{output}"
        return output

    def acf(self, *arguments: str, code: int = 0) -> str:
        """Run ``acf`` in a process of its own; returns what it printed, and checks the exit code."""
        given, output = run_module("pytest_compileiq.cli", arguments, cwd=self.root, environment=os.environ)
        assert "Traceback" not in output, output
        assert given == code, f"exit code {given}, expected {code}\n{output}"
        return output

    def expect_builds_kept(self, artifacts: int) -> None:
        """A first replay builds, a second takes the builds of all ``artifacts`` from the cache, a rebuild is equal."""
        assert "not built again" not in self.pytest(code=0)
        assert f"{artifacts} × same inputs as a build of 2" in self.pytest(code=0)
        assert "are not kept" not in self.acf("cache")
        assert "not built again" not in self.pytest("--acf-check=rebuild", code=0)

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


# What makes a winner small takes seconds, and is no part of what most tests show.
UNREDUCED_INI = "[pytest]\ntune_reduce = false\n"


def make_project(root: Path, files: dict[str, str]) -> Project:
    """A project of ``files`` with an ini of its own, whose winners are stored as they are found."""
    return Project(write_files(root, {"pytest.ini": UNREDUCED_INI} | files))


def naming(*options: str) -> dict[str, str]:
    """The settings of a project whose maintainers let ``options`` into controls files."""
    return {"pytest.ini": f"{UNREDUCED_INI}acf_options = {' '.join(options)}\n"}


def golden(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], str]) -> tuple[Path, str]:
    """A project that the first of a suite's processes makes, for all of them, and what ``make`` returned for it.

    Args:
        make: writes the project into a directory that does not exist yet.
    """
    home = factory.getbasetemp()
    home = (home.parent if "PYTEST_XDIST_WORKER" in os.environ else home) / f"golden-{name}"
    home.mkdir(exist_ok=True)
    project, said = home / "project", home / "said.txt"
    with locked(home / "lock"):
        if not said.exists():
            shutil.rmtree(project, ignore_errors=True)
            said.write_text(make(project), encoding="utf-8")
    return project, said.read_text(encoding="utf-8")
