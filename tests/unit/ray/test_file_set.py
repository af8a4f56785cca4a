"""Files that travel arrive as they were read, once, and nowhere but below the place that they are for."""

from __future__ import annotations

import hashlib

import pytest
from msgspec.msgpack import encode

from pytest_compileiq.ray import remote_files
from pytest_compileiq.ray.remote_files import Arrivals, Chunk, FileEntry, Spoilt, packed
from tests.files import write_files

DATA = b"data"
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def sent(tmp_path):
    """Files of ``here``, packed."""
    root = write_files(tmp_path / "here", {"a.c": "a" * 25, "src/b.c": "b", "src/empty": "", "src/again.c": "b"})
    (root / "run.sh").write_text("exit")
    (root / "run.sh").chmod(0o755)
    (root / "src/link.c").symlink_to(root / "a.c")
    names = ["a.c", "run.sh", "src/again.c", "src/b.c", "src/empty", "src/link.c"]
    return packed(root, names, tmp_path / "contents")


@pytest.fixture
def arrivals(tmp_path):
    return Arrivals(tmp_path / "arriving")


def test_files_arrive_with_their_contents_their_links_and_what_may_be_executed(sent, arrivals, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_files, "CHUNK_BYTES", 10)
    messages = [*sent.messages()]
    assert len(messages) == 4  # 25, 4, 1 and 0 bytes: the content that is there twice travels once
    for message in messages:
        arrivals.take(message)
    there = tmp_path / "there"
    arrivals.unpack(sent.manifest(), there)
    assert (there / "a.c").read_text() == "a" * 25
    assert (there / "src/b.c").read_text() == (there / "src/again.c").read_text() == "b"
    assert (there / "src/empty").read_bytes() == b""
    assert (there / "src/link.c").readlink().as_posix() == "../a.c"
    executable = {path.name for path in there.rglob("*") if path.stat().st_mode & 0o100 and path.is_file()}
    assert executable == {"run.sh"}
    assert not (tmp_path / "arriving").exists()
    assert str(tmp_path) not in (sent.manifest() + b"".join(messages)).decode(errors="replace")


def test_what_was_read_travels_whatever_becomes_of_the_file(sent, arrivals, tmp_path):
    (tmp_path / "here/a.c").write_text("changed")
    for message in sent.messages():
        arrivals.take(message)
    arrivals.unpack(sent.manifest(), tmp_path / "there")
    assert (tmp_path / "there/a.c").read_text() == "a" * 25


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (FileEntry("../out", DIGEST, 4), "outside"),
        (FileEntry("/tmp/out", DIGEST, 4), "outside"),
        (FileEntry("in/../../out", DIGEST, 4), "outside"),
        (FileEntry("link", "", 0, target="../out"), "outside"),
        (FileEntry("link", "", 0, target="/etc/passwd"), "outside"),
        (FileEntry(".", DIGEST, 4), "arrived twice"),
        (FileEntry("k\0.c", DIGEST, 4), "no path"),
        (FileEntry("k.c", "0" * 64, 4), "did not arrive"),
        (FileEntry("k.c", "../k.c", 4), "no digest"),
    ],
)
def test_a_manifest_that_leads_elsewhere_is_refused(arrivals, tmp_path, entry, reason):
    arrivals.take(encode([Chunk(DIGEST, DATA)]))
    with pytest.raises(Spoilt, match=reason):
        arrivals.unpack(encode([entry]), tmp_path / "there")
    assert not (tmp_path / "out").exists()


def test_links_that_lead_out_together_are_refused(arrivals, tmp_path):
    with pytest.raises(Spoilt, match="outside"):
        arrivals.unpack(
            encode([FileEntry("a", "", 0, target="b/.."), FileEntry("b", "", 0, target=".")]), tmp_path / "there"
        )


def test_no_file_goes_through_a_link_that_arrives_with_it(arrivals, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "there/link").symlink_to("../elsewhere")
    arrivals.take(encode([Chunk(DIGEST, DATA)]))
    with pytest.raises(Spoilt, match="outside"):
        arrivals.unpack(encode([FileEntry("link/k.c", DIGEST, 4)]), tmp_path / "there")


def test_a_content_that_is_another_one_on_arrival_is_refused(arrivals, tmp_path):
    arrivals.take(encode([Chunk(DIGEST, DATA + b"!")]))
    with pytest.raises(Spoilt, match="did not arrive as it was sent"):
        arrivals.unpack(encode([FileEntry("k.c", DIGEST, 4)]), tmp_path / "there")


@pytest.mark.parametrize("message", [b"", b"\xff", encode([{"sha256": "../x", "data": b"1"}]), encode(["k"])])
def test_a_message_that_is_none_is_refused(arrivals, tmp_path, message):
    with pytest.raises(Spoilt):
        arrivals.take(message)
    assert not (tmp_path / "x").exists()
