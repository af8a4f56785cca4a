"""Controls from elsewhere: directories, booster packs and artifacts, honest and hostile."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.store import packs
from pytest_compileiq.store.packs import MANIFEST, read_candidates

MEMBERS = {"a.acf": b"first", "b.acf": b"second"}


def manifest(members: dict[str, bytes], **changes) -> dict:
    listed = [
        {"filename": name, "sha256": sha256_hex(data), "size_bytes": len(data), "kernel": "attention"}
        for name, data in members.items()
    ]
    return {"pack_id": "p", "catalog_version": "1", "release_tag": "t", "acfs": listed} | changes


def make_zip(path: Path, members: dict[str, bytes], listed: dict | None = None, folder: str = "pack/") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(folder + MANIFEST, json.dumps(manifest(members) if listed is None else listed))
        for name, data in members.items():
            archive.writestr(folder + name, data)
    return path


def drawn(path: Path) -> dict[str, bytes | None]:
    return {candidate.origin: candidate.blob for candidate in read_candidates(path)}


def test_a_directory_an_unpacked_pack_a_zip_and_one_file_give_the_same_candidates(tmp_path):
    plain, pack = tmp_path / "plain", tmp_path / "pack"
    for folder in (plain, pack):
        folder.mkdir()
        for name, data in MEMBERS.items():
            (folder / name).write_bytes(data)
    (pack / MANIFEST).write_text(json.dumps(manifest(MEMBERS)))
    zipped = make_zip(tmp_path / "pack.zip", MEMBERS)
    assert drawn(plain) == drawn(pack) == drawn(zipped) == MEMBERS
    assert drawn(plain / "a.acf") == {"a.acf": b"first"}


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([], "not a booster pack's manifest"),
        ({}, "not a booster pack's manifest"),
        ({"acfs": []}, "expected a list of 1 to"),
        ({"acfs": [{"filename": "../a.acf"}]}, "expected a plain name"),
        ({"acfs": [{"filename": "/etc/a.acf"}]}, "expected a plain name"),
        ({"acfs": [{"filename": "a.txt"}]}, "expected a plain name"),
        ({"acfs": [7]}, "expected a plain name"),
        ({"acfs": [{"filename": "none.acf"}]}, "holds 0 files called none.acf"),
        ({"acfs": [{"filename": "a.acf", "sha256": "0" * 64, "size_bytes": 5}]}, "is not what"),
        ({"acfs": [{"filename": "a.acf", "sha256": sha256_hex(b"first"), "size_bytes": 6}]}, "is not what"),
        ({"acfs": manifest(MEMBERS)["acfs"] * 2}, "lists a member twice"),
    ],
)
def test_a_pack_with_one_wrong_member_gives_no_candidate_at_all(tmp_path, listed, said):
    with pytest.raises(StoreError, match=said):
        read_candidates(make_zip(tmp_path / "pack.zip", MEMBERS, listed))


def test_what_is_no_pack_is_one_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.zip").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as archive:
        archive.writestr("a.acf", b"x")
    for name, said in {
        "empty": "expected a directory of .acf files",
        "nowhere": "expected a directory of .acf files",
        "text.zip": "not a zip that can be read",
        "plain.zip": "holds 0 files called",
        "nowhere.acf": "is missing",
    }.items():
        with pytest.raises(StoreError, match=said):
            read_candidates(tmp_path / name)


def test_a_link_an_empty_file_and_a_large_one_are_refused(tmp_path):
    (tmp_path / "real.acf").write_bytes(b"x")
    for name, make in {
        "link": lambda path: path.symlink_to(tmp_path / "real.acf"),
        "empty": lambda path: path.write_bytes(b""),
        "large": lambda path: path.write_bytes(bytes((1 << 20) + 1)),
    }.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name / "k.acf")
        with pytest.raises(StoreError, match=r"is a link|is empty|at most 1048576"):
            read_candidates(tmp_path / name)


def test_pack_sum_of_members_is_bounded_and_a_pipe_never_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(packs, "MOST_BYTES", 3)
    (tmp_path / "pack").mkdir()
    for name in ("a", "b"):
        (tmp_path / "pack" / f"{name}.acf").write_bytes(b"xx")
    with pytest.raises(StoreError, match="pack: its ACFs have more than 3 bytes together"):
        read_candidates(tmp_path / "pack")
    for name in ("pipe.acf", "pipe.zip"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(StoreError, match="is no regular file"):
            read_candidates(tmp_path / name)


def test_a_member_that_unpacks_to_more_than_it_says_is_not_unpacked_further(tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest({"a.acf": b"x"})))
        archive.writestr("a.acf", bytes(64 << 20))
    with pytest.raises(StoreError, match=r"a\.acf: more than 1048576 bytes"):
        read_candidates(path)


@settings(max_examples=60)
@given(junk=st.binary(max_size=400), at=st.integers(0, 400))
@example(junk=bytes([0, 0, 0, 8, *[0] * 19, 2]), at=4)  # the name is said to be UTF-8, and is longer than it is
def test_a_torn_or_scribbled_zip_gives_its_members_or_a_sentence(tmp_path_factory, junk, at):
    path = make_zip(tmp_path_factory.mktemp("zip") / "pack.zip", MEMBERS)
    data = path.read_bytes()
    path.write_bytes(data[:at] + junk + data[at + len(junk) :])
    try:
        assert set(drawn(path).values()) <= set(MEMBERS.values())
    except StoreError as error:
        assert "\n" not in str(error)
