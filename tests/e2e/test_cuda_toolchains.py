"""NVIDIA's compilers through the plugin, on a machine without a GPU: tune, commit, replay, and refuse what went stale."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from pytest_compileiq.cli.main import main
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs
from tests.projects import Project, make_project, naming

pytestmark = pytest.mark.slow

# Eight rows a thread, and bounds that leave too few registers for them: the baseline spills.
ATTENTION_CU = """\
extern "C" __global__ void __launch_bounds__(256, 4)
attention(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v,
          float *__restrict__ o, int n) {
    float query[32], sum[32], most = -1e30f, total = 0;
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 32; i++) { query[i] = q[row * 32 + i]; sum[i] = 0; }
    for (int j = 0; j < n; j++) {
        float score = 0;
        #pragma unroll
        for (int i = 0; i < 32; i++) score += query[i] * k[j * 32 + i];
        float now = fmaxf(most, score), keep = __expf(most - now), weight = __expf(score - now);
        total = total * keep + weight;
        #pragma unroll
        for (int i = 0; i < 32; i++) sum[i] = sum[i] * keep + weight * v[j * 32 + i];
        most = now;
    }
    for (int i = 0; i < 32; i++) o[row * 32 + i] = sum[i] / total;
}
"""
OPEN_PY = """\
import pytest
from pytest_compileiq import Nvcc, choice, minimize

@pytest.mark.tune(
    Nvcc("attention.cu", arch="sm_90a"),
    objectives=[minimize("instructions")],
    space={"-Xptxas=-O": choice([1, 2]), "--use_fast_math": choice([""], knockout_prob=0.5)},
)
def test_attention(acf):
    built = acf.build()
    assert built.metrics["registers"] <= 64
    built.load().attention
"""
OPAQUE_PY = """\
import pytest
from pytest_compileiq import Nvcc, minimize

@pytest.mark.tune(Nvcc("attention.cu", arch="sm_90a"), objectives=[minimize("spill_bytes")])
def test_attention(acf):
    acf.build()
"""
ARTIFACT = "acf/attention/sm_90a-nvcc13.3"


def attention(root: Path, test: str) -> Project:
    return make_project(root, {"attention.cu": ATTENTION_CU, "test_attention.py": test})


@pytest.fixture(scope="module")
def _tuned(tmp_path_factory) -> Path:
    project = attention(tmp_path_factory.mktemp("cuda") / "project", OPEN_PY)
    project.pytest("--tune", "--tune-budget=5", code=0)
    return project.root


@pytest.fixture
def tuned_cuda(tmp_path: Path, _tuned: Path) -> Project:
    shutil.copytree(_tuned, tmp_path / "project")
    return Project(tmp_path / "project")


@needs.nvcc
def test_public_options_are_tuned_and_replayed_bit_for_bit_without_a_gpu(tuned_cuda):
    artifact = tomllib.loads((tuned_cuda.root / f"{ARTIFACT}.toml").read_text())
    (claim,) = artifact["claims"]
    assert claim["tuned_value"] < claim["baseline_value"]
    assert artifact["code"]["attention"]["tuned"]["metrics"]["instructions"] == claim["tuned_value"]
    output = tuned_cuda.pytest(code=0)
    assert f"instructions {claim['baseline_value']} → {claim['tuned_value']}" in output
    assert "PROVEN" in output


@needs.nvcc
@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine may have a GPU, which runs the body")
def test_without_a_device_the_body_ends_where_it_loads_and_the_run_says_what_was_not_checked(tuned_cuda):
    output = tuned_cuda.pytest(code=0)
    assert "correctness not checked" in output
    assert "1 failed" in tuned_cuda.pytest("-o", "acf_no_device=fail", code=1)
    assert "1 skipped" in tuned_cuda.pytest("-o", "acf_no_device=skip", code=0)


@needs.nvcc
def test_a_changed_kernel_is_stale_and_a_comment_is_not(tuned_cuda):
    tuned_cuda.edit("attention.cu", "#pragma unroll", "#pragma unroll // all of it")
    assert "PROVEN" in tuned_cuda.pytest(code=0)
    tuned_cuda.edit("attention.cu", "-1e30f", "-1e29f")
    output = tuned_cuda.pytest(code=1)
    assert "STALE: attention.cu (changed): the machine code is another, in attention" in output
    assert "pytest --tune test_attention.py::test_attention" in output


TOTAL_CUH = """\
#pragma once
template <class T, int N> __global__ void total(const T *x, T *sums) {
    T part[N], sum = 0;
    for (int i = 0; i < N; i++) part[i] = x[i * blockDim.x + threadIdx.x];
    for (int i = 0; i < N; i++) sum += part[i] * part[N - 1 - i];
    sums[threadIdx.x] = sum;
}
"""
TOTAL_PY = """\
import pytest
from pytest_compileiq import Nvcc, choice, minimize

