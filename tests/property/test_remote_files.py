"""Files that travel: whatever they hold, they arrive as they are; whatever a manifest says, nothing leaves its place."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.msgpack import encode

from pytest_compileiq.ray import remote_files
from pytest_compileiq.ray.remote_files import Arrivals, Chunk, FileEntry, Spoilt, packed

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
TREES = st.dictionaries(NAMES, st.tuples(st.binary(max_size=40), st.booleans()), max_size=6)
STEPS = st.sampled_from(["..", ".", "a", "b", "", "/", "/etc"])
PATHS = st.lists(STEPS, min_size=1, max_size=5).map("/".join)


@given(TREES, st.integers(1, 30))
def test_what_is_packed_is_what_is_unpacked(tree, chunk_bytes):
    with tempfile.TemporaryDirectory() as home, patch.object(remote_files, "CHUNK_BYTES", chunk_bytes):
        here, there = Path(home) / "here", Path(home) / "there"
        here.mkdir()
        for name, (data, is_executable) in tree.items():
            (here / name).write_bytes(data)
            (here / name).chmod(0o755 if is_executable else 0o644)
        sent, arrivals = packed(here, tree, Path(home) / "contents"), Arrivals(Path(home) / "arriving")
        for message in sent.messages():
            arrivals.take(message)
        arrivals.unpack(sent.manifest(), there)
        assert {path.name: (path.read_bytes(), path.stat().st_mode & 0o100 > 0) for path in there.iterdir()} == tree


@example([("a", ""), ("a/a", "")])
@example([("a", ""), ("a/a/a", "")])
@example([("a", "b"), ("a", "b")])
@example([("a", "a"), ("a/a/a", "..")])
@given(st.lists(st.tuples(PATHS, st.one_of(st.just(""), PATHS)), max_size=6))
def test_no_manifest_writes_outside_of_its_place(entries):
    data = b"data"
    sha256 = hashlib.sha256(data).hexdigest()
    with tempfile.TemporaryDirectory() as home:
        place = Path(home) / "run" / "place"
        arrivals = Arrivals(Path(home) / "run" / "arriving")
        arrivals.take(encode([Chunk(sha256, data)]))
        manifest = encode([FileEntry(path, "" if target else sha256, 4, target=target) for path, target in entries])
        with contextlib.suppress(Spoilt):
            arrivals.unpack(manifest, place)
            for path in place.rglob("*"):
                assert path.resolve().is_relative_to(place.resolve())
        outside = [path for path in Path(home).rglob("*") if not path.is_relative_to(Path(home) / "run")]
        assert outside == [] and {path.name for path in (Path(home) / "run").iterdir()} <= {"place", "arriving"}
