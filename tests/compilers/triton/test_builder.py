"""Triton as a toolchain: its real compiler, ahead of time, calling the ptxas that it is given."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError, StoreError
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.model import Candidate, ControlsFile
from pytest_compileiq.system.forked import ForkedModule
from pytest_compileiq.toolchains.base import Place, Toolchain
from pytest_compileiq.toolchains.triton.builder import TritonBuilder, resolve
from pytest_compileiq.toolchains.triton.marker import Triton
from tests import needs
from tests.files import write_files

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

@triton.jit
def strided(out, x, stride, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * stride, mask=at < n), mask=at < n)

@triton.jit
def unit(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)

@triton.jit
def annotated(out, x: tl.const, n: tl.int32, BLOCK: tl.constexpr):
    tl.store(out, tl.load(x) + n)

@triton.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["m"])
def plain_numbers(out, n, m, BLOCK: tl.constexpr):
    tl.store(out, n + m)

@triton.jit
def optional(out, bias, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, at if bias is None else at + tl.load(bias + at))

@triton.jit
def nested(out, shape, given, BLOCK: tl.constexpr):
    given.store([0, 0], given.load([0, 0]) + tl.load(out[0]) * shape[0] * shape[1])

@triton.jit
def tile(out, x, rows, columns, BLOCK: tl.constexpr):
    given = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    at = tl.arange(0, BLOCK)
    tl.store(out + at[:, None] * BLOCK + at[None, :], given.load([0, 0]))

@triton.jit
def wrong(out, BLOCK: tl.constexpr):
    # %s
    at = tl.arange(0, BLOCK)
    tl.store(out + at, at + undefined)
""" % ("a long way down, " * 300)
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
    return write_files(root, {"kernels/k.py": KERNELS, "kernels/helpers.py": HELPERS})


def builder(root: Path, kernel: str = "k.py::scale", **arguments) -> TritonBuilder:
    given = {"signature": SIGNATURE, "arch": "sm_90a", "constexprs": {"BLOCK": 512}} | arguments
    return resolve(Triton(kernel, **given), Place(root / "kernels", root))


def test_it_compiles_without_a_gpu_by_the_ptxas_that_it_is_given(project, tmp_path):
    triton = builder(project)
    built = triton.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert isinstance(Triton("k.py::scale", signature=SIGNATURE, arch="sm_90a"), Toolchain)
    assert triton.target.endswith(f".{triton.acf_line}")
    assert built.code.keys() == {"scale"}
    assert built.metrics["registers"] > 0
    assert triton.tool.version in read_cubin(built.path).assembler
    assert triton.sources().keys() == {"kernels/k.py", "kernels/helpers.py"}
    assert not {"triton", "torch"} & set(sys.modules)


def test_its_kernel_is_described_for_the_machine_of_a_cluster(project):
    """Whose flags come as a dict."""
    triton = Triton("k.py::scale", signature=SIGNATURE, arch="sm_90a", constexprs={"BLOCK": 512})
    there = resolve(triton, Place(project / "kernels", project, host_flags={}))
    assert there.knobs_taken == builder(project).knobs_taken


@pytest.mark.parametrize("kernel", ["scale", "wrong"])
def test_builds_together_are_those_of_processes_that_begin_from_nothing(project, tmp_path, kernel):
    def attempt(place: str, together: bool) -> tuple[object, str, bytes]:
        """In one folder, which is named in what Triton says and in debug information."""
        out = tmp_path / "out"
        signature = SIGNATURE if kernel == "scale" else {"out": "*fp32:16"}
        try:
            triton = builder(project, f"k.py::{kernel}", signature=signature)
            built = (triton.build_together if together else triton.build)(None, out, timeout_s=ENOUGH_S)
            code: object = (built.code, built.metrics)
            log = built.log
        except BuildError as error:
            code, log = (str(error), error.kind), error.log
        kept = b"".join(path.read_bytes() for path in sorted(out.glob("kernel.*")))
        out.rename(tmp_path / place)
        return code, re.sub("Compile time = .*", "", log), kept

    assert [attempt("first", True), attempt("second", True)] == [attempt("from nothing", False)] * 2


