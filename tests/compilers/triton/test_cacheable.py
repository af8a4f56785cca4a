"""What builds by the real Triton depend on: each change of it makes another key, or ends what an entry says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.build_cache import through
from pytest_compileiq.benchmark.cached_builds import CachedBuilds
from pytest_compileiq.model import BuildResult, Candidate
from pytest_compileiq.rules.build_key import NotModelled, key_of
from pytest_compileiq.store.build_cache import BuildCache
from pytest_compileiq.system.seen_files import SeenFiles
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.triton.builder import TritonBuilder, resolve
from pytest_compileiq.toolchains.triton.marker import Triton
from tests import needs
from tests.files import write_files
from tests.projects import make_project

pytestmark = [needs.triton, needs.ptxas]
ENOUGH_S = 120.0
KERNEL = """\
import os
import triton
import triton.language as tl
from helpers import by

SHIFT = tl.constexpr(1 if os.environ.get("SHIFTED") else 0)

@triton.jit
def scale(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, by(tl.load(x + at, mask=at < n)) + SHIFT, mask=at < n)
"""
HELPERS = """\
import triton

FACTOR = 2

@triton.jit
def by(x):
    return x * 2

def unused():
    return 1
"""
TEST = """\
import pytest
from pytest_compileiq import Triton, choice, minimize

@pytest.mark.tune(Triton("k.py::scale", arch=["sm_80", "sm_90a"], signature={"out": "*fp32:16", "x": "*fp32:16",
                  "n": "i32"}, constexprs={"BLOCK": 1024}), space={"num_warps": choice([1, 2, 4, 8])},
                  objectives=[minimize("registers")])
def test_scale(acf):
    acf.build()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path, {"k.py": KERNEL, "helpers.py": HELPERS})


def triton(root: Path, **arguments: object) -> TritonBuilder:
    signature = {"out": "*fp32:16", "x": "*fp32:16", "n": "i32"}
    given = {"arch": "sm_90a", "signature": signature, "constexprs": {"BLOCK": 1024}, **arguments}
    return resolve(Triton("k.py::scale", **given), Place(root, root))  # type: ignore[arg-type]


def key(of: TritonBuilder, candidate: Candidate | None = None) -> str:
    return key_of(of.cacheable(of.render(candidate) if candidate else None).question())


def kept(root: Path) -> CachedBuilds:
    return CachedBuilds(BuildCache(root), seen=SeenFiles(settled_ns=0))


def build(of: TritonBuilder, folder: Path) -> BuildResult:
    return of.build_together(None, folder, timeout_s=ENOUGH_S)


def test_every_change_of_what_the_front_end_hands_on_makes_another_key(root, monkeypatch):
    keys = [key(triton(root))]
    assert key(triton(root)) == keys[0]
    keys += [key(triton(root), Candidate(knobs)) for knobs in ({"num_warps": 8}, {"BLOCK": 512}, {"-O": 1})]
    keys += [key(triton(root), Candidate({}, blob=blob, origin="x")) for blob in (b"one", b"two")]
    keys += [
        key(triton(root, **other))
        for other in (
            {"arch": "sm_80"},
            {"arch": ["sm_80", "sm_90a"]},
            {"signature": {"out": "*fp32:16", "x": "*fp32:16", "n": "i32:16"}},
            {"options": {"enable_fp_fusion": False}},
        )
    ]
    with monkeypatch.context() as patched:
        patched.setenv("SHIFTED", "1")
        keys.append(key(triton(root)))
    with monkeypatch.context() as patched:
        patched.setenv("DISABLE_PTXAS_OPT", "1")
        keys.append(key(triton(root)))
    write_files(root, {"helpers.py": HELPERS.replace("x * 2", "x * 3")})
    keys.append(key(triton(root)))
    assert len(set(keys)) == len(keys)


def test_a_build_is_found_again_with_the_cubin_and_the_launch_of_each_architecture(root):
    (root / "made").mkdir()  # a directory that changes meanwhile would be a reason to keep nothing
    both = triton(root, arch=["sm_80", "sm_90a"])
    made, _ = through(kept(root), both, root / "made", lambda: build(both, root / "made"))
    found, sources = through(kept(root), both, root / "found", pytest.fail)
    assert found.cached and (found.code, found.log, found.metrics) == (made.code, made.log, made.metrics)
    assert set(sources or ()) == {"k.py", "helpers.py"}
    for name in ("kernel.sm_80.cubin", "kernel.sm_80.json", "kernel.sm_90a.cubin", "kernel.sm_90a.json"):
        assert (root / "found" / name).read_bytes() == (root / "made" / name).read_bytes()

    write_files(root, {"helpers.py": HELPERS.replace("return 1", "return 2")})
    changed = triton(root, arch=["sm_80", "sm_90a"])
    (root / "other").mkdir()
    again, sources = through(kept(root), changed, root / "other", lambda: build(changed, root / "other"))
    assert not again.cached, "a file that is part of the fingerprint has changed"
    assert again.digest == made.digest


