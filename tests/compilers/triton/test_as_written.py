"""Kernels as people write them: autotuned, with heuristics, in scripts and packages, in files that import torch."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError, MarkerError
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.model import BuildResult, Candidate
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.triton.builder import TritonBuilder, resolve
from pytest_compileiq.toolchains.triton.marker import Triton
from tests import needs
from tests.files import write_files
from tests.projects import make_project

pytestmark = [needs.triton, needs.ptxas]
ENOUGH_S = 120.0
# A script: what is not the kernel's would fail, as it would where there is no GPU.
SCRIPT = """\
import os
import torch
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()
x = torch.rand(98432, device=DEVICE)
assert torch.allclose(x, x)


def is_hopper():
    return torch.cuda.get_device_capability()[0] >= 9


def prune(configs, named_args, **kwargs):
    raise NotImplementedError


configs = [triton.Config({"BLOCK": block, "DTYPE": tl.float16}, num_warps=warps) for block in (256, 512) for warps in (2, 4)]
if is_hopper():
    configs += [triton.Config({"BLOCK": 1024, "DTYPE": tl.float32}, num_warps=8, num_stages=2, maxnreg=64)]
if "PYTEST_VERSION" in os.environ:
    configs = configs[-1:]
configs.append(triton.Config({"BLOCK": torch.cuda.get_device_properties(0).multi_processor_count, "DTYPE": tl.float16}))


@triton.autotune(configs=configs, key=["n"], prune_configs_by={"early_config_prune": prune})
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0, "HAS_BIAS": lambda args: args["bias"] is not None})
@triton.jit
def scale(out, x, bias, n, BLOCK: tl.constexpr, DTYPE: tl.constexpr, EVEN: tl.constexpr, HAS_BIAS: tl.constexpr,
          TWICE: tl.constexpr = False):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at) if EVEN else tl.load(x + at, mask=at < n)
    if HAS_BIAS:
        value += tl.load(bias + at, mask=at < n)
    tl.store(out + at, (value * FACTOR).to(DTYPE), mask=at < n)


def tuned(configs):
    return triton.autotune([triton.Config(values, num_warps=8) for values in configs], key=[])


@tuned([{"REDUCE": tl.sum}])
@triton.jit
def reduced(out, x, REDUCE: tl.constexpr):
    tl.store(out, REDUCE(tl.load(x + tl.arange(0, 64)), axis=0))


@triton.heuristics({"WIDE": lambda args: args["x"].shape[0] > 8})
@triton.jit
def shaped(out, x, WIDE: tl.constexpr):
    tl.store(out, tl.load(x))


@triton.jit
def rows(out, shape, stride, SIZES: tl.constexpr, num_stages: tl.constexpr):
    at = tl.arange(0, SIZES[0])
    for row in tl.range(0, shape[0], num_stages=num_stages):
        tl.store(out + row * shape[1] + at * stride[1], at * SIZES[1])


@triton.jit
def copy(out, x, BLOCK: tl.constexpr):
    out.store([0, 0], x.load([0, 0]))


FACTOR: tl.constexpr = tl.constexpr(2.0)
scale[(1,)](x, x, None, x.numel())
configs = []
"""
PACKAGE = {
    "ops/__init__.py": "import torch\nfrom .norm import normalise\ntorch.ops.load_library('ops.so')\n",
    "ops/norm.py": """\
import torch
import triton
import triton.language as tl
from .maths import twice
from . import sizes

class Norm(torch.autograd.Function):
    pass

