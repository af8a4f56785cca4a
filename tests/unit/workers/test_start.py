"""What a worker begins with: its options, and an import path that is the parent's wherever the project lies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.workers import start
from pytest_compileiq.workers.messages import can_be_sent, decode_order, encode

STDLIB = str(Path(os.__file__).parent)


@pytest.fixture
def import_path(monkeypatch):
    """The import path that workers get, and the one that a worker then has, from ``sys.path`` here and there."""

    def through(parent: list[str], worker: list[str], root: Path, there: Path) -> list[str]:
        monkeypatch.setattr(sys, "path", parent)
        monkeypatch.chdir(root)
        sent = start._import_path(root)
        assert not any(entry is not None and Path(entry).is_absolute() for entry in sent)
        monkeypatch.setattr(sys, "path", worker)
        start.enter_project(start.Start(".", (), {}, (), sent, {}), there)
        return sys.path

    return through


@pytest.fixture
def roots(tmp_path):
    root, there = tmp_path / "here" / "project", tmp_path / "there" / "other"
    for path in (root, there):
        path.mkdir(parents=True)
    return root, there


def test_a_projects_directories_are_first_or_last_as_they_were(import_path, roots, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    root, there = roots
    parent = [str(root / "src"), STDLIB, f"{STDLIB}/lib-dynload", str(root.parent / "shared")]
    assert import_path(parent, [STDLIB], root, there) == [str(there / "src"), STDLIB, str(there.parent / "shared")]


@pytest.mark.parametrize("pythonpath", ["", None, "/elsewhere"])
def test_the_working_directory_stays_importable(import_path, roots, monkeypatch, pythonpath):
    """``python -m pytest`` has it as ``''``, which an empty PYTHONPATH does not give a worker."""
    if pythonpath is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", pythonpath)
    root, there = roots
    assert import_path(["", STDLIB], [STDLIB], root, there) == [str(there), STDLIB]


def test_what_the_environment_gives_every_process_is_not_sent_unless_it_is_the_projects(
    import_path, roots, monkeypatch
):
    root, there = roots
    monkeypatch.setenv("PYTHONPATH", f"{root}/vendored{os.pathsep}/usr/share/tool")
    parent = [f"{root}/vendored", "/usr/share/tool", STDLIB]
    of_another_machine = ["/usr/share/tool", STDLIB]
    assert import_path(list(parent), of_another_machine, root, there) == [f"{there}/vendored", *parent[1:]]
    assert import_path(list(parent), list(parent), root, root) == parent


def test_a_machine_of_its_own_has_its_own_environment_and_what_the_drivers_adds_that_names_no_place():
    node = {"PATH": "/usr/bin", "CUDA_VISIBLE_DEVICES": "1", "RAY_AUTH_TOKEN": "t" * 32, "PYTEST_ADDOPTS": "-x"}
    sent = {
        "ACF_MACHINE": "the-drivers",
        "PATH": "/home/me/bin",
        "SIZE": "3",
        "LIBS": "a:/home/me/lib",
        "RAY_AUTH_MODE": "token",
        "RATIO": "1/2",
    }
    assert start.environment_on(node, sent) == {
        "PATH": "/usr/bin", "CUDA_VISIBLE_DEVICES": "1", "SIZE": "3", "RATIO": "1/2"
    }  # fmt: skip


def test_an_entry_that_stands_twice_is_sent_once(import_path, roots, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    root, there = roots
    assert import_path([str(root), STDLIB, "", str(root)], [STDLIB], root, there) == [str(there), STDLIB]


@pytest.mark.parametrize("value", [None, True, 2**63 - 1, 0.5, "é", ["a", 1], {"a": [1, {"b": None}]}])
def test_an_option_of_plain_values_travels(value):
    assert can_be_sent(value)
    sent = start.Start(".", (), {"option": value}, (), (), {})
    assert decode_order(encode(sent)) == sent


class Unwilling:
    __hash__ = None

    def __eq__(self, other):
        raise TypeError("not to be compared")


@pytest.mark.parametrize("value", [2**64, {1, 2}, ("a",), object(), Unwilling(), "\ud800", print])
def test_an_option_that_would_not_arrive_as_it_is_stays(value):
    assert not can_be_sent(value)


def test_what_reports_or_orders_stays_with_the_parent(pytestconfig):
    begun = start.start_of(pytestconfig, ["test_kernel.py::test_kernel"])
    assert begun.options["tbstyle"] == pytestconfig.option.tbstyle
    assert not {"basetemp", "keyword", "maxfail", "lf", "tune", "numprocesses"} & begun.options.keys()
    assert begun.tests == ("test_kernel.py::test_kernel",)
    assert decode_order(encode(begun)) == begun


def test_a_worker_is_no_other_tools_worker(pytestconfig, monkeypatch):
    for name in ("PYTEST_XDIST_WORKER", "COV_CORE_SOURCE", "PYTEST_ADDOPTS"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("KERNELS", "kept")
    environment = start.start_of(pytestconfig, ()).environment
    assert environment["KERNELS"] == "kept" and environment["PYTHONUNBUFFERED"] == "1"
    assert not [name for name in environment if name.startswith(("PYTEST_XDIST", "COV_", "PYTEST_ADDOPTS"))]


def test_a_worker_imports_nothing_that_judges_or_searches():
    code = (
        "import sys, pytest_compileiq.plugin, pytest_compileiq.workers.worker_plugin, pytest_compileiq.workers.tasks; "
        "print(*sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rooms = {name.split(".")[1] for name in told if name.startswith("pytest_compileiq.")}
    assert not rooms & {"outcome", "search", "tuning", "replay", "proof", "report", "engines", "artifact"}
    assert "pytest_compileiq.rules.staleness" not in told
    assert "pytest_compileiq.toolchains.option_classes" not in told
    assert not {"numpy", "scipy", "pydantic", "git", "sqlite3"} & set(told)  # each process of a proof would wait for it


def test_a_worker_waits_for_few_dataclasses_of_ours():
    """Each takes a process a millisecond to import: those that nobody outside constructs are structs."""
    code = (
        "import sys, pytest_compileiq.plugin, pytest_compileiq.workers.worker_plugin, pytest_compileiq.workers.tasks, "
        "pytest_compileiq.toolchains.cc.builder\n"
        "ours = [each for each in list(sys.modules.values()) if each.__name__.startswith('pytest_compileiq.')]\n"
        "made = {kind for each in ours for kind in vars(each).values() if '__dataclass_fields__' in getattr(kind, '__dict__', {})}\n"
        "print(*{f'{kind.__module__}.{kind.__qualname__}' for kind in made if isinstance(kind, type)})"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    # So are those that a project without tuned tests imports, which imports no msgspec.
    documented = (
        "config",
        "model",
        "samples",
        "space",
        "toolchains.base",
        "benchmark.marker",
        "benchmark.fixture",
        "toolchains.cc.marker",
    )
    inside = {name.removeprefix("pytest_compileiq.") for name in told}
    assert {name for name in inside if not name.startswith(documented)} == {
        "timing.checked.CheckedBlock", "rules.classes.Classed",
        "toolchains.steps.Links", "toolchains.cc.builder.CcBuilder",
    }  # fmt: skip
