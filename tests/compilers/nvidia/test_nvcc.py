"""nvcc as a toolchain: the real compiler, compiling for architectures that this machine does not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from pytest_compileiq.errors import BuildError, MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import OFF
from pytest_compileiq.toolchains.base import Place, Toolchain
from pytest_compileiq.toolchains.functions import functions_of
from pytest_compileiq.toolchains.nvidia.markers import Nvcc
from pytest_compileiq.toolchains.nvidia.nvcc import NvccBuilder, resolve
from tests import needs
from tests.files import write_files

ENOUGH_S = 120.0
SOURCE = """\
#include "scale.h"
extern "C" __global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] / SCALE;
}
extern "C" __global__ void shift(float *x) { x[threadIdx.x] += 1.0f; }
"""
HOST = """
#include <cstdio>
extern "C" int answer() { return ANSWER; }
int main() { std::printf("%d\\n", answer()); return 0; }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "checkout")


def make_project(root: Path, text: str = SOURCE) -> Path:
    return write_files(root, {"kernels/k.cu": text, "kernels/include/scale.h": "#define SCALE 3.0f\n"})


def builder(root: Path, arch="sm_90a", flags="-O3 -Iinclude", **arguments) -> NvccBuilder:
    return resolve(Nvcc("k.cu", arch=arch, flags=flags, **arguments), Place(root / "kernels", root))


@needs.nvcc
def test_two_architectures_and_two_kernels_are_told_apart(project, tmp_path):
    nvcc = builder(project, arch=["sm_80", "sm_90a"])
    built = nvcc.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert isinstance(Nvcc("k.cu", arch="sm_90a"), Toolchain)
    assert nvcc.target == f"sm_80.sm_90a-nvcc{nvcc.acf_line.removeprefix('ptxas')}"
    assert built.code.keys() == {"scale@sm_80", "scale@sm_90a", "shift@sm_80", "shift@sm_90a"}
    assert len({code.sha256 for code in built.code.values()}) == 4
    assert all(code.metrics["registers"] > 0 for code in built.code.values())


@needs.nvcc
def test_a_kernel_that_one_arm_alone_has_is_told_with_instantiate(project):
    assert functions_of(builder(project)).one_sided.endswith("instantiate=['scale<TILE>']")


@needs.nvcc
@pytest.mark.parametrize("option", ["-I", "-isystem "])
def test_a_header_of_the_project_is_fingerprinted_by_whatever_option_it_is_found(project, option):
    """CMake finds those of imported targets, and many projects their copy of CUTLASS, as a system's."""
    assert "kernels/include/scale.h" in builder(project, flags=f"{option}include").sources()


@needs.nvcc
def test_the_header_closure_is_fingerprinted_and_the_toolkit_is_not(project):
    assert builder(project).sources().keys() == {"kernels/k.cu", "kernels/include/scale.h"}
    (project / "kernels/t").mkdir()
    below = Place(project / "kernels/t", project / "kernels/t")
    outside = resolve(Nvcc("../k.cu", arch="sm_90a", flags="-I../include"), below)
    assert outside.sources().keys() == {"../k.cu"}, "only its header is left to the machine code"


@needs.nvcc
def test_a_toolkit_in_the_projects_environment_is_no_part_of_the_project(project):
    """As wheels install it: beside its compiler, below the root."""
    nvcc = builder(project)
    shim = f'#!/bin/sh\nexec "{nvcc.tool.program}" -I{project}/.venv/include "$@"\n'
    write_files(project, {".venv/bin/nvcc": shim, ".venv/include/runtime.h": "", "own.h": ""})
    write_files(project, {"kernels/k.cu": f'#include "runtime.h"\n#include "../own.h"\n{SOURCE}'})
    (project / ".venv/bin/nvcc").chmod(0o755)
    wheels = replace(nvcc, tool=structs.replace(nvcc.tool, program=str(project / ".venv/bin/nvcc")))
    assert wheels.sources().keys() == {"kernels/k.cu", "kernels/include/scale.h", "own.h"}


