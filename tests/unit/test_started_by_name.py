"""What is started by a module's name or a file's path, and found by no import: a move would break it unseen."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module, util
from pathlib import Path

import pytest

import pytest_compileiq

PACKAGE = Path(pytest_compileiq.__file__).parent
ROOT = PACKAGE.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENTRY_POINTS = {**PROJECT["scripts"], **PROJECT["entry-points"]["pytest11"]}
SOURCES = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
BY_NAME = sorted({name for text in SOURCES.values() for name in re.findall(r'"-m", "(pytest_compileiq[.\w]*)"', text)})

FORKED = sorted({name for text in SOURCES.values() for name in re.findall(r'ForkedModule\("([.\w]+)"', text)})


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], input=text, capture_output=True, text=True, timeout=60, cwd=ROOT
    )


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_an_entry_point_names_what_is_there(name):
    module, _, attribute = ENTRY_POINTS[name].partition(":")
    assert not attribute or callable(getattr(import_module(module), attribute))


def test_modules_are_started_by_names_that_exist():
    assert BY_NAME == [
        "pytest_compileiq.cli.orphans",
        "pytest_compileiq.system.fork_server",
        "pytest_compileiq.timing.clock_keeper",
        "pytest_compileiq.workers.worker_plugin",
    ]
    for name in BY_NAME:
        spec = util.find_spec(name)
        assert spec is not None and '__name__ == "__main__"' in Path(spec.origin).read_text(encoding="utf-8")


def test_modules_are_forked_by_names_that_exist():
    assert FORKED == ["pytest_compileiq.toolchains.triton.host"]
    for name in FORKED:
        module = import_module(name)
        assert callable(module.preload) and callable(module.main)
        assert '__name__ == "__main__"' in Path(module.__file__).read_text(encoding="utf-8")


def test_the_command_runs_where_no_script_is_installed():
    done = run("-m", "pytest_compileiq.cli", "--version")
    assert (done.returncode, done.stdout) == (0, f"acf {pytest_compileiq.__version__}\n")


def test_the_watchdog_runs_as_a_file_by_the_standard_library_alone(tmp_path):
    from pytest_compileiq.system import watchdog

    folder = tmp_path / "builds"
    folder.mkdir()
    done = run("-I", "-S", watchdog.__file__, "no-such-token", "1", "-1", str(folder))
    assert (done.returncode, done.stderr, folder.exists()) == (0, "", False)


@pytest.mark.parametrize("module", ["engines.compileiq_host"])
def test_a_host_is_a_file_that_runs_without_this_package(module):
    path = Path(import_module(f"pytest_compileiq.{module}").__file__)
    assert "pytest_compileiq" not in re.sub(r'"""[\s\S]*?"""', "", path.read_text(encoding="utf-8")).replace("# ", "")
    assert '__name__ == "__main__"' in path.read_text(encoding="utf-8")


def test_what_is_exported_for_a_jit_is_one_file_of_the_standard_library(tmp_path):
    from pytest_compileiq.ship import acf_runtime

    (tmp_path / "acf_runtime.py").write_bytes(Path(acf_runtime.__file__).read_bytes())
    (tmp_path / "manifest.json").write_text('{"schema": 1, "artifacts": []}')
    done = run(
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import acf_runtime; print(acf_runtime.SCHEMA)",
    )
    assert (done.returncode, done.stdout) == (0, f"{acf_runtime.SCHEMA}\n"), done.stderr