def test_builds_together_are_forked_and_a_build_by_itself_is_not(project, tmp_path, monkeypatch):
    def unwanted(*_, **__):
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(ForkedModule, "run_alone", unwanted)
        builder(project).build_together(None, tmp_path / "together", timeout_s=ENOUGH_S)
    monkeypatch.setattr(ForkedModule, "_server_for", unwanted)
    builder(project).build(None, tmp_path / "alone", timeout_s=ENOUGH_S)


def test_a_kernel_is_compiled_where_the_environment_has_kernels_interpreted(project, tmp_path, monkeypatch):
    compiled = builder(project).build(None, tmp_path / "compiled", timeout_s=ENOUGH_S)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for build in (builder(project).build, builder(project).build_together):
        assert build(None, tmp_path / build.__name__, timeout_s=ENOUGH_S).code == compiled.code


@pytest.mark.slow
def test_launch_parameters_and_constexprs_are_knobs(project, tmp_path):
    triton = builder(project)
    baseline = triton.build(None, tmp_path / "baseline", timeout_s=ENOUGH_S)
    for knobs in ({"num_warps": 8}, {"BLOCK": 1024}):
        controls = triton.render(Candidate(knobs))
        built = triton.build(controls, tmp_path / next(iter(knobs)), timeout_s=ENOUGH_S)
        assert built.digest != baseline.digest
        assert triton.parse("options", controls.data, controls.knobs) == controls
    assert triton.render(Candidate({"num_warps": 8, "-O": 2})).data == b"-O2\nnum_warps=8\n"
    with pytest.raises(MarkerError, match=r"'BLOCKS': scale has no such constexpr, .* \(did you mean 'BLOCK'\?\)"):
        triton.render(Candidate({"BLOCKS": 1}))
    with pytest.raises(StoreError):
        triton.parse("options", b"num_warps=4\n", {"num_warps": 8})


@pytest.mark.slow
def test_an_integer_that_is_1_is_a_constant_of_the_code_as_the_jit_makes_it(project, tmp_path):
    def metrics(kernel: str, **stride: str) -> dict[str, int]:
        signature = {"out": "*fp32:16", "x": "*fp32:16", **stride, "n": "i32"}
        built = builder(project, f"k.py::{kernel}", signature=signature)
        return built.build(None, tmp_path / f"{kernel}-{len(stride)}-{stride}", timeout_s=ENOUGH_S).metrics

    by_one = metrics("strided", stride="i32:1")
    assert by_one == metrics("unit")
    assert by_one["instructions"] < metrics("strided", stride="i32")["instructions"]


JIT = """
import importlib.util, json, sys
sys.path.insert(0, "kernels")
import k
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import create_function_from_signature
from triton.tools.tensor_descriptor import TensorDescriptor
from pytest_compileiq.toolchains.triton.launch import specialised

class Tensor:
    def __init__(self, address):
        self.dtype, self.address = "fp32", address
    def data_ptr(self):
        return self.address

DESCRIPTOR = "tensordesc<fp32[16, 64]>"
tile = object.__new__(TensorDescriptor)
tile.base, tile.block_shape = Tensor(16), [16, 64]
backend = make_backend(GPUTarget("cuda", 90, 32))
for name, arguments, kinds in (
    ("strided", (16, 8, 1, 17), ("*fp32:16", "*fp32", "i32:1", "i32")),
    ("strided", (16, 16, 1, 1), ("*fp32:16", "*fp32:16", "i32:1", "i32:1")),
    ("strided", (16, 16, 16, 1 << 40), ("*fp32:16", "*fp32:16", "i32:16", "i64:16")),
    ("annotated", (16, 16, 1), ("*fp32:16", "*kfp32:16", "i32")),
    ("annotated", (16, 16, 32), ("*fp32:16", "*kfp32:16", "i32:16")),
    ("plain_numbers", (16, 1, 16), ("*fp32:16", "i32", "i32")),
    ("plain_numbers", (16, 16, 1), ("*fp32:16", "i32", "i32:1")),
    ("optional", (16, None, 17), ("*fp32:16", None, "i32")),
    ("nested", ((Tensor(16),), (1, 32, 5, (None,)), tile), (["*fp32:16"], ["i32:1", "i32:16", "i32", [None]], DESCRIPTOR)),
):
    kernel = getattr(k, name)
    pointers = [isinstance(kind, str) and kind.startswith("*") for kind in kinds]
    given = [Tensor(value) if is_pointer else value for value, is_pointer in zip(arguments, pointers)]
    bound, found, _ = create_function_from_signature(kernel.signature, kernel.params, backend)(*given, BLOCK=64)
    options = {"num_warps": 4, "debug": False, "instrumentation_mode": ""}
    _, signature, constexprs, attributes = kernel._pack_args(backend, options, bound, found, {})
    theirs = ASTSource(fn=kernel, signature=signature, constexprs=constexprs, attrs=attributes)
    names = [parameter.name for parameter in kernel.params][:-1]
    typed = {name: kind for name, kind in zip(names, kinds) if kind}
    constants = {"BLOCK": 64} | {name: None for name in names if name not in typed}
    ours = ASTSource(fn=kernel, **specialised(kernel, typed, constants))
    shown = [
        (one.signature, one.constants, {key: value for key, value in one.attrs.items() if value})
        for one in (theirs, ours)
    ]
    print(json.dumps([name, str(shown[0]), str(shown[1])]))
"""