@pytest.mark.slow
@needs.nvcc
def test_what_packages_install_is_no_part_of_the_project_and_its_place_in_no_command(project, tmp_path):
    """As torch's headers, which people keep in ``.venv`` below the root or anywhere else."""
    write_files(project, {"kernels/k.cu": f'#include "pack/pack.h"\n{SOURCE}'})
    found = []
    for environment in (tmp_path / "venv", project / ".venv"):
        site = environment / "lib/python3.12/site-packages"
        write_files(site, {"pack/pack.h": ""})
        for option in (f"-I{site}", f"-isystem {site}"):
            nvcc = builder(project, flags=f"-O3 -Iinclude {option}", output="cubin")
            assert nvcc.build(None, tmp_path / "out", timeout_s=ENOUGH_S).code.keys() == {"scale", "shift"}
            found.append((nvcc.sources(), nvcc.compiler.command, nvcc.cacheable(None).inputs()[0].files))
    assert found[:2] == found[2:]
    assert {"-I.../site-packages", "-isystem=.../site-packages"} <= {*found[0][1], *found[1][1]}
    own = {"kernels/k.cu", "kernels/include/scale.h"}
    assert found[0][0].keys() == own
    assert found[0][2] == {str(project / name) for name in own}


@needs.nvcc
def test_equal_code_has_equal_digests_in_two_checkouts(tmp_path):
    builds = [
        builder(make_project(tmp_path / name)).build(None, tmp_path / f"{name}-out", timeout_s=ENOUGH_S)
        for name in ("one", "two")
    ]
    assert builds[0].digest == builds[1].digest
    assert builds[0].code.keys() == {"scale", "shift"}


@pytest.mark.slow
@needs.nvcc
@pytest.mark.parametrize("output", ["library", "executable"])
def test_the_host_s_code_is_digested_beside_the_kernels(tmp_path, output):
    def build(name: str, answer: int):
        root = make_project(tmp_path / name, SOURCE + HOST.replace("ANSWER", str(answer)))
        return builder(root, output=output).build(None, tmp_path / f"{name}-out", timeout_s=ENOUGH_S)

    one, same, other = build("one", 42), build("same", 42), build("other", 43)
    assert one.code.keys() == {"scale", "shift", "host"}
    assert one.digest == same.digest
    assert one.code["host"] != other.code["host"]
    assert one.code["scale"] == other.code["scale"]
    assert one.path.is_file()


@needs.nvcc
def test_public_options_reach_nvcc_and_the_ptxas_behind_it(project, tmp_path):
    nvcc = builder(project)
    baseline = nvcc.build(None, tmp_path / "baseline", timeout_s=ENOUGH_S)
    for number, knobs in enumerate(({"--use_fast_math": ""}, {"-Xptxas=-O": 1})):
        controls = nvcc.render(Candidate(knobs))
        built = nvcc.build(controls, tmp_path / str(number), timeout_s=ENOUGH_S)
        assert built.code["scale"].sha256 != baseline.code["scale"].sha256
        assert nvcc.parse("options", controls.data, controls.knobs) == controls


TEMPLATE = """\
template <int N> __device__ float power(float x) { return x * power<N - 1>(x); }
template <> __device__ float power<0>(float) { return 1.0f; }
template <int N> __global__ void raised(float *x) { x[threadIdx.x] = power<N>(x[threadIdx.x]); }
"""