@triton.jit
def normalise(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, twice(tl.load(x + at)) * sizes.FACTOR)
""",
    "ops/maths.py": "import torch\nimport triton\n@triton.jit\ndef twice(x):\n    return x * 2\n",
    "ops/sizes.py": "import triton.language as tl\nFACTOR = tl.constexpr(3)\n",
}
SIGNATURE = {"out": "*fp16:16", "x": "*fp32:16", "n": "i32:16"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("project"), {"01-scale.py": SCRIPT, **PACKAGE})


def builder(root: Path, kernel: str = "01-scale.py::scale", **arguments) -> TritonBuilder:
    given = {
        "signature": SIGNATURE, "arch": "sm_90a", "constexprs": {"bias": None}, "arguments": {"n": 4096},
    } | arguments  # fmt: skip
    return resolve(Triton(kernel, **given), Place(root, root))


@pytest.fixture
def build(tmp_path):
    """Build with some knobs, or the baseline."""
    built: list[BuildResult] = []

    def build(triton: TritonBuilder, **knobs) -> tuple[BuildResult, dict]:
        controls = triton.render(Candidate(knobs)) if knobs else None
        built.append(triton.build(controls, tmp_path / str(len(built)), timeout_s=ENOUGH_S))
        return built[-1], json.loads(built[-1].path.with_suffix(".json").read_text())

    return build


@pytest.mark.slow
def test_autotune_s_configs_are_a_space_and_the_first_is_the_baseline_and_both_say_so(project, build):
    triton = builder(project)
    (gene,) = triton.spaces["autotune"]().genes
    assert gene.values == (
        "BLOCK=256, DTYPE=tl.float16, num_warps=2, num_stages=3",
        "BLOCK=256, DTYPE=tl.float16, num_warps=4, num_stages=3",
        "BLOCK=512, DTYPE=tl.float16, num_warps=2, num_stages=3",
        "BLOCK=512, DTYPE=tl.float16, num_warps=4, num_stages=3",
        "BLOCK=1024, DTYPE=tl.float32, num_warps=8, num_stages=2, maxnreg=64",
    )
    # What the file decides is digested with the file, and asking for it would start Triton in every run of pytest.
    assert triton.compiler.command[3:] == ("out:*fp16:16", "x:*fp32:16", "n:i32:16", "bias=None", "n:=4096")
    baseline, described = build(triton)
    assert (described["num_warps"], described["meta"]["BLOCK"]) == (2, 256)
    said = "\n".join(triton.remarks(baseline))
    assert "the baseline's config of @triton.autotune is the first of 6, since nothing was timed" in said
    assert "@triton.heuristics computes EVEN=True, HAS_BIAS=False" in said
    assert "torch is not installed here, so a stand-in took its place" in said or needs.has("torch")
    assert "without the configs of @triton.autotune that set BLOCK=torch.cuda.get_device_properties(…)" in said
    assert "all configs of @triton.autotune count" in said

    tuned, described = build(triton, config=gene.values[4], num_warps=4)
    assert tuned.digest != baseline.digest
    assert described["num_warps"] == 4
    assert described["meta"] == {
        "num_warps": 4, "num_stages": 2, "maxnreg": 64, "BLOCK": 1024, "DTYPE": "tl.float32", "bias": None,
        "EVEN": True, "HAS_BIAS": False, "TWICE": False,
    }  # fmt: skip
    with pytest.raises(MarkerError, match=r"config='BLOCK': expected values such as 'BLOCK=128, num_warps=4'"):
        triton.render(Candidate({"config": "BLOCK"}))


def test_the_baseline_is_the_config_that_is_compiled_whoever_made_the_tuner_and_whatever_it_sets(project, build):
    triton = builder(
        project, "01-scale.py::reduced", signature={"out": "*fp32", "x": "*fp32"}, constexprs={}, arguments={}
    )
    built, described = build(triton)
    assert described["num_warps"] == 8
    assert not [word for word in triton.compiler.command if "num_warps" in word]
    (told,) = [remark for remark in triton.remarks(built) if "the baseline's config" in remark]
    assert "num_warps=8" in told


def test_the_marker_names_another_config_as_the_baseline_and_overrides_its_values(project, build):
    triton = builder(
        project, config={"BLOCK": 512, "num_warps": 4}, num_warps=8, constexprs={"bias": None, "EVEN": False}
    )
    built, described = build(triton)
    assert triton.compiler.command[6:-1] == ("num_warps=8", "bias=None", "EVEN=False", "config=BLOCK=512, num_warps=4")
    assert (described["num_warps"], described["meta"]["BLOCK"], described["meta"]["EVEN"]) == (8, 512, False)
    assert "is named in the marker: BLOCK=512" in "\n".join(triton.remarks(built))


def test_the_file_is_told_the_architecture_that_is_compiled_for(project):
    assert len(builder(project, arch="sm_80").spaces["autotune"]().genes[0].values) == 4
    both = builder(project, arch=["sm_80", "sm_90a"])
    with pytest.raises(MarkerError, match=r"other configs of @triton\.autotune for sm_90a than for sm_80"):
        both.spaces["autotune"]()


def test_of_several_architectures_each_has_its_entry(project, build):
    triton = builder(project, "ops.norm:normalise", signature={"out": "*fp32", "x": "*fp32"},
                     constexprs={"BLOCK": 64}, arch=["sm_90", "sm_80"])  # fmt: skip
    built, _ = build(triton)
    assert built.code.keys() == {"normalise@sm_80", "normalise@sm_90a"}
    assert triton.target.startswith("sm_80.sm_90a-triton")
    assert list(triton.sources()) == ["ops/maths.py", "ops/norm.py", "ops/sizes.py"]
    assert not triton.remarks(built)  # torch was not needed
    other = built.path.with_name("kernel.sm_90a.cubin")
    assert read_cubin(built.path).entries.keys() == read_cubin(other).entries.keys() == {"normalise"}


def test_tuples_and_options_that_are_constexprs_too_are_what_the_jit_makes_of_them(project, build):
    triton = builder(
        project, "01-scale.py::rows", signature={"out": "*i32:16", "shape": ("i32", "i64:16"), "stride": (None, "i32:1")},
        constexprs={"SIZES": (64, 2)}, arguments={}, num_stages=2,
    )  # fmt: skip
    baseline, described = build(triton)
    assert described["arguments"] == {"out": "*i32:16", "shape": ["i32", "i64:16"], "stride": [None, "i32:1"]}
    assert described["meta"]["num_stages"] == 2
    tuned, described = build(triton, SIZES="(128, 2)", enable_fp_fusion=False, num_ctas=2)
    assert tuned.digest != baseline.digest
    assert described["meta"]["SIZES"] == [128, 2]
    assert described["num_ctas"] == 2


def test_a_host_s_descriptor_has_sizes_that_a_candidate_decides(project, build):
    kind = "tensordesc<fp16[BLOCK, 64 // 2]>"
    triton = builder(
        project, "01-scale.py::copy", signature={"out": kind, "x": kind}, constexprs={"BLOCK": 32}, arguments={}
    )
    baseline, described = build(triton)
    assert described["arguments"]["x"] == "tensordesc<fp16[32, 32]>"
    assert build(triton, BLOCK=64)[0].digest != baseline.digest


def test_a_definition_that_cannot_be_executed_is_one_sentence(project, tmp_path):
    with pytest.raises(BuildError, match=r"no @triton\.jit function 'normalize' \(did you mean 'normalise'\?\)"):
        builder(project, "ops.norm:normalize").build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    with pytest.raises(BuildError, match="'BLOCKS' is not defined: its sizes are numbers, computed with constexprs"):
        kinds = {"out": "*fp16", "x": "tensordesc<fp16[BLOCKS]>"}
        builder(project, "01-scale.py::copy", signature=kinds, constexprs={}, arguments={}).build(
            None, tmp_path / "out", timeout_s=ENOUGH_S
        )


SMALL = """\
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 256}, num_warps=2), triton.Config({"BLOCK": 256}, num_warps=8)], key=[])
@triton.jit
def scale(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2)

