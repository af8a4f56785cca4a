"""ptxas as a toolchain: the real assembler on real PTX, and shell scripts where one must be old or misbehave."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError, StoreError
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.machine_code.metrics import totals, value_of
from pytest_compileiq.model import Candidate, ControlsFile
from pytest_compileiq.space import OFF
from pytest_compileiq.toolchains.base import Place, Toolchain
from pytest_compileiq.toolchains.nvidia.builder import read_ptxas_log
from pytest_compileiq.toolchains.nvidia.markers import Ptxas
from pytest_compileiq.toolchains.nvidia.options import PTXAS
from pytest_compileiq.toolchains.nvidia.ptxas import PtxasBuilder, resolve
from tests import needs
from tests.files import write_files
from tests.ptx import HEAD, SMALL

ENOUGH_S = 60.0


def wide(values: int) -> str:
    """A kernel that keeps ``values`` numbers alive across a barrier, and so needs as many registers."""
    load = "".join(f"ld.volatile.global.f32 %f{k}, [%rd2+{4 * k}];\n" for k in range(values))
    store = "".join(f"st.volatile.global.f32 [%rd2+{4 * k}], %f{values - 1 - k};\n" for k in range(values))
    return f"""
.visible .entry wide(.param .u64 p) {{
    .reg .b64 %rd<3>; .reg .f32 %f<{values}>;
    ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
{load}    bar.sync 0;
{store}    ret;
}}
"""


TWO_KERNELS = HEAD + SMALL + wide(64)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "checkout")


def make_project(root: Path, text: str = TWO_KERNELS) -> Path:
    return write_files(root, {"kernels/k.ptx": text})


def builder(root: Path, flags: str = "", compiler: str | None = None, arch: str = "sm_90a") -> PtxasBuilder:
    return resolve(Ptxas("k.ptx", arch=arch, flags=flags, compiler=compiler), Place(root / "kernels", root))


def options(ptxas: PtxasBuilder, **knobs) -> ControlsFile:
    return ptxas.render(Candidate({name.replace("_", "-"): value for name, value in knobs.items()}))


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@needs.ptxas
def test_it_is_a_toolchain_with_a_target_that_names_the_minor_version(project):
    ptxas = builder(project)
    assert isinstance(Ptxas("k.ptx", arch="sm_90a"), Toolchain)
    assert ptxas.target == f"sm_90a-{ptxas.acf_line}"
    assert ptxas.compiler.command == ("ptxas", "-arch=sm_90a", "kernels/k.ptx")
    assert ptxas.sources().keys() == {"kernels/k.ptx"}


@needs.ptxas
def test_a_build_gives_exact_metrics_for_each_entry_and_for_the_whole(project, tmp_path):
    built = builder(project).build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    small, whole = built.code["small"].metrics, built.code["wide"].metrics
    assert built.code.keys() == {"small", "wide"}
    assert whole["registers"] > 64 > small["registers"] > 0
    assert whole["barriers"] == 1
    assert built.metrics["registers"] == whole["registers"]
    for name in ("code_bytes", "instructions", "spill_bytes"):
        assert built.metrics[name] == small[name] + whole[name]
    assert 0 < small["instructions"] <= small["code_bytes"] // 16


@needs.ptxas
def test_a_metric_is_of_the_entries_that_a_pattern_names(project, tmp_path):
    ptxas = builder(project)
    arms = [
        ptxas.build(controls, tmp_path / name, timeout_s=ENOUGH_S)
        for name, controls in {"baseline": None, "squeezed": options(ptxas, **{"--maxrregcount=": 32})}.items()
    ]
    entries = [{name: code.metrics for name, code in arm.code.items()} for arm in arms]
    of_wide, of_small, of_both = (
        [value_of(f"registers of {pattern}", arm.metrics, held) for arm, held in zip(arms, entries, strict=True)]
        for pattern in ("w*", "small", "*")
    )
    assert of_wide == of_both
    assert of_wide[0] > 64 > 32 >= of_wide[1]
    assert of_small[0] == of_small[1] < 32
    assert value_of("spill_bytes of wide", arms[1].metrics, entries[1]) > 0
    assert value_of("spill_bytes of small", arms[1].metrics, entries[1]) == 0


@needs.ptxas
def test_equal_code_has_equal_digests_in_two_checkouts_and_two_output_directories(tmp_path):
    builds = [
        builder(make_project(tmp_path / name)).build(None, tmp_path / f"out {name}", timeout_s=ENOUGH_S)
        for name in ("one", "two")
    ]
    assert builds[0].digest == builds[1].digest
    assert builds[0].path.read_bytes() != b""


@needs.ptxas
def test_an_option_that_needs_one_kernel_s_registers_leaves_the_other_s_digest(project, tmp_path):
    ptxas = builder(project)
    baseline = ptxas.build(None, tmp_path / "baseline", timeout_s=ENOUGH_S)
    squeezed = ptxas.build(options(ptxas, **{"--maxrregcount=": 32}), tmp_path / "squeezed", timeout_s=ENOUGH_S)
    assert squeezed.code["small"] == baseline.code["small"]
    assert squeezed.code["wide"].sha256 != baseline.code["wide"].sha256
    assert squeezed.metrics["registers"] <= 32
    assert squeezed.metrics["spill_bytes"] == (
        squeezed.metrics["spill_store_bytes"] + squeezed.metrics["spill_load_bytes"]
    )
    assert squeezed.metrics["spill_bytes"] > baseline.metrics["spill_bytes"] == 0


@needs.ptxas
def test_a_changed_register_count_alone_changes_the_digest(tmp_path):
    with_launch_bounds = TWO_KERNELS.replace("small(.param .u64 p) {", "small(.param .u64 p) .maxntid 128 {")
    one, other = (
        builder(make_project(tmp_path / name, text)).build(None, tmp_path / f"{name}.out", timeout_s=ENOUGH_S)
        for name, text in (("one", TWO_KERNELS), ("other", with_launch_bounds))
    )
    assert one.code["small"].sha256 != other.code["small"].sha256  # the driver launches it by another attribute
    assert one.code["wide"].sha256 == other.code["wide"].sha256


@needs.ptxas
def test_every_knob_of_the_option_space_is_taken(project, tmp_path):
    ptxas = builder(project)
    space = ptxas.option_space()
    for number, gene in enumerate(space.genes):
        point = [OFF] * len(space.genes)
        for value in (0, len(gene.values) - 1):
            point[number] = value
            controls = ptxas.render(Candidate(space.knobs(point)))
            ptxas.build(controls, tmp_path / f"{number}-{value}", timeout_s=ENOUGH_S)
            assert controls.data.decode().strip() == f"{gene.name}{gene.values[value]}"


FENCED = """.reg .b64 %rd<4>; .reg .f32 %f<4>;
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
ld.volatile.global.f32 %f1, [%rd2]; ld.relaxed.gpu.global.f32 %f2, [%rd2+4]; ld.global.cv.f32 %f3, [%rd2+8];
st.volatile.global.f32 [%rd2+16], %f1; st.relaxed.gpu.global.f32 [%rd2+20], %f2; st.global.wt.f32 [%rd2+24], %f3; ret; }
"""


@needs.ptxas
@pytest.mark.parametrize("access", ["load", "store"])
def test_a_default_cache_mode_leaves_alone_what_a_forced_one_does_not(tmp_path, access):
    """Why the one is value-safe and the other relaxes semantics: what asked for no cache would get one."""
    ptxas = builder(make_project(tmp_path / "p", HEAD + ".visible .entry k(.param .u64 p) {\n" + FENCED))

    def code(number, knobs):
        return ptxas.build(ptxas.render(Candidate(knobs)), tmp_path / str(number), timeout_s=ENOUGH_S).digest

    plain, cached = code(0, {}), {"load": "ca", "store": "wb"}[access]
    by_default = next(option for option in PTXAS.known if option.name == f"--def-{access}-cache=")
    assert {code(f"d{value}", {by_default.name: value}) for value in by_default.drawn.values} == {plain}
    assert code("f", {f"--force-{access}-cache=": cached}) != plain


@needs.ptxas
def test_a_controls_file_that_is_no_acf_is_refused_in_ptxas_s_own_words(project, tmp_path):
    ptxas = builder(project)
    with pytest.raises(BuildError, match=r"ptxas .* refuses kernels/k\.ptx: ptxas fatal") as refused:
        ptxas.build(ControlsFile("blob", b"not an acf", {}), tmp_path / "out", timeout_s=ENOUGH_S)
    assert refused.value.kind == "compile"


@needs.ptxas
def test_ptx_without_a_kernel_or_for_another_architecture_is_one_sentence(tmp_path):
    empty = builder(make_project(tmp_path / "empty", HEAD))
    with pytest.raises(BuildError, match="defines no entry function"):
        empty.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    with pytest.raises(BuildError, match="ptxas fatal"):
        builder(make_project(tmp_path / "old"), arch="sm_80").build(None, tmp_path / "out", timeout_s=ENOUGH_S)


@pytest.mark.parametrize(
    ("knobs", "refused"),
    [
        ({"--output-file=": "x"}, "--output-file=x"),
        ({"-O": "3 -o x"}, "-O3 -o x"),
        ({"-O": True}, "-OTrue"),
        ({"--maxrregcount=": "32\n-o x"}, "--maxrregcount=32"),
        ({"--apply-controls=": "y"}, "--apply-controls=y"),
        ({"--sanitize=": "memcheck"}, "--sanitize=memcheck"),
    ],
)
@needs.ptxas
def test_no_option_but_those_that_choose_code_can_stand_in_a_controls_file(project, knobs, refused):
    ptxas = builder(project)
    with pytest.raises(MarkerError, match="is no option of ptxas that a controls file may hold") as error:
        ptxas.render(Candidate(knobs))
    assert repr(refused)[1:-1].partition("\\n")[0] in str(error.value)
    with pytest.raises(StoreError):
        ptxas.parse("options", b"", knobs)
    with pytest.raises(StoreError):
        ptxas.parse("blob", b"acf", knobs)


@needs.ptxas
def test_a_committed_options_file_is_what_its_knobs_render_to_or_refused(project):
    ptxas = builder(project)
    controls = options(ptxas, **{"-O": 2, "--register-usage-level=": 7})
    assert controls.data == b"--register-usage-level=7\n-O2\n"
    assert ptxas.parse("options", controls.data, controls.knobs) == controls
    with pytest.raises(StoreError, match="line 2"):
        ptxas.parse("options", b"--register-usage-level=7\n-O3\n", controls.knobs)


@needs.ptxas
def test_options_beside_an_acf_lie_in_the_knobs_alone(project):
    ptxas = builder(project)
    mixed = ptxas.render(Candidate({"-O": 2, "block": 64}, b"acf"))
    assert (mixed.kind, mixed.data) == ("blob", b"acf")
    assert ptxas.options(mixed, Path("k.acf")) == ("--apply-controls=k.acf", "-O2")
    assert mixed.key != ptxas.render(Candidate({"-O": 3, "block": 64}, b"acf")).key


@needs.ptxas
@pytest.mark.parametrize("flags", ["-o x", "--gpu-name=sm_80", "-v", "--apply-controls=f.acf", "-O 3", "'"])
def test_flags_that_the_plugin_gives_are_refused(project, flags):
    with pytest.raises(MarkerError, match="flags="):
        builder(project, flags=flags)


@pytest.mark.parametrize("arch", ["sm90", "compute_90", "sm_90a ", "", None, 90])
def test_an_architecture_is_named_as_ptxas_names_it(project, arch):
    with pytest.raises(MarkerError, match="expected an architecture such as 'sm_90a'"):
        builder(project, arch=arch)


def test_a_missing_file_is_named_with_its_place(project):
    with pytest.raises(MarkerError, match=r"no such file: .*kernels/none\.ptx"):
        resolve(Ptxas("none.ptx", arch="sm_90a"), Place(project / "kernels", project))


def test_an_old_ptxas_builds_but_takes_no_acf_and_says_which_it_is(project, tmp_path):
    old = script(project / "kernels" / "ptxas", 'echo "Cuda compilation tools, release 13.0, V13.0.88"')
    ptxas = builder(project, compiler="./ptxas")
    assert ptxas.target == "sm_90a-ptxas13.0"
    with pytest.raises(EnvironmentFault, match=r"an ACF needs ptxas 13\.3 or later; found ptxas 13\.0\.88") as fault:
        ptxas.build(ControlsFile("blob", b"acf", {}), tmp_path / "out", timeout_s=ENOUGH_S)
    assert old in str(fault.value)
    assert "pip install" in str(fault.value)


def test_what_is_no_ptxas_or_is_not_there_is_said_so(project, monkeypatch):
    script(project / "kernels" / "ptxas", "echo hello")
    with pytest.raises(EnvironmentFault, match="does not say which ptxas it is; it says 'hello'"):
        builder(project, compiler="./ptxas")
    with pytest.raises(EnvironmentFault, match="no ptxas at"):
        builder(project, compiler="./nowhere")


def test_the_order_of_choice_is_the_extra_then_cuda_home_then_path(tmp_path, monkeypatch):
    from pytest_compileiq.toolchains.nvidia import tools

    for number, place in enumerate(("extra/nvidia/cu13/bin", "home/bin", "path")):
        (tmp_path / place).mkdir(parents=True)
        script(tmp_path / place / "ptxas", f'echo "V13.{number}.1"')
    monkeypatch.setattr(tools, "_extra_directories", lambda: [tmp_path / "extra/nvidia/cu13/bin"])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    found = [(tool.version, tool.origin) for tool in tools.installed("ptxas")]
    assert found == [("13.0.1", "the cuda extra"), ("13.1.1", "CUDA_HOME"), ("13.2.1", "PATH")]


def test_a_hanging_ptxas_is_a_timeout(project, tmp_path):
    script(project / "kernels" / "ptxas", 'case "$1" in --version) echo V13.3.1;; *) sleep 30;; esac')
    with pytest.raises(BuildError, match="took longer than") as late:
        builder(project, compiler="./ptxas").build(None, tmp_path / "out", timeout_s=0.3)
    assert late.value.kind == "timeout"


def test_a_file_that_is_no_cubin_is_said_so(tmp_path):
    for name, data in {"empty": b"", "text": b"hello", "torn": b"\x7fELF\x02\x01\x01" + bytes(20)}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BuildError, match="not a cubin"):
            read_cubin(tmp_path / name)


LOG = """\
ptxas info    : 280 bytes gmem
ptxas info    : Compiling entry function 'usesh' for 'sm_90a'
ptxas info    : Function properties for usesh
    32 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 18 registers, used 0 barriers, 32 bytes cumulative stack size
ptxas info    : Function properties for _Z6helperf
    16 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads
ptxas info    : Compiling entry function 'red' for 'sm_80'
ptxas info    : Function properties for red
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 29 registers, used 1 barriers, 1024 bytes smem, 360 bytes cmem[0]
"""


def test_the_log_is_read_entry_by_entry_with_the_functions_an_entry_calls():
    read = read_ptxas_log(LOG)
    assert read.keys() == {("usesh", "sm_90a"), ("red", "sm_80")}
    assert read["usesh", "sm_90a"] == {
        "registers": 18, "barriers": 0, "spill_store_bytes": 5, "spill_load_bytes": 10, "spill_bytes": 15,
        "stack_bytes": 48, "shared_bytes": 0,
    }  # fmt: skip
    assert totals(read.values())["registers"] == 29
    assert totals(read.values())["shared_bytes"] == 1024
