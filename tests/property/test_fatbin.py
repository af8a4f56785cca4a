"""Whatever bytes a shipped file holds, reading it ends in members or in a sentence."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq.errors import BuildError
from pytest_compileiq.ship.binaries import CONTAINER_MAGIC, cubins_in, fatbin_of

PATH = Path("made.so")
MEMBERS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.binary(max_size=64), st.sampled_from([64, 80, 112])), max_size=5
)


def container(entries) -> bytes:
    """A container as nvcc lays it out: ``entries`` are (cubin?, compressed?, bytes, bytes of the member's header)."""
    body = b""
    for cubin, compressed, data, header in entries:
        stored = data.ljust(-(-len(data) // 8) * 8, b"\0")
        head = struct.pack("<HHIQI", 2 if cubin else 1, 0x101, header, len(stored), len(data) + 1 if compressed else 0)
        body += head.ljust(header, b"\0") + stored
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


@given(st.lists(MEMBERS, max_size=3), st.integers(0, 3))
def test_every_cubin_of_every_container_is_found(containers, words_between):
    data = (b"\0" * 8 * words_between).join(map(container, containers))
    expected = [entry for entries in containers for entry in entries if entry[0]]
    for found, (_, compressed, stored, _) in zip(cubins_in(data, PATH), expected, strict=True):
        assert found is None if compressed else found is not None and found.startswith(stored)


@given(MEMBERS.filter(bool), st.data())
def test_a_container_cut_short_is_a_sentence(entries, data):
    whole = container(entries)
    cut = data.draw(st.integers(5, len(whole) - 1))
    with pytest.raises(BuildError, match="damaged at byte"):
        list(cubins_in(whole[:cut], PATH))


@given(st.binary(max_size=400), st.sampled_from([b"", CONTAINER_MAGIC, b"\x7fELF", b"\x7fELF\x02\x01\x01"]))
def test_any_bytes_end_in_members_or_in_a_sentence(tail, head):
    try:
        fatbin = fatbin_of(head + tail, PATH)
        list(cubins_in(fatbin or b"", PATH))
    except BuildError as error:
        assert "made.so" in str(error)