@pytest.mark.tune(
    Nvcc("total.cuh", arch="sm_90a", defines={"ROWS": 32}, instantiate=["total<float, ROWS>"]),
    objectives=[minimize("registers")],
    space={"-DROWS=": choice([4, 32])},
)
def test_total(acf):
    acf.build().load()["total<float, ROWS>"]
"""
PROGRAM_CU = """\
#include "total.cuh"
__global__ void other(int *x) { *x = 1; }
int main() { other<<<1, 1>>>(0); total<float, 32><<<1, 1>>>(0, 0); total<double, 4><<<1, 1>>>(0, 0); }
"""


@needs.nvcc
def test_a_template_of_a_header_is_tuned_by_a_macro_in_its_arguments_replayed_and_verified_in_a_program(
    tmp_path, monkeypatch, capsys
):
    files = {"total.cuh": TOTAL_CUH, "test_total.py": TOTAL_PY, "program.cu": PROGRAM_CU}
    made = make_project(tmp_path / "project", files | naming("-DROWS="))
    made.pytest("--tune", "--tune-budget=2", code=0)
    artifact = tomllib.loads(made.one("acf/total/*.toml").read_text())
    assert artifact["controls"]["knobs"] == {"-DROWS=": 4}
    pair = artifact["code"].pop("total<float, ROWS>")
    assert [pair[arm]["symbol"] for arm in ("baseline", "tuned")] == [f"_Z5totalIfLi{n}EEvPKT_PS0_" for n in (32, 4)]
    assert not artifact["code"]
    assert "PROVEN" in made.pytest(code=0)

    monkeypatch.chdir(made.root)
    nvcc = next(installed("nvcc")).program
    for before, now, code in (("", "", 1), ("<float, 32>", "<float, 4>", 0)):
        made.edit("program.cu", before, now)
        subprocess.run([nvcc, "-arch=sm_90a", "-O3", "-cubin", "program.cu"], check=True)
        assert main(["verify-binary", "program.cubin"]) == code
    assert capsys.readouterr().out.splitlines() == [
        "differs: program.cubin: total<float, 32> (sm_90a) is the baseline of total (sm_90a-nvcc13.3): "
        "its controls were not applied",
        "right: program.cubin: total<float, 4> (sm_90a) is the proven code of total (sm_90a-nvcc13.3)",
    ]


SEVERAL_PY = """\
import pytest
from pytest_compileiq import Nvcc, choice, minimize

@pytest.mark.tune(
    Nvcc("scale.cu", arch=["sm_90a", "sm_80"]),
    objectives=[minimize("code_bytes")],
    space={"-Xptxas=-O": choice([1, 2])},
)
def test_scale(acf):
    acf.build()