def test_every_specialisation_is_the_jit_s_own(project):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JIT], cwd=project, capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 9
    for name, jit, ours in lines:
        assert ours == jit, name


@pytest.mark.parametrize(
    ("kernel", "signature", "said"),
    [
        (
            "strided",
            {"out": "*fp32", "x": "*fp32", "sride": "i32:1"},
            r"strided has no argument 'sride' \(did you mean 'stride'\?\); its arguments: out, x, stride, n, BLOCK",
        ),
        ("annotated", {"out": "*fp32", "x": "*kfp32", "n": "i64"}, "annotates 'n' as i32, and the signature says i64"),
        (
            "annotated",
            {"out": "*fp32", "x": "*kfp32", "n": "i32:1"},
            "the JIT does not specialise 'n', as the kernel is declared: write 'i32'",
        ),
        ("annotated", {"out": "*fp32", "x": "*fp32", "n": "i32"}, r"annotates 'x' as constant: write '\*kfp32'"),
        ("plain_numbers", {"out": "*fp32", "n": "i32:16", "m": "i32"}, "the JIT does not specialise 'n'"),
        ("plain_numbers", {"out": "*fp32", "n": "i32", "m": "i32:16"}, "the JIT does not specialise 'm'"),
    ],
)
def test_what_the_jit_would_never_compile_is_refused_in_one_sentence(project, tmp_path, kernel, signature, said):
    with pytest.raises(BuildError, match=said):
        builder(project, f"k.py::{kernel}", signature=signature).build(None, tmp_path / "out", timeout_s=ENOUGH_S)


def test_a_constexpr_is_named_in_constexprs_and_an_unknown_one_names_the_kernel_s(project, tmp_path):
    with pytest.raises(
        BuildError, match=r"scale has no argument 'BLOKC' \(did you mean 'BLOCK'\?\); its arguments: out"
    ):
        builder(project, constexprs={"BLOKC": 512}).build(None, tmp_path / "one", timeout_s=ENOUGH_S)
    with pytest.raises(BuildError, match=r"the argument 'BLOCK' is a tl\.constexpr: name it in constexprs"):
        builder(project, signature={**SIGNATURE, "BLOCK": "i32"}, constexprs={}).build(
            None, tmp_path / "two", timeout_s=ENOUGH_S
        )
    pointers = {"out": "*fp32", "x": "*fp32"}
    with pytest.raises(BuildError, match=r"the argument 'n' is no tl\.constexpr: give its type in signature"):
        builder(project, signature=pointers, constexprs={"BLOCK": 512, "n": 1024}).build(
            None, tmp_path / "three", timeout_s=ENOUGH_S
        )


def test_the_scratch_memory_that_a_kernel_wants_is_recorded_with_its_arguments_in_its_own_order(project, tmp_path):
    signature = {"columns": "i32:16", "rows": "i32", "x": "*fp16:16", "out": "*fp16:16"}
    triton = builder(project, "k.py::tile", signature=signature, constexprs={"BLOCK": 64})
    built = triton.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    described = json.loads(built.path.with_suffix(".json").read_text())
    assert described["global_scratch_size"] >= 128
    assert described["global_scratch_align"] == 128
    assert described["profile_scratch_size"] == 0
    assert list(described["arguments"].items()) == [
        ("out", "*fp16:16"), ("x", "*fp16:16"), ("rows", "i32"), ("columns", "i32:16")
    ]  # fmt: skip


