"""The store of ptx-anneal, as that program writes it, and as nobody should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.store.packs import AcfFilter, look, ptx_hash, read_candidates, write_pack

ONE, OTHER = "1" * 64, "2" * 64
SAID = {
    "target": "ptx", "arch": "sm_90a", "ir_hash": ONE, "entry": "add", "baseline_ms": 2.0, "best_ms": 1.9,
    "search_win": 0.05, "forced": False, "ptxas_version": "13.3", "engine": "compileiq",
    "search_space": {"resolved_tag": "2026.05", "sha256": "ab", "variant": "default"},
}  # fmt: skip


def make_store(root: Path, files: dict[str, bytes | dict]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return root


@pytest.fixture
def store(tmp_path):
    return make_store(
        tmp_path / "store",
        {
            f"sm_90a/{ONE}.13.3.acf": b"first",
            f"sm_90a/{ONE}.13.3.acf.json": SAID,
            f"sm_90a/{ONE}.13.3.acf.cubin": b"never read",
            f"sm_90a/{ONE}.12.9.acf": b"of an older ptxas",
            f"sm_100a/{OTHER}.acf": b"without a ptxas",
        },
    )


def test_what_is_for_a_kernel_becomes_a_pack_that_a_search_reads(store, tmp_path):
    assert len(look(store, AcfFilter()).acfs) == 3
    found = look(store, AcfFilter(arch="sm_90a", ptxas="13.3", ptx=ONE))
    assert found.others == 2 and not found.unusable
    write_pack(found.acfs, tmp_path / "pack")
    (candidate,) = read_candidates(tmp_path / "pack")
    assert (candidate.origin, candidate.blob) == (f"sm_90a-{ONE[:16]}-13.3.acf", b"first")
    source = json.loads((tmp_path / "pack/booster-pack-manifest.json").read_text())["acfs"][0]["source"]
    assert source == {
        "store": "ptx-anneal", "arch": "sm_90a", "ptx": ONE, "ptxas": "13.3", "entry": "add", "engine": "compileiq",
        "search_space": "2026.05", "search_win": 0.05,
    }  # fmt: skip


BAD = {
    "an empty file": (b"", SAID, "is empty"),
    "a sidecar of another kernel": (b"x", SAID | {"ir_hash": OTHER}, f"is of {OTHER}, and lies beside {ONE}"),
    "a sidecar of another architecture": (b"x", SAID | {"arch": "sm_80"}, "is of sm_80, and lies beside sm_90a"),
    "a sidecar that is no JSON": (b"x", b"\xff{", "is no sidecar of ptx-anneal"),
    "a sidecar of another type": (b"x", SAID | {"search_win": "5 %"}, "is no sidecar of ptx-anneal"),
    "a sidecar without an end": (b"x", b"[" * 100_000, "is no sidecar of ptx-anneal"),
    "controls without an end": (b"x" * ((1 << 20) + 1), SAID, "bytes, and at most"),
}


@pytest.mark.parametrize("what", BAD)
def test_one_that_cannot_be_used_is_named_and_the_others_are_taken(store, what):
    data, sidecar, said = BAD[what]
    make_store(store, {f"sm_90a/{ONE}.9.9.acf": data, f"sm_90a/{ONE}.9.9.acf.json": sidecar})
    found = look(store, AcfFilter())
    (reason,) = found.unusable
    assert said in reason and len(found.acfs) == 3


def test_links_and_other_names_are_not_followed(store, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (store / f"sm_90a/{OTHER}.13.3.acf").symlink_to(tmp_path / "secret")
    make_store(store, {"sm_90a/notes.acf": b"x", f"../elsewhere/{ONE}.acf": b"x"})
    (store / "sm_80").symlink_to(tmp_path / "elsewhere")
    found = look(store, AcfFilter())
    assert b"secret" not in {acf.data for acf in found.acfs} and len(found.acfs) == 3
    assert [reason.partition(": ")[2] for reason in found.unusable] == ["is a link, and nothing behind a link is read"]


def test_a_store_is_no_pack_and_a_pack_tells_no_kernel(store, tmp_path):
    with pytest.raises(StoreError, match=r"is the store of ptx-anneal: acf import .* --to DIR"):
        read_candidates(store)
    write_pack(look(store, AcfFilter()).acfs, tmp_path / "pack")
    with pytest.raises(StoreError, match="only a ptx-anneal store tells architecture"):
        look(tmp_path / "pack", AcfFilter(arch="sm_90a"))
    with pytest.raises(StoreError, match="is not empty: name a new directory"):
        write_pack(look(store, AcfFilter()).acfs, tmp_path / "pack")


def test_the_hash_leaves_out_where_the_source_was():
    code = ".version 8.0\n.visible .entry f()\n{\nret;\n}"
    placed = (
        '.version 8.0\n.visible .entry f()\n{\n\t.loc 1 3 5 // /home/a/k.py:3\nret;\n}\n\t.file 1 "/home/a/k.py"\n'
        "\t.section\t.debug_abbrev\n{\n.b8 1\n}\n\t.section .debug_info {\n.b8 2\n}"
    )
    assert ptx_hash(placed) == ptx_hash(code) == sha256_hex(code.encode())
    assert ptx_hash(code.replace("ret", "exit")) != ptx_hash(code)