"""
SCALE_CU = """\
extern "C" __global__ void scale(float *x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 2 * x[i] + x[i] * x[i];
}
"""


@needs.nvcc
def test_the_order_of_architectures_means_nothing_and_one_less_or_another_is_stale(project):
    made = project({"scale.cu": SCALE_CU, "test_scale.py": SEVERAL_PY})
    made.pytest("--tune", "--tune-budget=3", code=0)
    assert (made.root / "acf/scale/sm_80.sm_90a-nvcc13.3.toml").is_file()
    made.edit("test_scale.py", '["sm_90a", "sm_80"]', '["sm_80", "sm_90a"]')
    made.pytest(code=0)
    for arch in ('"sm_90a"', '["sm_80", "sm_90"]', '["sm_80", "sm_90a", "sm_100a"]'):
        text = (made.root / "test_scale.py").read_text()
        (made.root / "test_scale.py").write_text(text.replace('["sm_80", "sm_90a"]', arch))
        output = made.pytest("-o", "acf_no_device=skip", code=1)
        assert "STALE: the test asks for sm_" in output
        assert "and the artifact is for sm_80.sm_90a-nvcc13.3" in output
        (made.root / "test_scale.py").write_text(text)
    made.edit("scale.cu", "2 * x[i]", "3 * x[i]")
    made.pytest("--acf-report=report.json", code=1)
    (item,) = json.loads((made.root / "report.json").read_text())["items"]
    assert [(code["entry"], code["architecture"]) for code in item["moved"]] == [
        ("scale", "sm_80"),
        ("scale", "sm_90a"),
    ]


PRIVATE_CU = """\
namespace {
__device__ float table[256];
__global__ void attention(float *o, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) o[i] /= table[i & 255];
}
}
void launch(float *o, int n) { attention<<<1, 256>>>(o, n); }
"""


@needs.nvcc
def test_kernels_that_are_private_to_their_file_replay_in_another_checkout_and_verify_when_built_there(tmp_path):
    project = attention(tmp_path / "project", OPEN_PY.replace("built.load().attention", "pass"))
    (project.root / "attention.cu").write_text(PRIVATE_CU)
    assert "whether another checkout" not in project.pytest("--tune", "--tune-budget=5", code=0)
    artifact = tomllib.loads((project.root / f"{ARTIFACT}.toml").read_text())
    assert list(artifact["code"]) == ["_ZN45_GLOBAL__N__00000000_12_attention_cu_000000009attentionEPfi"]

    elsewhere = Project(tmp_path / "another" / "deeper" / "checkout")
    shutil.copytree(project.root, elsewhere.root)
    assert "1 proven" in elsewhere.pytest(code=0)
    knobs = [f"{name}{value}" for name, value in artifact["controls"]["knobs"].items()]
    nvcc = next(installed("nvcc")).program
    options = ["-O3", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", "attention.cu", "-o", "built.cubin"]
    subprocess.run([nvcc, *options, *knobs], cwd=elsewhere.root, check=True)
    acf = ["--acf-dir", str(project.root / "acf"), "verify-binary", str(elsewhere.root / "built.cubin")]
    assert main(acf) == 0


@needs.nvcc
def test_another_compiler_line_is_stale_and_names_both(tuned_cuda):
    for file in (tuned_cuda.root / "acf/attention").iterdir():
        file.rename(file.with_name(file.name.replace("nvcc13.3", "nvcc13.2")))
    metadata = tuned_cuda.root / "acf/attention/sm_90a-nvcc13.2.toml"
    metadata.write_text(metadata.read_text().replace("nvcc13.3", "nvcc13.2"))
    output = tuned_cuda.pytest(code=1)
    assert "the artifact is for sm_90a-nvcc13.2, and the compiler here makes sm_90a-nvcc13.3" in output


@needs.nvcc
def test_an_option_that_runs_something_cannot_ride_in(tuned_cuda):
    metadata = tuned_cuda.root / f"{ARTIFACT}.toml"
    text = metadata.read_text()
    start = text.index("[controls.knobs]")
    metadata.write_text(
        text[:start] + '[controls.knobs]\n"-Xcompiler=-fplugin=" = "x.so"\n' + text[text.index("\n\n[compiler]") :]
    )
    output = tuned_cuda.pytest(code=1)
    assert "CORRUPT" in output
    assert "-Xcompiler=-fplugin=x.so" in output


@needs.nvcc
@needs.compileiq
@needs.search_spaces
def test_the_real_compileiq_improves_an_exact_metric_and_its_acf_is_replayed_and_guarded(tmp_path):
    project = attention(tmp_path / "project", OPAQUE_PY)
    for seed in range(6):  # of CompileIQ's draws, other ones in every run, one in seven spills less
        project.pytest("--tune", "--tune-budget=12", f"--tune-seed={seed}", code=0)
        artifact = tomllib.loads((project.root / f"{ARTIFACT}.toml").read_text())
        if artifact["outcome"] == "tuned":
            break
    assert artifact["controls"]["kind"] == "blob"
    assert artifact["search"]["engine"] == "compileiq"
    assert artifact["provenance"]["notice"] == "© NVIDIA Corporation, 2026."
    (claim,) = artifact["claims"]
    assert claim["tuned_value"] < claim["baseline_value"]
    assert "PROVEN" in project.pytest(code=0)

    controls = project.one("acf/attention/*.acf")
    committed = tmp_path / "pack"
    committed.mkdir()
    shutil.copy(controls, committed / "winner.acf")
    (committed / "junk.acf").write_bytes(b"not an acf")
    controls.write_bytes(controls.read_bytes()[:-1] + b"\0")
    assert "was changed" in project.pytest(code=1)

    shutil.rmtree(project.root / "acf")
    output = project.pytest("--tune", "--tune-engine=pack", f"--tune-from={committed}", code=0)
    assert f"spill_bytes {claim['baseline_value']} → {claim['tuned_value']}" in output
    assert "1 invalid (compile)" in output
    again = tomllib.loads((project.root / f"{ARTIFACT}.toml").read_text())
    assert (again["search"]["engine"], again["search"]["evaluations"]) == ("pack", 2)
    assert again["code"] == artifact["code"]


SCALE_PTX = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 x) {
    .reg .b64 %rd<2>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [x]; ld.global.f32 %f1, [%rd1]; mul.f32 %f1, %f1, %f1; st.global.f32 [%rd1], %f1;
    ret;
}
"""


