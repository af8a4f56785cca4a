"""A view of a project at another place: copies of what the compiler reads, links to all else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.tuning.baseline import lay_out


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in (
        "area/project/tests/k/k.c",
        "area/project/include/k.h",
        "area/project/data/big.bin",
        "area/common/s.h",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "area/project/tests/__pycache__").mkdir()
    return Place(tmp_path / "area/project/tests", tmp_path / "area/project")


def links(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_symlink()}


def test_what_is_read_is_copied_and_the_rest_is_linked_where_it_was(place, tmp_path):
    home = tmp_path / "home"
    moved = lay_out(place, ["tests/k/k.c", "/usr/include/math.h", "package/installed.py"], ["cc", "-Iinclude"], home)
    assert moved == Place(home / "tests", home)
    assert (moved.rootdir / "tests/k/k.c").read_text() == "area/project/tests/k/k.c"
    assert (moved.rootdir / "data/big.bin").read_text() == "area/project/data/big.bin"
    assert links(home) == {"include", "data"}, "Python would write its cache through a link to the original's"


@pytest.mark.parametrize(
    ("file", "word"),
    [("../common/s.h", "-O2"), ("tests/k/k.c", "-I../common"), ("tests/../../x/../common/s.h", "-I../x/../../area/x")],
)
def test_what_lies_above_rootdir_is_found_by_the_same_words(place, tmp_path, file, word):
    (tmp_path / "area/x").mkdir()
    home = tmp_path / "home"
    moved = lay_out(place, [file], [word], home)
    assert moved.rootdir.is_relative_to(home) and moved.rootdir.name == "project"
    assert (moved.rootdir / "../common/s.h").read_text() == "area/common/s.h"
    assert set(tmp_path.iterdir()) == {tmp_path / "area", home}, "something was written beside the view"