def test_a_variable_that_the_file_names_is_in_the_key_and_a_secret_by_its_digest(root, monkeypatch):
    write_files(root, {"k.py": KERNEL.replace("SHIFTED", "SHIFT_TOKEN")})
    keys = []
    for secret in ("one-secret", "another-secret"):
        monkeypatch.setenv("SHIFT_TOKEN", secret)
        question = triton(root).cacheable(None).question()
        assert secret not in str(question) and "SHIFT_TOKEN=sha256 " in str(question["environment"])
        keys.append(key_of(question))
    assert keys[0] != keys[1]


def test_a_module_that_appears_makes_another_key_even_if_the_code_is_the_same(root):
    write_files(root, {"k.py": f"try:\n    from more import SHIFT\nexcept ImportError:\n    SHIFT = 0\n{KERNEL}"})
    before = triton(root)
    keys = [key(before)]
    write_files(root, {"more.py": "SHIFT = 1\n"})  # which the kernel's file sets anew
    keys.append(key(triton(root)))
    assert len(set(keys)) == 2
    assert before.sources().keys() == {"k.py", "helpers.py", "more.py"}


def test_a_package_that_is_imported_and_changes_makes_another_key(root, tmp_path_factory, monkeypatch):
    """It may replace a stage of Triton's compiler behind the front end."""
    package = "from triton.backends.nvidia.compiler import CUDABackend\nBEFORE = CUDABackend.make_ptx\nBY = 1\n"
    site = write_files(tmp_path_factory.mktemp("site"), {"patches.py": package})
    monkeypatch.setenv("PYTHONPATH", str(site))
    write_files(root, {"k.py": KERNEL.replace("1 if", "patches.BY if").replace("import os", "import os, patches")})
    before = key(triton(root))
    write_files(site, {"patches.py": package.replace("make_ptx", "make_llir")})
    assert key(triton(root)) != before


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("SHIFT =", "triton.knobs.compilation.override = True\nSHIFT =", "overrides Triton's IR"),
        ("1 if", "int('no kernel today') if", "no kernel today"),
    ],
)
def test_a_build_that_may_depend_on_more_is_not_modelled(root, monkeypatch, old, new, reason):
    monkeypatch.setenv("SHIFTED", "1")
    write_files(root, {"k.py": KERNEL.replace(old, new)})
    with pytest.raises(NotModelled, match=reason):
        triton(root).cacheable(None).question()


def test_an_option_of_ptxas_that_may_read_a_file_is_not_modelled(root, monkeypatch):
    monkeypatch.setenv("PTXAS_OPTIONS", "--sanitize=memcheck")
    with pytest.raises(NotModelled, match="--sanitize=memcheck is not modelled"):
        triton(root).cacheable(None).question()


def test_a_module_that_comes_and_goes_after_the_cache_was_asked_is_built_and_not_kept(root):
    """The build's own front end is compared: no file that is known changes, nor does a directory that is looked at."""
    more = "try:\n    from more import MORE\nexcept ImportError:\n    MORE = 0\n\nSHIFT = tl.constexpr(MORE + 1"
    write_files(root, {"k.py": KERNEL.replace("SHIFT = tl.constexpr(1", more)})

    def make() -> BuildResult:
        write_files(root, {"more.py": "MORE = 7\n"})
        built = build(triton(root), root / "out")
        (root / "more.py").unlink()
        return built

    (root / "out").mkdir()
    through(kept(root), triton(root), root / "out", make)
    assert BuildCache(root).stored() == []
    through(kept(root), triton(root), root / "out", lambda: build(triton(root), root / "out"))
    assert len(BuildCache(root).stored()) == 1


def test_the_key_names_no_place_of_this_machine_but_the_directory(root, tmp_path_factory):
    other = write_files(tmp_path_factory.mktemp("other"), {"k.py": KERNEL, "helpers.py": HELPERS})
    here, there = (dict(triton(each).cacheable(None).question()) for each in (root, other))
    assert here.pop("directory") != there.pop("directory")
    assert here == there
    (answer,) = triton(root).cacheable(None).front_ends.values()
    assert str(root) not in answer
    assert json.loads(answer)["meta"]["BLOCK"] == 1024


@pytest.mark.slow
def test_a_replay_that_changes_nothing_builds_nothing(tmp_path):
    project = make_project(tmp_path / "project", {"k.py": KERNEL, "helpers.py": HELPERS, "test_k.py": TEST})
    project.pytest("--tune", "--tune-budget=4", code=0)
    project.expect_builds_kept(1)
    project.edit("helpers.py", "x * 2", "x * 3")
    assert "same inputs as a build of 2" not in project.pytest()
