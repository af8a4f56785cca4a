"""Entries of the build cache: whole or none, whoever writes beside or damages them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pytest_compileiq.model import CodeDigest, sha256_hex
from pytest_compileiq.store.build_cache import BuildCache, CacheEntry, Installed
from pytest_compileiq.system.seen_files import SeenFiles

KEY, OTHER_KEY = "a" * 64, "b" * 64


@pytest.fixture
def header(tmp_path: Path) -> Path:
    path = tmp_path / "a.h"
    path.write_text("content")
    return path


@pytest.fixture
def entry(header: Path) -> CacheEntry:
    return CacheEntry(
        files={str(header): sha256_hex(b"content")},
        absent={str(header.parent): ("a.h.gch",)},
        installed=Installed({}, {}).encoded(),
        sources={"a.h": sha256_hex(b"content")},
        code={"kernel": CodeDigest("c" * 64, {"code_bytes": 7}, "kernel")},
        metrics={"code_bytes": 7},
        log="a warning\n",
        seconds=0.25,
        built_at=1_700_000_000,
        sizes={"kernel.so": 8, "kernel.o": 7, "_empty": 0},
        data=b"\x7fELF\n\0an" + b"d more\n",
    )


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    made = BuildCache(tmp_path)
    made.make_ready()
    return made


def found(cache: BuildCache, key: str = KEY) -> CacheEntry | None:
    hit = cache.find(key, SeenFiles())
    return hit[1] if hit else None


def test_what_is_kept_is_found_as_it_was(cache, entry):
    assert cache.keep(KEY, entry)
    assert found(cache) == entry
    assert found(cache, OTHER_KEY) is None
    assert dict(entry.contents()) == {"kernel.so": b"\x7fELF\n\0an", "kernel.o": b"d more\n", "_empty": b""}
    assert entry.when == "2023-11-14 22:13 UTC"


def test_git_does_not_see_it(cache, tmp_path):
    assert (tmp_path / ".compileiq" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("change", ["edit", "delete", "shadow"])
def test_an_input_that_changes_is_a_miss_until_it_is_back(cache, entry, header, change):
    cache.keep(KEY, entry)
    if change == "edit":
        header.write_text("CONTENT")
    elif change == "delete":
        header.unlink()
    else:
        Path(f"{header}.gch").write_text("precompiled")
    assert found(cache) is None
    header.write_text("content")
    Path(f"{header}.gch").unlink(missing_ok=True)
    assert found(cache) == entry


def test_what_is_installed_is_looked_at_once_in_a_run(cache, entry, header, tmp_path):
    tool = tmp_path / "cc1"
    tool.write_text("one")
    installed = Installed({str(tool): sha256_hex(b"one")}, {str(tmp_path): ("cc1plus",)}).encoded()
    cache.keep(KEY, replace(entry, installed=installed))
    assert found(cache)
    tool.write_text("two")
    assert found(cache)
    assert found(BuildCache(tmp_path)) is None
    tool.write_text("one")
    (tmp_path / "cc1plus").touch()
    assert found(BuildCache(tmp_path)) is None
    (tmp_path / "cc1plus").unlink()
    assert found(BuildCache(tmp_path))


@pytest.mark.parametrize("text", [b"{}", b"[]", b'{"files": {}, "absent": 3}'])
def test_an_entry_that_does_not_say_what_is_installed_is_a_miss(cache, entry, text):
    cache.keep(KEY, replace(entry, installed=msgspec.Raw(text)))
    assert found(cache) is None


def test_a_path_without_a_text_is_not_kept(cache, entry):
    assert not cache.keep(KEY, replace(entry, files={"/odd\udcff.h": "0" * 64}))
    cache.keep(KEY, replace(entry, installed=Installed({"/odd\udcff.h": "0" * 64}, {}).encoded()))
    assert found(cache) is None


def test_every_damage_is_a_miss(cache, entry):
    cache.keep(KEY, entry)
    path = cache.stored()[0].path
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert found(cache) is None
        path.write_bytes(whole[:place])
        assert found(cache) is None
    path.write_bytes(whole)
    assert found(cache) == entry


@pytest.mark.parametrize(
    "content",
    [b"", b"[]\n", b"{}\n", b"\xff\n", b'{"files": 3}\n', b"[" * 100_000, b"null\n", b'{"a": 1e999}\nrest'],
)
def test_an_entry_with_the_right_digest_and_no_sense_is_a_miss(cache, content):
    folder = cache.root / KEY
    folder.mkdir()
    (folder / sha256_hex(content)).write_bytes(content)
    assert found(cache) is None


@pytest.mark.parametrize("built_at", [-1, 10**12, 2**63 - 1])
def test_cache_entry_of_no_year_is_a_miss(cache, entry, built_at):
    cache.keep(KEY, replace(entry, built_at=built_at))
    assert found(cache) is None


@pytest.mark.parametrize(
    "sizes",
    [
        *({name: 15} for name in ("../outside", "/etc/passwd", "", ".", "..", "a/b", "a\0b", "a" * 300)),
        {},
        {"kernel.so": 14},
        {"kernel.so": 16},
        {"kernel.so": 20, "kernel.o": -5},
    ],
)
def test_an_entry_names_no_other_place_and_no_other_size(cache, entry, sizes):
    cache.keep(KEY, replace(entry, sizes=sizes))
    assert found(cache) is None


def test_a_link_is_not_followed(cache, entry, tmp_path):
    cache.keep(KEY, entry)
    path = cache.stored()[0].path
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert found(cache) is None


def test_of_two_builds_that_hold_either_may_be_given(cache, entry):
    later = replace(entry, built_at=1_800_000_000)
    assert cache.keep(KEY, entry)
    assert cache.keep(KEY, later)
    assert found(cache) in (entry, later)


def test_a_key_holds_few_entries(cache, entry):
    for number in range(20):
        cache.keep(KEY, replace(entry, built_at=number))
    assert len(cache.stored()) == 8


def test_trimming_removes_what_was_not_used_for_longest(cache, entry):
    for number, key in enumerate((KEY, OTHER_KEY)):
        cache.keep(key, entry)
        stored = next(each for each in cache.stored() if each.path.parent.name == key)
        os.utime(stored.path, (number, number))
    assert found(cache, KEY) == entry  # its use is noted
    cache.trim(stored.size_bytes)
    assert [left.path.parent.name for left in cache.stored()] == [KEY]
    assert not (cache.root / OTHER_KEY).exists()
    cache.trim(0)
    assert cache.stored() == []


def test_trimming_removes_what_a_killed_writer_left_and_no_other_file(cache, entry):
    cache.keep(KEY, entry)
    old, new, foreign = (cache.root / KEY / name for name in (".partial-old", ".partial-new", "foreign"))
    for path in (old, new, foreign):
        path.write_text("half")
    os.utime(old, (0, 0))
    cache.trim()
    assert [path.exists() for path in (old, new, foreign)] == [False, True, True]


@pytest.mark.parametrize("place", [".compileiq", ".compileiq/builds"])
def test_a_cache_that_cannot_be_made_holds_nothing(tmp_path, entry, place):
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("a file")
    cache = BuildCache(tmp_path)
    cache.make_ready()
    assert not cache.keep(KEY, entry)
    cache.trim()
    assert (found(cache), cache.stored()) == (None, [])


def test_a_full_disk_keeps_nothing_and_leaves_nothing(cache, entry, monkeypatch):
    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pytest_compileiq.system.files.os.fdopen", full)
    assert not cache.keep(KEY, entry)
    monkeypatch.undo()
    assert cache.stored() == []
    assert not list((cache.root / KEY).iterdir())


def test_why_builds_are_not_kept_is_noted_until_they_are(tmp_path):
    cache = BuildCache(tmp_path)
    cache.note("one-baseline", None)
    assert not cache.root.exists()
    for build in ("one-baseline", "one-tuned", "two-tuned"):
        cache.note(build, "a.h: it does" if build.startswith("one") else "-flto is not modelled" + "!" * 5000)
    assert dict(cache.not_kept()) == {"a.h: it does": 2, f"-flto is not modelled{'!' * 1979}": 1}
    cache.note("two-tuned", None)
    os.utime(cache.root / "not-kept" / "one-tuned", (0, 0))  # a test that is no more
    assert dict(cache.not_kept()) == {"a.h: it does": 1}
    (cache.root / "not-kept" / "linked").symlink_to(tmp_path)
    cache.trim(0)
    assert dict(cache.not_kept()) == {"a.h: it does": 1}
    assert not (cache.root / "not-kept" / "one-tuned").exists()
