"""Contents are remembered only while a change would show."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from pytest_compileiq.system.seen_files import SeenFiles, signature_of

LONG_AGO_NS = 1_600_000_000_123_456_789


@pytest.fixture
def seen() -> SeenFiles:
    """One that takes a file's times at their word at once."""
    return SeenFiles(settled_ns=0)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_content_that_changes_is_read_again(seen, tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    assert seen.digest(str(path)) == digest("one")
    path.write_text("another")
    assert seen.digest(str(path)) == digest("another")


def test_what_was_just_written_is_not_remembered(tmp_path):
    """Another write within one tick of the file system's clock leaves the same signature."""
    path, seen = tmp_path / "a", SeenFiles()
    path.write_text("one")
    assert seen.digest(str(path)) == digest("one")
    assert not seen._digests


def test_what_has_settled_is_remembered(seen, tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("one")
    known = seen.digest(str(path))
    monkeypatch.setattr("pytest_compileiq.system.seen_files._sha256", lambda path: pytest.fail("read again"))
    assert seen.digest(str(path)) == known


@pytest.mark.parametrize(("touched_ns", "settles_after_ns"), [(LONG_AGO_NS, 100_000_000), (10**18, 2 * 10**9)])
def test_whole_seconds_take_longer_to_settle(touched_ns, settles_after_ns):
    signature = (0, 0, 0, 0, touched_ns, touched_ns)
    assert not SeenFiles().has_settled(signature, touched_ns + settles_after_ns - 1)
    assert SeenFiles().has_settled(signature, touched_ns + settles_after_ns)


def test_the_time_of_the_inode_counts_too(seen, tmp_path):
    """A content may be given back its old time; not so the inode."""
    path = tmp_path / "a"
    path.write_text("one")
    os.utime(path, ns=(0, LONG_AGO_NS))
    assert seen.digest(str(path)) == digest("one")
    path.write_text("two")
    os.utime(path, ns=(0, LONG_AGO_NS))
    assert seen.digest(str(path)) == digest("two")


def test_a_link_that_leads_elsewhere_is_another_file(seen, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "link"
    link.symlink_to("one")
    assert seen.digest(str(link)) == digest("one")
    link.unlink()
    link.symlink_to("two")
    assert seen.digest(str(link)) == digest("two")


@pytest.mark.parametrize("name", ["missing", "directory", "pipe", "a\0b"])
def test_what_is_no_file_has_no_content(seen, tmp_path, name):
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert seen.digest(f"{tmp_path}/{name}") is None


def test_names_come_and_go(seen, tmp_path):
    assert seen.names(str(tmp_path / "missing")) == frozenset()
    (tmp_path / "a").write_text("")
    assert seen.names(str(tmp_path)) == {"a"}
    (tmp_path / "b").write_text("")
    os.utime(tmp_path, ns=(0, LONG_AGO_NS))
    assert seen.names(str(tmp_path)) == {"a", "b"}
    assert seen.names(str(tmp_path / "a")) == frozenset()


def test_a_missing_file_has_no_signature(tmp_path: Path):
    assert signature_of(str(tmp_path / "missing")) is None
