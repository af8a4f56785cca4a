"""Triton kernels of a capture come back as they went, and nothing else comes back."""

from __future__ import annotations

import hashlib
import json

import pytest

from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.launches import (
    LAUNCHES_FILE,
    Launch,
    LaunchedKernel,
    Ptx,
    Specialisation,
    launched_names,
    ptx_of,
    read_launched,
    write_launched,
)
from pytest_compileiq.errors import StoreError

TEXT = b".version 9.3\n.visible .entry f() { ret; }\n"
PTX = Ptx(hashlib.sha256(TEXT).hexdigest(), len(TEXT))
EACH = Specialisation(
    {"x": ["*fp32:16", None]}, {"B": [1, "tl.float16"]}, {"num_warps": 4}, 90, None, PTX, 0, (Launch((1, 2), (3,), 4),)
)
KERNEL = LaunchedKernel(1, "f", "/k.py", "k", "3.9.0", 0.5, (EACH,))


@pytest.fixture
def bundle(tmp_path) -> Bundle:
    (tmp_path / "contents").mkdir()
    (tmp_path / "contents" / PTX.sha256).write_bytes(TEXT)
    bundle = Bundle(tmp_path / "capture")
    write_launched(bundle, {"f": KERNEL}, tmp_path / "contents")
    return bundle


def test_what_was_written_is_read_and_git_leaves_it_out(bundle):
    assert launched_names(bundle) == ["f"]
    assert read_launched(bundle, "f") == KERNEL
    assert ptx_of(bundle, PTX) == TEXT.decode()
    assert (bundle.root / ".gitignore").read_text() == "*\n"
    assert EACH.launches == KERNEL.launches == 4


def test_ptx_that_the_program_did_not_leave_is_an_error(bundle, tmp_path):
    gone = Ptx("0" * 64, 1)
    kernel = LaunchedKernel(1, "g", "/k.py", "k", "", 0.5, (Specialisation({}, {}, {}, 90, None, gone, 1, ()),))
    with pytest.raises(StoreError, match=r"the PTX 0000.* is missing: run it again"):
        write_launched(bundle, {"g": kernel}, tmp_path / "contents")


@pytest.mark.parametrize(
    "wrong",
    [
        {"signature": {"x y": "i32"}}, {"constexprs": {"B": {"deep": 1}}}, {"options": {"a": [[[[[[[[[[1]]]]]]]]]]}},
        {"capability": 9}, {"ptx": {"sha256": "../" * 20, "size": 1}}, {"ptx": {"sha256": "0" * 64, "size": 1 << 40}},
        {"others": -1}, {"calls": [{"grid": [1, 1, 1, 1], "arguments": [], "calls": 1}]}, {"constexprs": {"B": "x" * 5000}},
    ],
)  # fmt: skip
def test_what_no_capture_holds_is_refused_by_the_files_name(bundle, wrong):
    path = bundle.root / "f" / LAUNCHES_FILE
    kernel = json.loads(path.read_text())
    path.write_text(json.dumps(kernel | {"specialisations": [kernel["specialisations"][0] | wrong]}))
    with pytest.raises(StoreError, match=rf"f/{LAUNCHES_FILE} is no captured kernel: .*capture again"):
        read_launched(bundle, "f")


def test_a_link_and_a_file_of_another_version_are_refused(bundle, tmp_path):
    path = bundle.root / "f" / LAUNCHES_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 2}))
    with pytest.raises(StoreError, match="has schema 2, and this acf reads 1"):
        read_launched(bundle, "f")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a link"):
        read_launched(bundle, "f")