scale[(1,)](*launch())
"""
TEST = """\
import pytest
from pytest_compileiq import Triton, minimize

@pytest.mark.tune(
    Triton("scale.py::scale", signature={"out": "*fp32:16", "x": "*fp32:16"}, arch="sm_90a"),
    space="autotune", objectives=[minimize("registers")],
)
def test_scale(acf):
    acf.build()
"""


@pytest.mark.slow
def test_a_config_is_found_committed_readably_and_replayed(tmp_path):
    project = make_project(tmp_path / "project", {"scale.py": SMALL, "test_scale.py": TEST})
    output = project.pytest("--tune", "--tune-engine=grid", code=0)
    assert "is the first of 2, since nothing was timed to choose one: BLOCK=256, num_warps=2" in output
    assert project.one("acf/scale/*.acf").read_text() == "config=BLOCK=256, num_warps=8, num_stages=3\n"
    assert "1 proven" in project.pytest(code=0)


HOPPER = """\
import torch
import triton
import triton.language as tl

IS_NEW = {condition}
WIDTH = tl.constexpr(128 if IS_NEW and torch.cuda.get_device_capability()[0] == 9 else 64)

@triton.jit
def fill(out):
    tl.store(out, WIDTH)
"""
BY_VERSION, BY_NAME = "torch.__version__ >= '2.0'", "'H' in torch.cuda.get_device_name(0)"
TORCH = {
    "torch/__init__.py": "from . import cuda, version\n__version__ = '2.14'\n",
    "torch/version.py": "hip, cuda = None, '13'\n",
    "torch/cuda.py": "def get_device_name(device=None):\n    {answer}\ndef get_device_capability():\n    return 8, 0\n"
    "def get_device_properties(device):\n    raise RuntimeError('Found no NVIDIA driver')\n",
}
NO_DRIVER, A_NAME = "raise RuntimeError('Found no NVIDIA driver')", "return 'NVIDIA H200'"
NO_LIBRARY = "...\nraise ImportError('libcudart.so.13: cannot open shared object file')"


@pytest.fixture
def asking(tmp_path, monkeypatch):
    """The builder of a kernel whose file asks torch, which is installed beside and answers for its machine's GPU."""

    def asking(condition: str, answer: str, device: str | None = None) -> TritonBuilder:
        installed = {name: text.replace("{answer}", answer) for name, text in TORCH.items()}
        monkeypatch.setenv("PYTHONPATH", str(write_files(tmp_path / "site", installed)))
        project = write_files(tmp_path / "project", {"k.py": HOPPER.format(condition=condition)})
        return builder(project, "k.py::fill", signature={"out": "*i32:16"}, constexprs={}, arguments={}, device=device)

    return asking