@pytest.mark.slow
@needs.nvcc
@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (SOURCE, {}),
        (SOURCE, {"arch": ["sm_80", "sm_90a"]}),
        (SOURCE + HOST.replace("ANSWER", "1"), {"output": "library"}),
        (SOURCE + HOST.replace("ANSWER", "1"), {"output": "executable"}),
        (TEMPLATE, {"instantiate": ["raised<3>", "raised<5>"]}),
        (SOURCE, {"flags": "-O3 -Iinclude -lineinfo -Xcompiler=-DA=\\'1\\'"}),
        (SOURCE, {"flags": "-O3 -Iinclude --threads 4 -Xptxas -v", "arch": ["sm_80", "sm_90a"]}),
    ],
    ids=["cubin", "architectures", "library", "executable", "instantiate", "lineinfo", "threads"],
)
def test_builds_together_begin_with_ptxas_and_are_what_each_is_alone(tmp_path, text, arguments):
    root = make_project(tmp_path / "a checkout", text)
    nvcc = builder(root, **arguments)
    builds = tmp_path / "builds"
    alone_in = "{}-alone" if "--threads" in nvcc.words else "{} alone"  # nvcc itself quotes no path with --threads
    levels = [nvcc.render(Candidate({"-Xptxas=-O": level})) for level in (0, 3)]
    alone = [nvcc.build(each, builds / alone_in.format(at), timeout_s=ENOUGH_S) for at, each in enumerate(levels)]
    assert alone[0].digest != alone[1].digest
    for number in range(6):
        together = nvcc.build_together(levels[number % 2], builds / f"{number}", timeout_s=ENOUGH_S)
        expected = alone[number % 2]
        assert (together.code, together.metrics) == (expected.code, expected.metrics)
        assert together.path.read_bytes() == expected.path.read_bytes() or "output" in arguments
    shortened = {script.parent.name for script in builds.glob("*/from-ptxas.sh")}
    assert shortened == {"4", "5"}


@pytest.mark.slow
@needs.nvcc
def test_what_ptxas_refuses_or_takes_too_long_for_is_told_alike(project, tmp_path):
    nvcc = builder(project)
    for number in range(4):
        nvcc.build_together(nvcc.render(Candidate({"-Xptxas=-O": number})), tmp_path / f"{number}", timeout_s=ENOUGH_S)
    spoilt = nvcc.render(Candidate({}, b"no controls"))
    told = []
    for build in (nvcc.build_together, nvcc.build):
        with pytest.raises(BuildError) as refused:
            build(spoilt, tmp_path / "spoilt", timeout_s=ENOUGH_S)
        told.append((str(refused.value), refused.value.kind))
    assert told[0] == told[1]
    with pytest.raises(BuildError, match="took longer than") as late:
        nvcc.build_together(nvcc.render(Candidate({"-Xptxas=-O": 1})), tmp_path / "late", timeout_s=1e-6)
    assert late.value.kind == "timeout"


@needs.nvcc
def test_every_knob_of_the_option_space_is_taken(project, tmp_path):
    nvcc = builder(project)
    space = nvcc.option_space()
    for first_or_last in (0, -1):
        point = [range(len(gene.values))[first_or_last] for gene in space.genes]
        knobs = {name: value for name, value in space.knobs(point).items() if name != "--use_fast_math"}
        nvcc.build(nvcc.render(Candidate(knobs)), tmp_path / str(first_or_last), timeout_s=ENOUGH_S)
    assert space.knobs([OFF] * len(space.genes)) == {}


@needs.nvcc
def test_an_acf_is_applied_by_ptxas_everywhere_and_by_nvcc_from_sm_100(project):
    for arch, controls, applied in (
        ("sm_90a", "ptxas", "-Xptxas=--apply-controls=k.acf"),
        ("sm_100a", "nvcc", "--apply-controls=k.acf"),
    ):
        nvcc = builder(project, arch=arch, controls=controls)
        assert nvcc.options(nvcc.render(Candidate({}, b"acf")), Path("k.acf")) == (applied,)
        assert nvcc.default_space().opaque.line == nvcc.acf_line
    with pytest.raises(MarkerError, match=r"work on sm_100 and newer, and not on sm_90a: use controls='ptxas'"):
        builder(project, arch=["sm_90a", "sm_100a"], controls="nvcc")


