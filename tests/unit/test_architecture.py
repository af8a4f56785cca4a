"""The layout shows the architecture: imports run downwards, and a test names what runs up."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_compileiq

PACKAGE = Path(pytest_compileiq.__file__).parent
LAYERS = (
    (
        "values",
        ("model", "artifact", "space", "errors", "config", "named_options", "printing", "acf_runtime", "__init__"),
    ),
    ("rules", ("rules",)),
    (
        "world",
        (
            "process",
            "watchdog",
            "files",
            "journal",
            "metadata",
            "store",
            "history",
            "parallel",
            "samples",
            "packs",
            "project_settings",
            "vcs",
            "benchmark",
            "assertions",
            "worker",
            "worker_config",
            "inside",
            "trackers",
        ),
    ),
    ("families", ("toolchains", "engines", "timing", "report")),
    (
        "evaluation",
        (
            "marker",
            "builds",
            "fixture",
            "frameworks",
            "subject",
            "timed_call",
            "evaluate",
            "pool",
            "advice",
            "scoring",
            "finalists",
            "exact",
        ),
    ),
    (
        "use cases",
        (
            "search",
            "prove",
            "calibration",
            "record",
            "incumbent",
            "reproduce",
            "tune",
            "integrity",
            "replay",
            "lifecycle",
            "doctor",
            "sides",
            "review",
            "listing",
            "orphans",
            "starter",
            "ship",
            "ship_runtime",
            "binaries",
            "ship_verify",
        ),
    ),
    ("session", ("session",)),
    (
        "surface",
        (
            "plugin",
            "testing",
            "fakes",
            "cli",
            "cli_lifecycle",
            "cli_locate",
            "cli_project",
            "cli_report",
            "cli_review",
            "cli_ship",
        ),
    ),
)
LEVEL = {module: level for level, (_, modules) in enumerate(LAYERS) for module in modules}
# Lazily, by name: the public names' homes, and the marker's toolchain whose work is done behind a local import.
FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path):
    """(line, first module under the package) of every import of our own, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module]
                if node.module != "pytest_compileiq"
                else [f"pytest_compileiq.{one.name}" for one in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "pytest_compileiq" and len(parts) > 1 and parts[1] in LEVEL:
                yield node.lineno, parts[1]


def test_every_module_has_a_layer():
    assert {module_of(path) for path in FILES} == set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_import_runs_upward(path):
    mine = module_of(path)
    if mine == "__init__":
        return  # public names are looked up when they are used
    for line, other in imports(path):
        assert LEVEL[other] <= LEVEL[mine], (
            f"{path.relative_to(PACKAGE)}:{line}: {mine} ({LAYERS[LEVEL[mine]][0]}) imports {other} ({LAYERS[LEVEL[other]][0]})"
        )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_fits_in_the_head(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= (230 if path.name == "plugin.py" else 400)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_is_public_says_what_it_is(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module has no docstring"
    silent = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not silent


def test_rules_touch_no_file_clock_process_or_random_module():
    forbidden = {"os", "pathlib", "time", "subprocess", "random", "socket", "threading", "tempfile"}
    for path in (PACKAGE / "rules").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = {
            alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        used |= {
            node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
        }
        assert not used & forbidden, f"{path.name} imports {used & forbidden}"
