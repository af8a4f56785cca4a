"""The pages for whoever works on this package name files, rooms, targets and tables that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pytest_compileiq
from pytest_compileiq import artifact, claim, reduction
from pytest_compileiq.table import Table

PACKAGE = Path(pytest_compileiq.__file__).parent
ROOT = PACKAGE.parent
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|toml)))`")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_files_and_directories_that_exist(page):
    named = PATH.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    missing = [name for name in named if not ((ROOT / name).exists() or (PACKAGE / name).exists())]
    assert not missing


def test_every_room_is_drawn():
    drawing = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("```")[1]
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    assert {name for name in rooms | modules if not re.search(rf"\b{name}\b", drawing)} == set()


def test_the_runner_has_the_targets_that_are_named():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {word for call in re.findall(r"make ((?:[a-z-]+ ?)+)", text) for word in call.split()}
    listed = set(re.search(r"everything else: ([a-z, -]+)", text)[1].split(", "))
    assert (named | listed) - set(TARGETS) == set()


@pytest.mark.parametrize("module", [artifact, claim, reduction])
def test_every_table_on_disk_is_on_the_page_of_the_schema(module):
    page = (ROOT / "docs/reference/schema.md").read_text(encoding="utf-8")
    members = re.search(rf"^::: {module.__name__}\n.*\n +members: \[(.*)\]", page, re.MULTILINE)[1].split(", ")
    tables = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Table)]
    assert {each.__name__ for each in tables if each.__module__ == module.__name__} <= set(members)