@needs.ptxas
@needs.compileiq
@needs.search_spaces
def test_acfs_that_never_reach_the_compiler_stop_the_search_at_once(tmp_path):
    test = OPAQUE_PY.replace("Nvcc", "Ptxas").replace("attention.cu", "scale.ptx")
    project = make_project(tmp_path / "project", {"scale.ptx": SCALE_PTX, "test_scale.py": test})
    deaf = "\n".join((
        "from pytest_compileiq.toolchains.nvidia.ptxas import PtxasBuilder",
        "PtxasBuilder.applied = lambda self, controls, path: ()",
    ))  # fmt: skip
    (project.root / "conftest.py").write_text(deaf)
    output = project.pytest("--tune", "--tune-budget=100", code=1)
    assert "ACFs in a row change no machine code, so controls do not reach the compiler" in output
    pack = tmp_path / "debug"
    pack.mkdir()
    (pack / "a.acf").write_bytes(b"first by name")
    (pack / "ptxas-O0.acf").write_bytes(b"the debug pack's")
    output = project.pytest("--tune", "--tune-engine=pack", f"--tune-from={pack}", code=1)
    assert "ptxas-O0.acf changes no machine code, so controls do not reach the compiler" in output


def test_a_space_for_another_compiler_is_refused_before_anything_is_searched(tmp_path):
    project = make_project(
        tmp_path / "project",
        {
            "k.c": "int k(void) { return 1; }\n",
            "test_k.py": "import pytest\nfrom pytest_compileiq import Cc, PtxasSearchSpace, minimize\n"
            "@pytest.mark.tune(Cc('k.c'), space=PtxasSearchSpace(), objectives=[minimize('code_bytes')])\n"
            "def test_k(acf):\n    acf.build()\n",
        },
    )
    output = project.pytest("--tune", code=1)
    assert "is for ptxas13.3, and gcc takes no ACF" in output


LIKE_PY = """\
import pytest
from pytest_compileiq import Nvcc, choice, minimize

@pytest.mark.tune(
    Nvcc("scale.cu", arch="sm_90a", like="build"),
    objectives=[minimize("instructions")],
    space={"--use_fast_math": choice([""]), "-DSTEP=": choice([1])},
)
def test_scale(acf):
    acf.build()
"""


@needs.nvcc
def test_a_source_is_compiled_as_production_does_and_verified_in_what_that_builds(tmp_path):
    nvcc = str(next(installed("nvcc")).program)
    source = SCALE_CU.replace("2 * x[i]", "x[i] / (n * STEP + TWO)")
    files = {
        "scale.cu": source,
        "test_scale.py": LIKE_PY,
        "build/compile_commands.json": "",
        "pytest.ini": "[pytest]\nacf_options = -DSTEP=",
    }
    made = make_project(tmp_path / "my project", files)
    build, database = made.root / "build", made.root / "build/compile_commands.json"
    command = [nvcc, "-DTWO=2", "-DSTEP=3", "-gencode", "arch=compute_90a,code=sm_90a", "-O3", "-c", "../scale.cu"]
    command += ["-o", "scale.o"]

    def record(*more: str) -> str:
        entry = {"directory": str(build), "arguments": [*command, *more], "file": str(made.root / "scale.cu")}
        database.write_text(json.dumps([entry]))
        return database.read_text()

    entry = record()
    made.pytest("--tune", "--tune-budget=4", code=0)
    assert '"-DTWO=2"' in made.one("acf/scale/*.toml").read_text()
    subprocess.run(command, cwd=build, check=True)
    assert "the baseline of scale" in made.acf("verify-binary", "build/scale.o", code=1)
    made.acf("flags", "scale", "--compiler", nvcc, "--arch", "sm_90a", "--output", "build/k.flags")
    assert made.one("acf/scale/*.acf").read_text() == "--use_fast_math\n-DSTEP=1\n"
    (stored,) = shlex.split((build / "k.flags").read_text())
    assert stored == f"--options-file={made.one('acf/scale/*.acf')}"
    for applied in (["-optf", "k.flags"], ["--options-file=k.flags"], [stored], stored.split("=")):
        subprocess.run([*command, *applied], cwd=build, check=True)
        assert "right: build/scale.o" in made.acf("verify-binary", "build/scale.o")
        record(*applied)  # the options of artifacts are no part of the baseline
        assert "PROVEN" in made.pytest(code=0)
    database.write_text(entry.replace("TWO=2", "TWO=3"))
    assert "the compiler's command changed (gone: -DTWO=2; new: -DTWO=3): the machine code is another" in made.pytest(
        code=1
    )
