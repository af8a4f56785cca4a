"""What is linked once: the same objects, beside one another."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pytest_compileiq.toolchains.cc.links import Links


class Linker:
    """Links by writing its objects one behind the other."""

    def __init__(self, home: Path) -> None:
        self.home, self.runs = home, 0

    def link(self, links: Links, name: str, *objects: bytes) -> Path:
        folder = self.home / name
        folder.mkdir(parents=True)
        paths = [folder / f"{number}.o" for number in range(len(objects))]
        for path, content in zip(paths, objects, strict=True):
            path.write_bytes(content)

        def run() -> None:
            self.runs += 1
            (folder / "kernel.so").write_bytes(b"".join(objects))
            (folder / "kernel.so").chmod(0o755)

        links.link(paths, folder / "kernel.so", run)
        return folder / "kernel.so"


def test_equal_objects_are_linked_once_and_each_build_has_its_own_file(tmp_path: Path) -> None:
    linker, links = Linker(tmp_path), Links()
    made = [linker.link(links, name, b"a", b"b") for name in ("first", "second")]
    assert linker.runs == 1 and [path.read_bytes() for path in made] == [b"ab"] * 2
    assert made[1].stat().st_mode & 0o777 == 0o755 and not made[0].samefile(made[1])


@pytest.mark.parametrize("others", [(b"b", b"a"), (b"ab",), (b"a",), (b"a", b"c")])
def test_other_objects_are_linked_by_themselves(tmp_path: Path, others: tuple[bytes, ...]) -> None:
    linker, links = Linker(tmp_path), Links()
    linker.link(links, "first", b"a", b"b")
    assert linker.link(links, "second", *others).read_bytes() == b"".join(others) and linker.runs == 2


def test_another_folder_of_builds_and_what_was_removed_are_linked_anew(tmp_path: Path) -> None:
    linker, links = Linker(tmp_path), Links()
    first = linker.link(links, "one/first", b"a")
    linker.link(links, "another/first", b"a")
    first.unlink()
    assert linker.link(links, "one/second", b"a").read_bytes() == b"a" and linker.runs == 3


def test_a_link_that_fails_is_tried_again(tmp_path: Path) -> None:
    links, tried = Links(), []

    def fail() -> None:
        tried.append(1)
        raise OSError

    (tmp_path / "a.o").write_bytes(b"a")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with pytest.raises(OSError):
            links.link([tmp_path / "a.o"], tmp_path / name / "kernel.so", fail)
    assert len(tried) == 2


def test_an_object_that_is_missing_is_the_linker_s_to_miss(tmp_path: Path) -> None:
    tried = []
    Links().link([tmp_path / "none.o"], tmp_path / "kernel.so", lambda: tried.append(1))
    assert tried == [1]


def test_another_process_has_its_own() -> None:
    assert isinstance(pickle.loads(pickle.dumps(Links())), Links)
