"""Files from elsewhere are read as regular files within bounds, and files for others appear whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_compileiq import files
from pytest_compileiq.files import Unfit, inside, read_regular, replace, write_output

ODD = {
    "missing": (lambda path: None, "is missing"),
    "a link": (lambda path: path.symlink_to("/etc/hostname"), "is a link"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "is a link"),
    "a directory": (lambda path: path.mkdir(), "is no regular file"),
    "a pipe that nobody writes to": (os.mkfifo, "is no regular file"),
    "too large": (lambda path: path.write_bytes(bytes(101)), "has 101 bytes, and at most 100 are read"),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_what_is_no_regular_file_within_bounds_is_not_read(tmp_path, what):
    make, why = ODD[what]
    make(tmp_path / "it")
    with pytest.raises(Unfit, match=why):
        read_regular(tmp_path / "it", 100)


@pytest.mark.parametrize("name", ["x\0y", "x" * 5000, "\udcff"])
def test_a_name_that_no_file_can_have_is_not_read(tmp_path, name):
    with pytest.raises(Unfit):
        read_regular(tmp_path / name, 100)


def test_devices_are_not_read():
    with pytest.raises(Unfit, match="is no regular file"):
        read_regular(files.Path("/dev/zero"), 100)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "out", "out/secret", "loop", "x\0"])
def test_a_path_that_leaves_the_root_is_refused(tmp_path, name):
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (tmp_path / "secret").write_text("s")
    (root / "out").symlink_to(tmp_path)
    (root / "loop").symlink_to("loop")
    with pytest.raises(Unfit):
        read_regular(inside(root, name), 100)


def test_a_link_within_the_root_is_followed_also_where_the_root_is_behind_one(tmp_path):
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "real" / "a" / "k.c").write_text("int k;")
    (tmp_path / "real" / "b").symlink_to("a")
    (tmp_path / "root").symlink_to("real")
    assert read_regular(inside(tmp_path / "root", "b/k.c"), 100) == b"int k;"


def test_a_file_is_replaced_as_a_whole_or_stays_and_nothing_else_is_left(tmp_path, monkeypatch):
    path = tmp_path / "page"
    replace(path, b"one")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device", "partial")))
    with pytest.raises(OSError, match="No space left") as caught:
        replace(path, b"two")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"one" and list(tmp_path.iterdir()) == [path] and path.stat().st_mode & 0o777 == 0o644


def test_a_killed_writer_leaves_the_old_file_whole(tmp_path):
    (tmp_path / "page").write_text("old")
    code = "import os, sys; from pathlib import Path; from pytest_compileiq.files import replace\n"
    code += "os.fsync = lambda _: os.kill(os.getpid(), 9)\nreplace(Path(sys.argv[1]), b'new')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "page")], check=False)
    assert (tmp_path / "page").read_text() == "old"


def test_output_goes_through_links_and_into_pipes(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_output(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)
    write_output(tmp_path / "pipe", "said")
    assert reader.communicate()[0] == "said" and (tmp_path / "pipe").is_fifo()
