"""Files from elsewhere are read as regular files within bounds, and files for others appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.system.files import (
    Unfit,
    inside,
    is_in_container,
    is_lock_dir_given,
    locked,
    locked_in_turn,
    machine_lock,
    read_regular,
    replace,
    write_output,
)

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


def test_read_regular_follows_links_if_told_and_ends_in_a_circle(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    assert read_regular(tmp_path / "link", 100, follow=True) == b"text"
    with pytest.raises(Unfit, match="cannot be read: Too many levels of symbolic links"):
        read_regular(tmp_path / "loop", 100, follow=True)


def test_devices_are_not_read():
    with pytest.raises(Unfit, match="is no regular file"):
        read_regular(Path("/dev/zero"), 100)


@pytest.mark.parametrize("name", ["loop", "loop/k.c", "loop/loop/..", "there/loop"])
def test_links_in_a_circle_lead_to_no_place(tmp_path, name):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "there").symlink_to("back")
    (tmp_path / "back").symlink_to("there")
    with pytest.raises(Unfit, match="is no path"):
        inside(tmp_path, name)


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


def test_a_killed_writer_leaves_the_old_file_whole_and_none_of_its_own(tmp_path):
    (tmp_path / "page").write_text("old")
    code = "import os, sys; from pathlib import Path; from pytest_compileiq.system.files import replace\n"
    code += "os.fsync = lambda _: os.kill(os.getpid(), 9)\nreplace(Path(sys.argv[1]), b'new')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "page")], check=False)
    assert (tmp_path / "page").read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "page"], "git add would commit it"


def test_output_goes_through_links_and_into_pipes(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_output(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)
    write_output(tmp_path / "pipe", "said")
    assert reader.communicate()[0] == "said" and (tmp_path / "pipe").is_fifo()


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────

HOLDER = """
import fcntl, os, sys
from pathlib import Path
from pytest_compileiq.system.files import locked
os.setuid(int(sys.argv[2]))
try:
    with locked(Path(sys.argv[1]), wait=False):
        print("held", flush=True)
        sys.stdin.read()
except BlockingIOError:
    print("taken", flush=True)
"""


def holder(path: Path, user: int | None = None) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", HOLDER, str(path), str(os.getuid() if user is None else user)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_one_process_holds_a_lock_and_its_end_frees_it(tmp_path):
    path = tmp_path / "it.lock"
    first = holder(path)
    assert first.stdout.readline() == "held\n"
    assert holder(path).communicate()[0] == "taken\n"
    with pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    first.kill()
    first.communicate()
    with locked(path):
        assert holder(path).communicate()[0] == "taken\n"


@pytest.fixture
def for_everybody():
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        Path(home).chmod(0o1777)
        yield Path(home)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as two users")
def test_users_of_one_machine_lock_each_other_out_whatever_their_umask(for_everybody):
    path = for_everybody / "it.lock"
    before = os.umask(0o077)
    try:
        with locked(path):
            assert holder(path, 65534).communicate()[0] == "taken\n"
    finally:
        os.umask(before)
    other = holder(path, 65534)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    other.communicate()


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("is a link", lambda path: path.symlink_to(path.with_name("victim"))),
        ("is no regular file", os.mkfifo),
        ("cannot be opened", lambda path: path.mkdir()),
    ],
)
def test_a_lock_file_that_somebody_else_laid_out_is_not_touched(tmp_path, what, make):
    (tmp_path / "victim").write_text("precious")
    make(tmp_path / "it.lock")
    with pytest.raises(EnvironmentFault, match=rf"the lock .*it\.lock {what}"), locked(tmp_path / "it.lock"):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_lock_that_the_machine_refuses_names_the_remedy(tmp_path):
    with (
        pytest.raises(EnvironmentFault, match=r"File name too long .* move the project"),
        locked(tmp_path / ("x" * 300)),
    ):
        pass


def test_a_lock_keeps_what_its_file_holds(tmp_path):
    (tmp_path / "it.lock").write_text("not ours")
    with locked(tmp_path / "it.lock"):
        pass
    assert (tmp_path / "it.lock").read_text() == "not ours"


def test_all_users_mean_the_same_lock_wherever_their_temporary_files_go(tmp_path, monkeypatch):
    monkeypatch.delenv("ACF_LOCK_DIR", raising=False)
    before = machine_lock("device cpu")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert machine_lock("device cpu") == before != machine_lock("device cuda")
    assert before.parent.stat().st_mode & 0o1002 == 0o1002 and not before.parent.is_relative_to(tmp_path)


def test_locks_lie_where_those_who_share_a_device_say(tmp_path, monkeypatch):
    monkeypatch.setenv("ACF_LOCK_DIR", str(tmp_path))
    assert is_lock_dir_given()
    assert machine_lock("device cpu").parent == tmp_path
    assert machine_lock("device cpu") != machine_lock("device cuda")

    monkeypatch.setenv("ACF_LOCK_DIR", "")
    assert not is_lock_dir_given()
    assert machine_lock("device cpu").parent != tmp_path


@pytest.mark.parametrize("what", ["gone", "a file", "closed"])
def test_a_directory_for_locks_that_cannot_be_used_says_so(tmp_path, monkeypatch, what):
    given = tmp_path / what
    if what == "a file":
        given.touch()
    if what == "closed":
        given.mkdir()
        monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (given, os.W_OK | os.X_OK))
    monkeypatch.setenv("ACF_LOCK_DIR", str(given))

    with pytest.raises(EnvironmentFault, match=rf"ACF_LOCK_DIR={given} is no directory that this user may write to: "):
        machine_lock("device cpu")


def test_who_waits_in_turn_says_so_until_the_lock_is_free(tmp_path):
    path, said = tmp_path / "it.lock", []
    with contextlib.ExitStack() as other:
        other.enter_context(locked(path))

        def waiting() -> None:
            said.append("waiting")
            if len(said) == 3:
                other.close()

        with locked_in_turn(path, waiting), pytest.raises(BlockingIOError), locked(path, wait=False):
            pass
    assert said == ["waiting"] * 3
    with locked(path, wait=False):
        pass


def test_docker_and_podman_mark_a_container(monkeypatch):
    marks = set()
    monkeypatch.setattr(Path, "exists", lambda path: str(path) in marks)
    assert not is_in_container()
    for mark in ("/.dockerenv", "/run/.containerenv"):
        marks |= {mark}
        assert is_in_container()
        marks.clear()
