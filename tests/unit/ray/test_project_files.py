"""What of a project travels: what git tracks or does not ignore, and what stays, by name."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.ray import remote_files
from pytest_compileiq.ray.remote_files import editable_installs, expect_own_code, listed, modules_astray, pack_project
from tests.files import write_files
from tests.repository import git

CACHES = {
    "__pycache__/k.pyc": "1", ".compileiq/journal": "1", "env/pyvenv.cfg": "1", "env/bin/python": "1",
    ".pytest_cache/CACHEDIR.TAG": "1", ".pytest_cache/v": "1",
}  # fmt: skip
OWN = {"k.c": "1", "tests/test_k.py": "1", "acf/k/x.toml": "1"}


@pytest.fixture
def root(tmp_path):
    return write_files(tmp_path / "project", OWN)


def test_without_a_repository_all_travels_but_caches_and_environments(root):
    write_files(root, CACHES)
    assert listed(root).names == ("acf/k/x.toml", "k.c", "tests/test_k.py")


def test_what_git_tracks_or_does_not_ignore_travels(root):
    write_files(root, {".gitignore": "data/\n.pytest_cache/\nenv/\n", "data/large": "1", "data/kept": "1", **CACHES})
    git(root, "init", "-q")
    git(root, "add", "k.c", "acf")
    git(root, "add", "--force", "data/kept")
    (root / "acf/k/x.toml").unlink()
    assert listed(root).names == (".gitignore", "data/kept", "k.c", "tests/test_k.py")
    assert listed(root / "tests").names == ("test_k.py",)


def test_a_repository_within_travels_too_and_one_that_ignores_the_whole_project_does_not_decide(root):
    git(root.parent, "init", "-q")
    (root.parent / ".gitignore").write_text("project/\n")
    assert listed(root).names == tuple(sorted(OWN))
    (root.parent / ".gitignore").unlink()
    write_files(root / "library", {"l.c": "1", ".gitignore": "*.o\n", "l.o": "1"})
    git(root / "library", "init", "-q")
    assert listed(root).names == tuple(sorted([*OWN, "library/.gitignore", "library/l.c"]))


def test_links_travel_that_stay_inside_and_others_are_named(root, tmp_path):
    (tmp_path / "outside").write_text("1")
    (root / "in.c").symlink_to("k.c")
    (root / "folder").symlink_to("tests")
    (root / "out.c").symlink_to(tmp_path / "outside")
    found = listed(root)
    assert found.names == tuple(sorted([*OWN, "in.c", "folder"])) and found.links_out == ("out.c",)
    said = []
    pack_project(root, tmp_path / "contents", said.append)
    assert said == ["out.c of the project lead out of it, and do not travel"]


def test_a_large_project_is_told_and_one_that_is_too_large_is_refused_by_its_largest(root, tmp_path, monkeypatch):
    said = []
    (root / "data").mkdir()
    (root / "data/large").write_bytes(bytes(3 * 2**20))
    monkeypatch.setattr(remote_files, "LARGE_BYTES", 2**20)
    assert pack_project(root, tmp_path / "contents", said.append).size == 3 * 2**20 + len(OWN)
    assert said == ["3 MiB of the project travel to each such node: data 3, acf 0, k.c 0: what .gitignore names stays "
                    "here"]  # fmt: skip
    monkeypatch.setattr(remote_files, "MOST_BYTES", 2 * 2**20)
    with pytest.raises(EnvironmentFault, match=r"has 3 MiB, and at most 2 travel .*: data 3, .* in \.gitignore"):
        pack_project(root, tmp_path / "contents", said.append)


def test_a_name_that_no_message_can_hold_is_refused(root, tmp_path):
    (root / "k\udcff.c").write_text("1")
    with pytest.raises(EnvironmentFault, match=r"no UTF-8 .*: rename it"):
        pack_project(root, tmp_path / "contents", print)


class Installed(Distribution):
    def __init__(self, name, direct_url):
        self._texts = {"METADATA": f"Name: {name}\n", "direct_url.json": direct_url}

    def read_text(self, filename):
        return self._texts.get(filename)

    def locate_file(self, path):
        return Path(path)


def editable(name, place):
    return Installed(name, f'{{"url": "file://{place}", "dir_info": {{"editable": true}}}}')


def test_editable_installs_are_those_whose_installer_says_so():
    others = [Installed("wheel", None), Installed("odd", "[]"), Installed("copy", '{"url": "file:///x"}')]
    assert editable_installs([editable("mine", "/src/my%20code"), *others]) == {"mine": Path("/src/my code")}


def test_an_editable_install_lies_inside_or_the_run_is_refused(root, monkeypatch, tmp_path):
    installs = [editable("inner", root / "inner"), editable("pytest-compileiq", "/src/elsewhere")]
    monkeypatch.setattr(remote_files.importlib.metadata, "distributions", lambda: installs)
    monkeypatch.setattr(remote_files, "modules_astray", lambda *_: iter([]))
    expect_own_code(root, ())
    installs.append(editable("kernels", tmp_path / "kernels"))
    with pytest.raises(EnvironmentFault, match=r"kernels is installed editable from .*: install it as a copy, pip "):
        expect_own_code(root, ())


def test_a_run_whose_tests_import_what_would_not_travel_is_refused(root, monkeypatch):
    monkeypatch.setattr(remote_files.importlib.metadata, "distributions", list)
    monkeypatch.setattr(remote_files, "modules_astray", lambda *_: iter([("kernels", "/src/kernels.py")]))
    with pytest.raises(
        EnvironmentFault, match=r"import kernels from /src/kernels\.py, .*: install it, or move it into"
    ):
        expect_own_code(root, ())


def test_a_module_that_was_imported_from_elsewhere_is_astray(root):
    files = {
        "os": "/usr/lib/python3/os.py", "numpy": "/site/numpy/__init__.py", "test_k": f"{root}/tests/test_k.py",
        "__main__": "/usr/bin/pytest", "pytest_compileiq.plugin": "/src/pytest_compileiq/plugin.py", "sys": None,
        "kernels": "/src/kernels.py",
    }  # fmt: skip
    assert [*modules_astray(files, root, ("/usr/lib/python3", "/site"))] == [("kernels", "/src/kernels.py")]
