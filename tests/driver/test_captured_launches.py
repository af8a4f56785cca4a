"""``acf capture`` of programs that launch by Triton's own JIT, above a driver that executes no code.

What is launched, and as what, is Triton's doing and real; so is the PTX. What a kernel computes is nobody's here, and
nothing is said of it.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.toolchains.base import Place
from tests import needs
from tests.driver.build import ptxas
from tests.driver.conftest import ROOT
from tests.driver.launching import GENERATED_PY, KERNELS_PY, LIGER_PY, MORE_KERNELS_PY, SERVE_PY, TENSORS_PY
from tests.files import write_files
from tests.projects import Project

pytestmark = [pytest.mark.slow, needs.triton, needs.ptxas]
FILES = {
    "pytest.ini": "[pytest]\n", "kernels.py": KERNELS_PY, "more_kernels.py": MORE_KERNELS_PY, "tensors.py": TENSORS_PY,
    "serve.py": SERVE_PY,
}  # fmt: skip
PROGRAM = ("--", sys.executable, "serve.py")


@pytest.fixture(scope="module")
def triton(driver, tmp_path_factory) -> dict[str, str]:
    """The environment of programs that launch above the driver, by the ptxas that takes ACFs."""
    return driver | {
        "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")),
        "TRITON_PTXAS_BLACKWELL_PATH": ptxas().program,
        "TRITON_DEFAULT_FP_FUSION": "1",  # what holds without it, which warns
    }


@pytest.fixture
def launching(triton, monkeypatch) -> dict[str, str]:
    """What ``acf`` starts in this test launches above the driver."""
    for name, value in triton.items():
        monkeypatch.setenv(name, value)
    return triton


@pytest.fixture(scope="module")
def _captured(triton, tmp_path_factory) -> tuple[Path, str]:
    root = write_files(tmp_path_factory.mktemp("program"), FILES)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in triton.items():
            patch.setenv(name, value)
        said = Project(root).acf("capture", "--tests", "tests", *PROGRAM, code=0)
    return root, said


@pytest.fixture
def said(_captured) -> str:
    """What the capture printed."""
    return _captured[1]


@pytest.fixture
def captured(_captured, tmp_path) -> Project:
    shutil.copytree(_captured[0], tmp_path / "elsewhere")
    return Project(tmp_path / "elsewhere")


def kernel_of(project: Project, name: str) -> dict[str, Any]:
    return json.loads((project.root / "acf-capture" / name / "launches.json").read_text())


def markers_in(test: Path) -> list[Any]:
    """What the tests of a file are marked with."""
    tests = [value for name, value in runpy.run_path(str(test)).items() if name.startswith("test_")]
    return [test.pytestmark[0].args[0] for test in tests]


def test_the_program_notices_nothing_and_its_kernels_are_ranked_by_launches(said, launching, captured):
    alone = subprocess.run(PROGRAM[1:], cwd=captured.root, capture_output=True, text=True, env={**os.environ})
    assert said.startswith(alone.stdout)
    assert "served run" in alone.stdout
    assert "8 Triton kernels in 50 launches; share is of the launches, since how long a kernel takes on the GPU" in said
    assert re.search(r"64\.0%  32 +kernels\.py +softmax\n", said)
    assert re.search(r"20\.0%  10 +kernels\.py +matmul\n", said)
    assert "30 on grid (128,): out fp32[128,1920], x fp32[128,1920], row_stride 1920, columns 1920" in said
    assert "1 on grid (64, 1): out fp32[128,1920], x fp32[64,1001], row_stride 1001, columns 1001" in said
    assert "its PTX alone, since it is defined within a function or a class, where no test can name it; num_" in said
    assert "its PTX alone, since it is given a function as f, which cannot be written down; num_stages=3" in said
    assert "2 launches by which @triton.autotune chose a config are not counted" in said
    assert "holds how they are specialised and launched, and no data and no time of theirs" in said


def test_a_capture_holds_what_the_jit_specialised_and_not_what_a_reader_would_guess(captured):
    wide, ragged = kernel_of(captured, "softmax")["specialisations"]
    assert wide["signature"] == {"out": "*fp32:16", "x": "*fp32:16", "row_stride": "i32:16", "columns": "i32:16"}
    assert ragged["signature"] == {"out": "*fp32:16", "x": "*fp32", "row_stride": "i32", "columns": "i32"}
    assert [each["constexprs"] for each in (wide, ragged)] == [{"BLOCK": 2048}, {"BLOCK": 1024}]
    assert [each["options"] for each in (wide, ragged)] == [{"num_stages": 3, "num_warps": n} for n in (4, 8)]
    assert [call["calls"] for call in ragged["calls"]] == [1, 1]

    (attention,) = kernel_of(captured, "flash_attention")["specialisations"]
    assert attention["options"] == {"enable_fp_fusion": False, "maxnreg": 128, "num_stages": 3, "num_warps": 4}
    assert attention["signature"]["scale"] == "fp32"
    (copy,) = kernel_of(captured, "copy")["specialisations"]  # launched as it is compiled, and a tuple among arguments
    assert copy["signature"] == {"out": "*fp32:16", "x": "*fp32:16", "stride": "i32:1", "shape": ["i32:16", "i32"]}
    assert copy["calls"][0]["grid"] == [30, 1, 1]
    assert copy["calls"][0]["arguments"] == ["fp32[128,1920]", "fp32[128,1920]", 1, "tuple"]
    (scale,) = kernel_of(captured, "scale")["specialisations"]  # a config that @triton.autotune chose, and heuristics
    constexprs = {"bias": None, "by": [2.0], "BLOCK": 64, "EVEN": False, "DTYPE": "tl.float16"}
    assert scale["constexprs"] == constexprs
    assert scale["options"] == {"maxnreg": 64, "num_stages": 3, "num_warps": 4}
    assert scale["calls"][0]["arguments"] == ["fp16[1000]", "fp32[128,1920]", 1000, "default"]
    assert scale["capability"] == 90
    (described,) = kernel_of(captured, "described")["specialisations"]
    kinds = {"out": "tensordesc<fp16[64, 64]>", "x": "*kfp16:16", "is_wanted": "u1", "big": "i64:16", "n": "i32"}
    assert described["signature"] == kinds
    assert described["options"] == {"debug": True, "num_ctas": 2, "num_stages": 3, "num_warps": 4}
    assert described["calls"][0]["arguments"] == ["TensorDescriptor[512,512]", "fp16[512,512]", 1, "int", 512]


def test_each_generated_test_compiles_to_the_ptx_that_the_program_launched(_captured, tmp_path):
    """Byte for byte, by another process and with what the test file says alone; of the others ``acf`` says so."""
    root, said = _captured
    assert said.count(" compiles to the PTX that was launched\n") == 7
    for name in ("softmax", "scale", "described"):
        specialisations = kernel_of(Project(root), name)["specialisations"]
        markers = markers_in(root / f"tests/test_{name}.py")
        for number, (marker, each) in enumerate(zip(markers, specialisations, strict=True)):
            builder = marker.resolve(Place(root / "tests", root))
            built = builder.build(None, tmp_path / f"{name}{number}", timeout_s=120)
            digest = each["ptx"]["sha256"]
            launched = zlib.decompress((root / f"acf-capture/data/{digest[:2]}/{digest}.z").read_bytes())
            assert built.path.with_name("kernel.ptx").read_bytes() == launched


def test_generated_tests_run_where_there_is_no_gpu_and_compare_nothing_in_silence_nowhere(
    captured, triton, monkeypatch
):
    output = captured.pytest("--acf-check=off", "-q", "tests/test_copy.py", code=0)
    assert "correctness not checked" in output
    for name, value in triton.items():
        monkeypatch.setenv(name, value)
    output = captured.pytest("--acf-check=off", "-q", "tests/test_copy.py", code=1)
    assert "no data was recorded: launch it on yours, compare, and acf.measure the launch" in output


def test_of_a_kernel_that_no_marker_can_name_the_ptx_is_tuned(captured, said, launching, tmp_path):
    """Assembled as Triton assembles it: the machine code is that of the cubin that was launched."""
    (inner,) = markers_in(captured.root / "tests/test_within__locals__inner.py")
    assert "wrote tests/within__locals__inner.ptx" in said
    built = inner.resolve(Place(captured.root / "tests", captured.root)).build(None, tmp_path / "out", timeout_s=120)
    launched = list(Path(launching["TRITON_CACHE_DIR"]).glob("*/inner.cubin"))  # one for each line that it stood in
    assert launched
    assert all(read_cubin(path).entries == read_cubin(built.path).entries for path in launched)
    assert "test_within__locals__inner" in captured.pytest(
        "--acf-check=off", "-v", "tests/test_within__locals__inner.py", code=1
    )


def test_a_program_that_launches_what_was_captured_passes_and_what_changed_is_named(captured, launching):
    def check(code: int) -> str:
        return captured.acf("capture", "--check", "acf-capture", *PROGRAM, code=code)

    captured.edit("serve.py", "range(30)", "range(20)")
    output = check(0)
    assert "softmax: in 2 specialisations as captured; 22 launches, 32 when captured" in output
    assert "the program launches the Triton kernels that acf-capture holds" in output

    captured.edit("serve.py", "1920, 1920, BLOCK=2048", "1920, 1919, BLOCK=2048")
    captured.edit("serve.py", "copy.warmup(", "(lambda *_, **__: {(30, 1, 1): print})(")
    captured.edit("kernels.py", "total += tl.dot(", "total -= tl.dot(")
    output = check(1)
    assert (
        "softmax: no longer launched as out *fp32:16, x *fp32:16, row_stride i32:16, columns i32:16; BLOCK=2048"
        in output
    )
    assert "softmax: newly launched as out *fp32:16, x *fp32:16, row_stride i32:16, columns i32; BLOCK=2048" in output
    assert "copy: no longer launched; 1 launch when captured" in output
    assert "matmul: launched as c *fp16:16" in output
    assert "with other PTX than captured: its source, Triton or its ptxas is another" in output
    assert "the program no longer launches the Triton kernels that acf-capture holds: capture again" in output


def test_a_capture_is_verified_and_a_hostile_one_refused_in_a_sentence(captured):
    shutil.rmtree(captured.root / "acf-capture/cuInit", ignore_errors=True)
    shutil.rmtree(captured.root / "acf-capture/cuDeviceGetCount", ignore_errors=True)
    show = ("capture", "--show", "acf-capture")
    assert re.search(r"softmax +2 +32 +\d", captured.acf(*show, code=0))
    path = captured.root / "acf-capture/softmax/launches.json"
    kernel = json.loads(path.read_text())
    digest = kernel["specialisations"][0]["ptx"]["sha256"]
    (captured.root / f"acf-capture/data/{digest[:2]}/{digest}.z").write_bytes(zlib.compress(b"nothing"))
    assert f"{digest}.z does not hold what its name says" in captured.acf(*show, code=1)
    for wrong in (
        {"signature": {"x, y": "i32"}}, {"constexprs": {"BLOCK": {"deep": 1}}}, {"capability": 0}, {"others": -1},
        {"ptx": {"sha256": "../../etc", "size": 1}},
    ):  # fmt: skip
        path.write_text(json.dumps(kernel | {"specialisations": [kernel["specialisations"][0] | wrong]}))
        assert "softmax/launches.json is no captured kernel" in captured.acf(*show, code=1)
    path.write_text(json.dumps(kernel | {"schema": 99}))
    assert "softmax/launches.json has schema 99" in captured.acf(*show, code=1)
    assert "softmax/launches.json has schema 99" in captured.acf("capture", "--check", "acf-capture", *PROGRAM, code=2)


def test_a_test_that_somebody_edited_is_left_alone(captured, launching):
    test = captured.root / "tests/test_matmul.py"
    edited = test.read_text().replace('minimize("registers")', 'minimize("spill_bytes")')
    test.write_text(edited)
    output = captured.acf("capture", "--to", "again", "--tests", "tests", "--top", "2", *PROGRAM, code=0)
    assert "tests/test_softmax.py is the same" in output
    assert "tests/test_matmul.py is there and differs, so tests/test_matmul.py.new was written:" in output
    assert "6 more Triton kernels: --top and --share show more" in output
    assert test.read_text() == edited


def test_a_program_without_triton_does_not_get_it_and_pays_for_no_capture_of_it(tmp_path):
    project = Project(write_files(tmp_path, {"plain.py": "import sys\nprint('triton' in sys.modules)\n"}))
    output = project.acf("capture", "--rank-only", "--", sys.executable, "plain.py", code=0)
    assert output.startswith("False\n")
    assert "Triton" not in output


@pytest.mark.skipif(not needs.has("liger_kernel"), reason="no liger-kernel: pip install --no-deps liger-kernel")
def test_kernels_of_a_package_and_generated_ones_are_captured_as_they_are(tmp_path, launching):
    files = {"pytest.ini": "[pytest]\n", "tensors.py": TENSORS_PY, "liger.py": LIGER_PY}
    project = Project(write_files(tmp_path / "project", files))
    write_files(tmp_path / "cache", {"generated.py": GENERATED_PY})
    output = project.acf("capture", "--tests", "tests", "--", sys.executable, "liger.py", code=0)
    assert "test__rms_norm_forward_kernel compiles to the PTX that was launched\n" in output
    assert "test__dyt_fwd_kernel compiles to the PTX that was launched\n" in output
    (norm,) = markers_in(project.root / "tests/test__rms_norm_forward_kernel.py")
    assert norm.kernel == "liger_kernel.ops.rms_norm:_rms_norm_forward_kernel"
    assert (norm.num_warps, norm.signature["W_row_stride"], norm.signature["eps"]) == (8, "i32:1", "fp32")
    (tuned,) = markers_in(project.root / "tests/test__dyt_fwd_kernel.py")  # @triton.autotune has other configs
    assert tuned.constexprs == {"Beta": None, "HAVE_BETA": False, "N": 1024, "BLOCK_N": 512}
    assert tuned.options == {"maxnreg": 64, "num_ctas": 1}
    # Of what lies outside the project, as generated kernels do, the PTX is taken, with the flags of the launch.
    (fill,) = markers_in(project.root / "tests/test_fill.py")
    built = fill.resolve(Place(project.root / "tests", project.root)).build(None, tmp_path / "out", timeout_s=120)
    (launched,) = Path(launching["TRITON_CACHE_DIR"]).glob("*/fill.cubin")
    assert read_cubin(built.path).entries == read_cubin(launched).entries
    assert "--fmad=false" in fill.flags


# ── put back ─────────────────────────────────────────────────────────────────────────────────────────────────────

PUT_BACK = """\
import acf_runtime

