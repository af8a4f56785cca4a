"""Launches read from an account, ranked, and held against a capture."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.launches import (
    LAUNCHES_FILE,
    NOTHING,
    Compiled,
    Launch,
    LaunchAccount,
    LaunchedKernel,
    Ptx,
    Specialisation,
    compared,
    launched_names,
    named,
    ptx_of,
    ranked,
    read_account,
    read_launched,
    write_launched,
)
from pytest_compileiq.capture.program import NotWatched, contents, launches_file
from pytest_compileiq.capture.ranking import leading
from pytest_compileiq.errors import StoreError

DIGESTS = {letter: letter * 64 for letter in "abc"}


def compiled(function: str = "f", launches: int = 1, ptx: str = "a", **changed) -> Compiled:
    calls = (Launch((1,), (), launches),)
    given = {"file": "/p/k.py", "module": "k", "why": None, "others": 0, "capability": 90, "calls": calls}
    return Compiled(**{"function": function, "ptx": Ptx(DIGESTS[ptx], 1)} | given | changed)


def account(*each: Compiled) -> LaunchAccount:
    return LaunchAccount(1, "3.9.0", None, 0, (), each)


def test_the_most_launched_kernel_leads_and_its_specialisations_are_in_their_order():
    kernels = ranked(
        account(
            compiled("rare", 2), compiled("often", 3), compiled("often", 5, constexprs={"BLOCK": 64}),
            compiled("often", 1, ptx_options="--apply-controls=x"), compiled("other"),
        )
    )  # fmt: skip
    assert [(kernel.function, kernel.launches) for kernel in kernels] == [("often", 9), ("rare", 2), ("other", 1)]
    assert [each.launches for each in kernels[0].specialisations] == [5, 4]  # put back controls are no other kernel
    assert kernels[0].share == 9 / 12
    assert [kernel.function for kernel in leading(kernels, lambda each: each.launches, 10, 0.75)] == ["often"]
    assert len(leading(kernels, lambda each: each.launches, 2, 1.0)) == 2


def test_two_kernels_of_one_name_have_names_of_their_own_in_a_capture():
    kernels = ranked(account(compiled(), compiled(file="/p/other.py"), compiled("a<b>.c"), compiled("data")))
    names = named(kernels, taken=["f"])
    assert sorted(re.sub("-[0-9a-f]{8}$", "-…", name) for name in names) == ["a_b_.c", "data-…", "f-…", "f-…"]


def test_a_kernel_without_a_signature_is_told_by_its_ptx(tmp_path):
    contents(tmp_path).mkdir()
    for letter, digest in DIGESTS.items():
        (contents(tmp_path) / digest).write_text(f"// {letter}\n")
    then = named(ranked(account(compiled(why="is nameless"), compiled(ptx="b", why="is nameless"))), ())
    texts = {DIGESTS["a"]: "// a\n", DIGESTS["b"]: "// b\n"}
    now = account(compiled(why="is nameless"), compiled(ptx="c", why="is nameless"))
    (kernel,) = compared(then, texts, now, tmp_path, lambda text: text)
    assert [each.ptx.sha256[0] for each, _ in kernel.gone] == ["b"]
    assert [each.ptx.sha256[0] for each, _ in kernel.new] == ["c"]
    (kernel,) = compared(then, texts, now, tmp_path, lambda text: "the same")
    assert kernel.is_as_captured


def test_a_kernel_of_another_checkout_is_found_by_its_files_name(tmp_path):
    contents(tmp_path).mkdir()
    (contents(tmp_path) / DIGESTS["a"]).write_text("x")
    then = named(ranked(account(compiled(file="/there/k.py"))), ())
    texts = {DIGESTS["a"]: "x"}
    (kernel,) = compared(then, texts, account(compiled(file="/here/k.py")), tmp_path, str)
    assert kernel.is_as_captured
    (kernel,) = compared(then, texts, account(compiled(file="/here/other.py")), tmp_path, str)
    assert not kernel.calls
    (contents(tmp_path) / DIGESTS["a"]).unlink()
    with pytest.raises(NotWatched, match="of the program is missing"):
        compared(then, texts, account(compiled()), tmp_path, str)


def test_an_account_that_is_none_is_refused(tmp_path):
    assert read_account(tmp_path) is NOTHING
    good = {"schema": 1, "triton": "", "failure": None, "timed": 0, "unseen": [], "compiled": []}
    each = {"file": "", "function": "f", "module": "", "why": None, "others": 0, "calls": [], "capability": 90}
    each["ptx"] = {"sha256": DIGESTS["a"], "size": 1}
    for wrong in ({"schema": 2}, {"timed": -1}, {"compiled": [each | {"file": 1}]}):
        launches_file(tmp_path).write_text(json.dumps(good | wrong))
        with pytest.raises(NotWatched, match="the account of the program's Triton kernels"):
            read_account(tmp_path)
    launches_file(tmp_path).write_text(json.dumps(good | {"compiled": [each | {"signature": {"not a name": "i32"}}]}))
    (unsayable,) = read_account(tmp_path).compiled  # one of them costs no other
    assert (unsayable.signature, unsayable.why) == ({}, "cannot be written down: 'not a name' is no name")
    for begun in ("", "{"):
        launches_file(tmp_path).write_text(begun)
        with pytest.raises(NotWatched, match="cannot be read"):
            read_account(tmp_path)


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