def width(built: BuildResult) -> int:
    """The number that the kernel stores."""
    return int(re.search(r"\b(64|128);", built.path.with_suffix(".ptx").read_text().partition(".entry")[2])[1])


@pytest.mark.parametrize("condition", [BY_VERSION, "int(str.split(torch.version.cuda)[0]) == 13"])
def test_torch_is_asked_what_the_target_does_not_decide_and_the_target_the_rest(asking, build, condition):
    triton = asking(condition, NO_DRIVER)
    built, _ = build(triton)
    assert width(built) == 128
    assert not [remark for remark in triton.remarks(built) if "stand-in" in remark or "answered" in remark]


@pytest.mark.slow
def test_a_file_that_asks_for_the_gpu_s_name_is_told_the_marker_s_and_refused_without(asking, build):
    with pytest.raises(BuildError, match=r"get_device_name\(…\), which only a GPU can answer: name .* device='NVIDIA"):
        build(asking(BY_NAME, NO_DRIVER))
    for device, wide in (("NVIDIA H100 80GB HBM3", 128), ("NVIDIA B200", 64)):
        triton = asking(BY_NAME, NO_DRIVER, device)
        assert f"--device={device}" in triton.compiler.command
        built, _ = build(triton)
        assert width(built) == wide
    with pytest.raises(MarkerError, match=r"Triton\(device=' '\): expected the name of a GPU"):
        asking(BY_NAME, NO_DRIVER, " ")


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        (BY_NAME, r"get_device_name\(…\), which only a GPU can answer: name"),
        (BY_VERSION, r"ImportError: libcudart.so.13"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_no_answer(asking, build, condition, sentence):
    with pytest.raises(BuildError, match=sentence):
        build(asking(condition, NO_LIBRARY))


def test_a_gpu_s_answer_is_taken_and_said_to_be_this_machine_s(asking, build):
    triton = asking(BY_NAME, A_NAME)
    built, _ = build(triton)
    assert width(built) == 128
    assert (
        "on this machine, whose GPU answered: the compiled code depends on torch.cuda.get_device_name(…)"
        in "\n".join(triton.remarks(built))
    )


def test_where_triton_is_a_condition_it_is_true_and_said_to_be(tmp_path, build):
    """As vLLM has it: without a GPU, its own flag would put something else in Triton's place."""
    files = {
        "pkg/__init__.py": "import torch\nraise SystemExit\n",
        "pkg/flags.py": "from pkg.platforms import count\nHAS_TRITON = count() == 1\n",
        "pkg/importing.py": "from .flags import HAS_TRITON\nif HAS_TRITON:\n    import triton\n    import triton.language as tl\n"
        "else:\n    triton = tl = None\n",
        "pkg/k.py": "from pkg.importing import HAS_TRITON, tl, triton\nWIDTH = tl.constexpr(128) if HAS_TRITON else 64\n"
        "@triton.jit\ndef fill(out):\n    tl.store(out, WIDTH)\n",
    }  # fmt: skip
    root = write_files(tmp_path / "project", files)
    triton = builder(root, "pkg/k.py::fill", signature={"out": "*i32:16"}, constexprs={}, arguments={})
    built, _ = build(triton)
    assert width(built) == 128
    assert triton.remarks(built) == ("Triton is installed, so pkg.importing.HAS_TRITON is taken to be true",)
    assert list(triton.sources()) == ["pkg/importing.py", "pkg/k.py"]


FUSED = """\
import os
import triton
import triton.language as tl

WIDTH = tl.constexpr(int(os.environ.get("FILL_WIDTH", "64")))

@triton.jit
def fill(out, x):
    tl.store(out, tl.load(x) * tl.load(x + 1) + WIDTH)
"""


@pytest.mark.parametrize(
    ("name", "value", "moves"),
    [("FILL_WIDTH", "128", True), ("TRITON_DEFAULT_FP_FUSION", "0", True), ("FILL_DEPTH", "128", False)],
)
def test_a_variable_that_triton_or_the_kernel_s_file_reads_is_an_input_and_no_other_is(
    tmp_path, build, monkeypatch, name, value, moves
):
    project = write_files(tmp_path / "project", {"k.py": FUSED})
    kernel = partial(
        builder, project, "k.py::fill", signature={"out": "*fp32", "x": "*fp32"}, constexprs={}, arguments={}
    )
    before, _ = build(kernel())
    monkeypatch.setenv(name, value)
    here = kernel()
    after, _ = build(here)
    assert (before.digest != after.digest) is moves
    assert here.environment == ({name: value} if moves else {})
