"""Triton as a toolchain: its real compiler, ahead of time, calling the ptxas that it is given."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError, MarkerError, StoreError
from pytest_compileiq.model import Candidate, ControlsFile
from pytest_compileiq.toolchains.base import Place, Toolchain
from pytest_compileiq.toolchains.cubin import read_cubin
from pytest_compileiq.toolchains.triton import Triton
from pytest_compileiq.toolchains.triton_resolved import TritonResolved, resolve
from tests import needs

pytestmark = [needs.triton, needs.ptxas]
ENOUGH_S = 120.0
KERNELS = """\
import triton
import triton.language as tl
from helpers import twice

@triton.jit
def scale(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, twice(tl.load(x + at, mask=at < n)), mask=at < n)

plain = 3
"""
HELPERS = """\
import triton

@triton.jit
def twice(x):
    return x * 2
"""
SIGNATURE = {"out": "*fp32:16", "x": "*fp32:16", "n": "i32"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "checkout")


def make_project(root: Path) -> Path:
    (root / "kernels").mkdir(parents=True)
    (root / "kernels" / "k.py").write_text(KERNELS)
    (root / "kernels" / "helpers.py").write_text(HELPERS)
    return root


def resolved(root: Path, kernel: str = "k.py::scale", **arguments) -> TritonResolved:
    given = {"signature": SIGNATURE, "arch": "sm_90a", "constexprs": {"BLOCK": 512}} | arguments
    return resolve(Triton(kernel, **given), Place(root / "kernels", root))


def test_it_compiles_without_a_gpu_by_the_ptxas_that_it_is_given(project, tmp_path):
    triton = resolved(project)
    built = triton.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert isinstance(Triton("k.py::scale", signature=SIGNATURE, arch="sm_90a"), Toolchain)
    assert triton.target.endswith(f".{triton.acf_line}")
    assert built.code.keys() == {"scale"}
    assert built.metrics["registers"] > 0
    assert triton.tool.version in read_cubin(built.path).assembler
    assert triton.sources().keys() == {"kernels/k.py", "kernels/helpers.py"}
    assert not {"triton", "torch"} & set(sys.modules)


def test_launch_parameters_and_constexprs_are_knobs(project, tmp_path):
    triton = resolved(project)
    baseline = triton.build(None, tmp_path / "baseline", timeout_s=ENOUGH_S)
    for knobs in ({"num_warps": 8}, {"BLOCK": 1024}):
        controls = triton.render(Candidate(knobs))
        built = triton.build(controls, tmp_path / next(iter(knobs)), timeout_s=ENOUGH_S)
        assert built.digest != baseline.digest
        assert triton.parse("options", controls.data, controls.knobs) == controls
    assert triton.render(Candidate({"num_warps": 8, "-O": 2})).data == b"-O2\nnum_warps=8\n"
    with pytest.raises(MarkerError, match=r"knob 'BLOCKS': scale has num_warps, num_stages, BLOCK"):
        triton.render(Candidate({"BLOCKS": 1}))
    with pytest.raises(StoreError):
        triton.parse("options", b"num_warps=4\n", {"num_warps": 8})


def test_ptxas_options_reach_the_assembler_as_the_note_in_the_cubin_shows(project, tmp_path):
    triton = resolved(project)
    built = triton.build(triton.render(Candidate({"--maxrregcount=": 64})), tmp_path / "out", timeout_s=ENOUGH_S)
    command = read_cubin(built.path).command
    assert "maxrregcount" in command
    assert "-lineinfo" in command  # as Triton gives it: the cubin is the one that production compiles


def test_equal_code_has_equal_digests_in_two_checkouts(tmp_path):
    builds = [
        resolved(make_project(tmp_path / name)).build(None, tmp_path / f"{name}-out", timeout_s=ENOUGH_S)
        for name in ("one", "two")
    ]
    assert builds[0].digest == builds[1].digest


def test_an_acf_that_ptxas_refuses_is_refused_in_its_words_and_not_in_680_lines(project, tmp_path):
    with pytest.raises(BuildError, match=r"^Triton refuses kernels/k\.py::scale: ptxas fatal") as refused:
        resolved(project).build(ControlsFile("blob", b"not an acf", {}), tmp_path / "out", timeout_s=ENOUGH_S)
    assert len(str(refused.value)) < 300


def test_a_cubin_that_another_assembler_made_is_refused(project, tmp_path, monkeypatch):
    triton = resolved(project)
    monkeypatch.setattr(
        TritonResolved, "_environment", lambda self, out_dir: {"TRITON_CACHE_DIR": str(out_dir / "cache")}
    )
    with pytest.raises(BuildError, match=r"Triton compiled with another assembler .* than ptxas 13\.3"):
        triton.build(None, tmp_path / "out", timeout_s=ENOUGH_S)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kernel": "k.py"}, r"expected 'file\.py::function'"),
        ({"kernel": "none.py::scale"}, "no such file"),
        ({"signature": {"out": "float*"}}, r"expected a type such as '\*fp32:16'"),
        ({"constexprs": {"BLOCK": [1]}}, "expected a bool, a number or a string"),
        ({"constexprs": {"num_warps": 1}}, "named twice"),
        ({"num_warps": 0}, "expected a positive integer"),
        ({"arch": "90"}, "expected an architecture"),
    ],
)
def test_arguments_are_checked(project, arguments, said):
    with pytest.raises(MarkerError, match=said):
        resolved(project, **arguments)


@pytest.mark.parametrize(
    ("kernel", "signature", "said"),
    [
        ("k.py::none", SIGNATURE, "no @triton.jit function 'none'"),
        ("k.py::plain", SIGNATURE, "no @triton.jit function 'plain'"),
        ("k.py::scale", {"out": "*fp32"}, "the argument 'x' of scale is in neither signature nor constexprs"),
    ],
)
def test_a_kernel_that_cannot_be_compiled_is_one_sentence(project, tmp_path, kernel, signature, said):
    with pytest.raises(BuildError, match=said):
        resolved(project, kernel, signature=signature).build(None, tmp_path / "out", timeout_s=ENOUGH_S)