answer = acf_runtime.resolve("triton-matmul", "sm_90a")
controls = {"ptx_options": " ".join(answer.options)} if answer.path else {}
"""


def test_what_was_tuned_is_put_back_for_its_kernel_alone_and_is_still_what_was_captured(
    captured, launching, monkeypatch
):
    """With this project's own artifact of the same specialisation: the cubins say what ptxas was given."""
    own = markers_in(ROOT / "tests/kernels/test_cuda_kernels.py")
    (ours,) = [each for each in own if getattr(each, "kernel", None) == "triton_kernels/kernels.py::matmul"]
    (generated,) = markers_in(captured.root / "tests/test_matmul.py")
    assert (generated.signature, generated.constexprs) == (ours.signature, ours.constexprs)

    deploy, cache = captured.root / "deploy", Path(launching["TRITON_CACHE_DIR"])
    Project(ROOT).acf("export", "--runtime", str(deploy), "triton-matmul", code=0)
    captured.edit("serve.py", "x, out =", f"{PUT_BACK}x, out =")
    captured.edit("serve.py", "BLOCK_K=64)", "BLOCK_K=64, **controls)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(deploy), os.environ.get("PYTHONPATH", "")]))
    output = captured.acf("capture", "--check", "acf-capture", *PROGRAM, code=0)
    assert "matmul: in 1 specialisation as captured; 10 launches, 10 when captured" in output

    (applied,) = [path for path in cache.glob("*/*.cubin") if "apply-controls" in read_cubin(path).command]
    assert {"matmul", "softmax", "copy"} <= {path.stem for path in cache.glob("*/*.cubin")}
    verified = Project(ROOT).acf("verify-binary", str(applied), code=0)
    assert "matmul (sm_90a) is the proven code of triton-matmul" in verified