@needs.nvcc
def test_source_that_does_not_compile_is_one_sentence(tmp_path):
    root = make_project(tmp_path / "bad", "__global__ void k() { undeclared(); }\n")
    with pytest.raises(BuildError, match=r'nvcc 13\S* refuses kernels/k\.cu: .*identifier "undeclared" is undefined'):
        builder(root).build(None, tmp_path / "out", timeout_s=ENOUGH_S)


@needs.nvcc
@pytest.mark.parametrize(
    "flags",
    ["-o x", "-arch=sm_80", "-gencode arch=compute_80,code=sm_80", "-shared", "-Xptxas=--apply-controls=f", "'"],
)
def test_flags_that_the_plugin_gives_are_refused(project, flags):
    with pytest.raises(MarkerError, match="flags="):
        builder(project, flags=flags)


@pytest.mark.parametrize(
    "arguments",
    [
        {"arch": []},
        {"arch": ["sm_80", "sm_80"]},
        {"output": "object"},
        {"controls": "cicc"},
        {"arch": "90"},
        {"arch": 90},
    ],
)
def test_arguments_are_checked(project, arguments):
    with pytest.raises(MarkerError, match="expected"):
        builder(project, **arguments)


@needs.nvcc
def test_a_macros_value_is_one_text_with_its_commas(tmp_path):
    text = (
        "#if defined TWO\n#error split\n#endif\nconstexpr int two = 2;\nconstexpr int list[] = {LIST};\n"
        'static_assert(list[1] == 2 && sizeof(WORDS) == 4, "");\nextern "C" __global__ void k() {}\n'
    )
    root = make_project(tmp_path / "checkout", text)
    nvcc = builder(root, flags="-O3", defines={"LIST": "1,two", "WORDS": '"a,b"'})
    assert nvcc.build(None, tmp_path / "out", timeout_s=ENOUGH_S).code.keys() == {"k"}
    with pytest.raises(
        MarkerError, match=r"WORDS=\"a\\nb\": nvcc leaves backslashes out: define the macro in a header"
    ):
        builder(root, flags="-O3", defines={"WORDS": r'"a\nb"'})


@pytest.mark.slow
def test_a_macros_value_takes_the_baselines_place_and_decides_what_is_read(tmp_path):
    text = """\
#if WIDTH == 4
#include "wide.h"
#else
#define SUM x[0]
#endif
extern "C" __global__ void sum(float *x) { x[0] = SUM * WIDTH; }
"""
    root = write_files(tmp_path / "checkout", {"kernels/k.cu": text, "kernels/wide.h": "#define SUM x[0] + x[1]\n"})
    nvcc = builder(root, flags="-O3", defines={"WIDTH": 2})
    assert nvcc.baseline_params == {"WIDTH": 2} and "-DWIDTH=2" in nvcc.compiler.command
    wide = nvcc.render(Candidate({"-DWIDTH=": 4}))
    assert nvcc.sources().keys() == {"kernels/k.cu"}
    assert nvcc.sources_with(wide).keys() == {"kernels/k.cu", "kernels/wide.h"}
    built, widened = (
        nvcc.build(controls, tmp_path / name, timeout_s=ENOUGH_S) for name, controls in [("b", None), ("w", wide)]
    )
    assert built.code["sum"] != widened.code["sum"] and "redefined" not in widened.log
    assert nvcc.why_without_effect({"-DWIDTH=": 4}) is None
    assert "(did you mean 'WIDTH'?)" in str(nvcc.why_without_effect({"-DWIDHT=": 4}))
    (root / "kernels/k.cu").write_text("#define WIDTH 2\n" + text)
    said = nvcc.why_without_effect({"-DWIDTH=": 4}, {"-DWIDTH=": 2})
    assert said is not None and "the source defines WIDTH as 2, whatever -DWIDTH says" in said