def test_triton_s_own_reason_stands_last_and_is_kept(project, tmp_path):
    triton = builder(project, "k.py::wrong", signature={"out": "*fp32"})
    with pytest.raises(BuildError, match=r"CompilationError: …[^\n]*undefined is not defined"):
        triton.build(None, tmp_path / "out", timeout_s=ENOUGH_S)


def test_an_architecture_is_the_one_that_triton_compiles_for(project, tmp_path):
    plain, own = builder(project, arch="sm_90"), builder(project, arch="sm_90a")
    assert plain.compiler == own.compiler
    assert plain.target == own.target
    assert plain.build(None, tmp_path / "out", timeout_s=ENOUGH_S).metrics["registers"] > 0
    assert builder(project, arch="sm_80").architecture == "sm_80"
    with pytest.raises(MarkerError, match=r"Triton compiles for sm_100a where it is asked for that: name 'sm_100a'"):
        builder(project, arch="sm_100f")


def test_ptxas_options_reach_the_assembler_as_the_note_in_the_cubin_shows(project, tmp_path):
    triton = builder(project)
    built = triton.build(triton.render(Candidate({"--maxrregcount=": 64})), tmp_path / "out", timeout_s=ENOUGH_S)
    command = read_cubin(built.path).command
    assert "maxrregcount" in command
    assert "-lineinfo" in command  # as Triton gives it: the cubin is the one that production compiles


def test_equal_code_has_equal_digests_in_two_checkouts(tmp_path):
    builds = [
        builder(make_project(tmp_path / name)).build(None, tmp_path / f"{name}-out", timeout_s=ENOUGH_S)
        for name in ("one", "two")
    ]
    assert builds[0].digest == builds[1].digest


def test_an_acf_that_ptxas_refuses_is_refused_in_its_words_and_not_in_680_lines(project, tmp_path):
    with pytest.raises(BuildError, match=r"^Triton refuses kernels/k\.py::scale: ptxas fatal") as refused:
        builder(project).build(ControlsFile("blob", b"not an acf", {}), tmp_path / "out", timeout_s=ENOUGH_S)
    assert len(str(refused.value)) < 300


def test_a_cubin_that_another_assembler_made_is_refused(project, tmp_path, monkeypatch):
    triton = builder(project)
    monkeypatch.setattr(
        TritonBuilder, "_environment", lambda self, out_dir: {"TRITON_CACHE_DIR": str(out_dir / "cache")}
    )
    with pytest.raises(BuildError, match=r"Triton compiled with another assembler .* than ptxas 13\.3"):
        triton.build(None, tmp_path / "out", timeout_s=ENOUGH_S)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kernel": "k.py"}, r"expected 'file\.py::function'"),
        ({"kernel": "none.py::scale"}, "no such file"),
        ({"signature": {"out": "float*"}}, r"expected a type such as '\*fp32:16'"),
        ({"signature": {"out": "*fp32:1"}}, "':1' for integers that are 1"),
        ({"signature": {"out": "fp32:16"}}, "':16' is for pointers and integers"),
        ({"signature": {"out": "i1:1"}}, "':1' for integers that are 1"),
        (
            {"constexprs": {"BLOCK": {1}}},
            r"BLOCK: \{1\} cannot be written down: expected a bool, a number, a string, None",
        ),
        ({"constexprs": {"num_warps": 1}, "options": {"num_warps": 1}}, "named twice"),
        ({"constexprs": {"n": 1}}, "'n' is named twice"),
        ({"arch": ["sm_90", "sm_90a"]}, "expected one architecture or several different ones"),
        ({"kernel": "no_such_package.module:kernel"}, "there is no package no_such_package here: install it"),
        ({"kernel": "helpers.inner:twice"}, "there is no module helpers.inner in "),
        ({"options": 3}, r"Triton\(options=3\): expected a dict of names"),
        ({"num_warps": 0}, "expected a positive integer"),
        ({"arch": "90"}, "expected an architecture"),
        ({"arch": 90}, "expected an architecture"),
        ({"arch": []}, "expected one architecture or several different ones"),
    ],
)
def test_arguments_are_checked(project, arguments, said):
    with pytest.raises((MarkerError, EnvironmentFault), match=said):
        builder(project, **arguments)


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
        builder(project, kernel, signature=signature).build(None, tmp_path / "out", timeout_s=ENOUGH_S)
