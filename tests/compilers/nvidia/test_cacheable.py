"""What builds by the real ptxas and nvcc depend on: each change of it makes another key, or ends what an entry says."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from bench.build_cache import through
from pytest_compileiq.benchmark.cached_builds import CachedBuilds
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import HOST, BuildResult, Candidate
from pytest_compileiq.rules.build_key import NotModelled, key_of
from pytest_compileiq.store.build_cache import BuildCache
from pytest_compileiq.system.seen_files import SeenFiles
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.nvidia import host_half
from pytest_compileiq.toolchains.nvidia.markers import Nvcc, Ptxas
from pytest_compileiq.toolchains.nvidia.nvcc import NvccBuilder
from pytest_compileiq.toolchains.nvidia.nvcc import resolve as resolve_nvcc
from pytest_compileiq.toolchains.nvidia.ptxas import PtxasBuilder
from pytest_compileiq.toolchains.nvidia.ptxas import resolve as resolve_ptxas
from tests import needs
from tests.files import write_files
from tests.projects import make_project
from tests.ptx import HEAD, SMALL

ENOUGH_S = 120.0
SOURCE = """\
#define ASKS(x) __has_include(x)
#define NAME <scale.h>
#include NAME
#if ASKS(<late.h>)
#include <late.h>
#endif
extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= SCALE; }
"""
FLAGS = "-O3 -Ifirst -isystem second --threads 2 -Xptxas -v"
TEST = """\
import pytest
from pytest_compileiq import Nvcc, Ptxas, minimize

@pytest.mark.tune(Nvcc("k.cu", arch="sm_90a", output="cubin", flags="-O3 -Ifirst -isystem second"),
                  space="options", objectives=[minimize("registers")])
def test_scale(acf):
    acf.build()

@pytest.mark.tune(Ptxas("k.ptx", arch="sm_90a"), space="options", objectives=[minimize("registers")])
def test_small(acf):
    acf.build()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path, {"k.cu": SOURCE, "k.ptx": HEAD + SMALL, "second/scale.h": "#define SCALE 3.0f\n"})


def nvcc(root: Path, **arguments: object) -> NvccBuilder:
    given = {"source": "k.cu", "arch": "sm_90a", "output": "cubin", "flags": FLAGS, **arguments}
    return resolve_nvcc(Nvcc(**given), Place(root, root))  # type: ignore[arg-type]


def ptxas(root: Path, **arguments: str) -> PtxasBuilder:
    return resolve_ptxas(Ptxas("k.ptx", **{"arch": "sm_90a", **arguments}), Place(root, root))


def key(of: NvccBuilder | PtxasBuilder, candidate: Candidate | None = None) -> str:
    return key_of(of.cacheable(of.render(candidate) if candidate else None).question())


@needs.nvcc
def test_every_change_of_what_cicc_gets_makes_another_key(root, monkeypatch):
    keys = [key(nvcc(root))]
    for headers in (
        {"second/scale.h": "#define SCALE 4.0f\n"},
        {"first/scale.h": "#define SCALE 5.0f\n"},  # before the other
        {"first/late.h": "#define LATE\nint late;\n"},  # asked for by another name than __has_include
    ):
        write_files(root, headers)
        keys.append(key(nvcc(root)))
    (root / "first/late.h").unlink()
    with monkeypatch.context() as patched:
        patched.setenv("CPATH", str(write_files(root / "third", {"late.h": "int later;\n"})))
        keys.append(key(nvcc(root)))
    with monkeypatch.context() as patched:
        patched.setenv("NVCC_APPEND_FLAGS", "--fmad=false")
        keys.append(key(nvcc(root)))
    others = [
        nvcc(root, flags=f"{FLAGS} --ftz=true"),
        nvcc(root, arch="sm_90"),
        nvcc(root, flags=f"{FLAGS} -lineinfo"),
    ]
    keys += [key(other) for other in others]
    keys += [key(nvcc(root), Candidate({"-Xptxas=-O": 1})), key(nvcc(root), Candidate({"--use_fast_math": ""}))]
    keys += [key(nvcc(root), Candidate({}, blob=blob, origin="x")) for blob in (b"one", b"two")]
    assert len(set(keys)) == len(keys)


@needs.nvcc
def test_several_architectures_are_kept_with_the_cubin_of_each(root):
    source = f"{SOURCE}#if __CUDA_ARCH__ < 900\n#include <late.h>\n#endif\n"
    write_files(root, {"_k s.cu": source, "second/late.h": "#define LATE 1\n"})
    (root / "made").mkdir()  # a directory that changes meanwhile would be a reason to keep nothing
    both = nvcc(root, source="_k s.cu", arch=["sm_80", "sm_90a"])
    builds = CachedBuilds(BuildCache(root), seen=SeenFiles(settled_ns=0))
    made, _ = through(builds, both, root / "made", lambda: both.build(None, root / "made", timeout_s=ENOUGH_S))
    found, sources = through(builds, both, root / "found", pytest.fail)
    assert found.cached and (found.code, found.log, found.metrics) == (made.code, made.log, made.metrics)
    assert set(found.code) == {"scale@sm_80", "scale@sm_90a"}
    assert {"_k s.cu", "second/late.h", "second/scale.h"} == set(sources or ())
    for name in ("kernel.cubin", "_k s.compute_80.cubin", "_k s.compute_90a.cubin"):
        assert (root / "found" / name).read_bytes() == (root / "made" / name).read_bytes()
    keys = [key(both), key(nvcc(root, source="_k s.cu", arch=["sm_80", "sm_90"])), key(nvcc(root, source="_k s.cu"))]
    write_files(root, {"second/late.h": "int only_for_sm_80;\n"})
    keys.append(key(both))
    assert len(set(keys)) == len(keys)
    assert "fatbinary" in {Path(path).name for path in both.cacheable(None).inputs()[1].files}


HOST_CODE = """\
extern "C" void run(float *x) { scale<<<1, 32>>>(x); }
int main(int count, char **words) { return count - 1; }
"""


@needs.nvcc
@pytest.mark.parametrize("output", ["library", "executable"])
def test_host_code_is_kept_with_what_gcc_and_the_linker_read(root, output):
    write_files(root, {"k.cu": SOURCE + HOST_CODE})
    (root / "made").mkdir()
    of = nvcc(root, output=output)
    builds = CachedBuilds(BuildCache(root), seen=SeenFiles(settled_ns=0))
    made, _ = through(builds, of, root / "made", lambda: of.build(None, root / "made", timeout_s=ENOUGH_S))
    found, _ = through(builds, of, root / "found", pytest.fail)
    assert found.cached and (found.code, found.metrics, found.log) == (made.code, made.metrics, made.log)
    assert HOST in found.code
    assert found.path.read_bytes() == made.path.read_bytes()
    own, installed = of.cacheable(None).inputs()
    assert own.files == {str(root / "k.cu"), str(root / "second/scale.h")}
    names = {Path(path).name for path in installed.files}
    assert {"cudafe++", "nvlink", "cc1plus", "ld", "libcudadevrt.a", "libcudart_static.a", "host_runtime.h"} <= names
    keys = [key(of), key(nvcc(root)), key(nvcc(root, output=output, flags=f"{FLAGS} -Xcompiler=-fno-builtin"))]
    write_files(root, {"first/crt/host_runtime.h": "#include_next <crt/host_runtime.h>\nstatic int more;\n"})
    keys.append(key(of))  # before CUDA's own, in code that nvcc generates
    write_files(root, {"k.cu": SOURCE + HOST_CODE.replace("count - 1", "count - 2")})
    keys.append(key(of))
    assert len(set(keys)) == len(keys)


@needs.nvcc
def test_another_host_compiler_before_the_one_that_was_found_ends_an_entry(root, monkeypatch):
    write_files(root, {"k.cu": SOURCE + HOST_CODE})
    for name in ("made", "bin"):
        (root / name).mkdir()
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")
    of = nvcc(root, output="library")
    builds = CachedBuilds(BuildCache(root), seen=SeenFiles(settled_ns=0))
    through(builds, of, root / "made", lambda: of.build(None, root / "made", timeout_s=ENOUGH_S))
    assert len(BuildCache(root).stored()) == 1
    (root / "bin/g++").write_text("#!/bin/sh\nexit 1\n")
    (root / "bin/g++").chmod(0o755)
    with pytest.raises(BuildError):
        through(
            CachedBuilds(BuildCache(root), seen=SeenFiles(settled_ns=0)), of, root / "other",
            lambda: of.build(None, root / "other", timeout_s=ENOUGH_S),
        )  # fmt: skip


@needs.nvcc
def test_host_code_whose_assembler_reads_a_file_is_built_and_not_kept(root):
    assembly = 'asm(".inc" "bin \\"data\\"");'
    write_files(root, {"k.cu": SOURCE + HOST_CODE + assembly + "\n", "data": "one"})
    (root / "made").mkdir()
    of = nvcc(root, output="library")
    builds = CachedBuilds(BuildCache(root), seen=SeenFiles(settled_ns=0))
    made = builds.make(of, None, None, lambda: of.build(None, root / "made", timeout_s=ENOUGH_S))
    assert made.built.path.is_file()
    assert made.why_not_kept == 'the assembler of the host code gets .incbin "data"'
    assert BuildCache(root).stored() == []


@needs.nvcc
def test_host_code_that_reads_an_unknown_header_is_built_and_not_kept(root, monkeypatch):
    """As CUDA of another version may include one more."""
    monkeypatch.setattr(host_half, "_INCLUDES", "")
    write_files(root, {"k.cu": SOURCE + HOST_CODE})
    of = nvcc(root, output="library")
    made = CachedBuilds(BuildCache(root)).make(of, None, None, lambda: of.build(None, root / "m", timeout_s=ENOUGH_S))
    assert re.fullmatch(r"the host code reads /.*\.h", made.why_not_kept or "")
    assert BuildCache(root).stored() == []


@needs.nvcc
def test_what_cicc_does_not_get_leaves_the_key_as_it_is(root):
    before = nvcc(root).cacheable(None)
    write_files(root, {"second/scale.h": "#define SCALE 3.0f // three\n", "first/unread.h": ""})
    after = nvcc(root).cacheable(None)
    assert key_of(before.question()) == key_of(after.question())
    assert before.inputs() == after.inputs(), "whose content, and so the fingerprint, is another"
    assert str(root / "second/scale.h") in after.inputs()[0].files


@needs.nvcc
def test_the_project_s_files_are_told_from_what_is_installed(root):
    own, installed = nvcc(root).cacheable(None).inputs()
    assert own.files == {str(root / "k.cu"), str(root / "second/scale.h")}
    names = {Path(path).name for path in installed.files}
    assert {"nvcc", "cicc", "ptxas", "cuda_runtime.h", "ld.so.cache"} <= names
    assert any(name.startswith("libc.so.6") for name in names), "what they load"
    assert all(os.path.isfile(path) for path in installed.files)  # noqa: PTH113 - of strings


@needs.nvcc
def test_a_file_that_a_command_names_is_an_input(root):
    """As toolkits of other versions name their library of device functions to cicc."""
    build = nvcc(root).cacheable(None)
    named = write_files(root, {"libdevice.10.bc": "", "more.bc": ""})
    cicc = f'{build.listing.before[1]} -nvvmir-library "{named}/libdevice.10.bc" --more=more.bc'
    listing = replace(build.listing, before=(build.listing.before[0], cicc))
    _, installed = structs.replace(build, listing=listing).inputs()
    assert {f"{named}/libdevice.10.bc", f"{named}/more.bc"} <= installed.files


@needs.nvcc
@pytest.mark.parametrize("name", ["nvcc", "ptxas"])
@pytest.mark.parametrize("is_modelled", [True, False])
def test_a_build_gets_the_variables_that_are_listed_whether_it_has_a_key_or_not(root, monkeypatch, name, is_modelled):
    more = "" if is_modelled else {"nvcc": " -rdc=true", "ptxas": "--preserve-relocs"}[name]
    real = nvcc(root, flags=f"{FLAGS}{more}") if name == "nvcc" else ptxas(root, flags=more)
    noted = root / "environment"
    script = root / "script"
    script.write_text(f'#!/bin/sh\nenv > "{noted}"\nexec "{real.tool.program}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CIQ_SECRET", "7")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DMORE")
    replace(real, tool=structs.replace(real.tool, program=str(script))).build(None, root / "out", timeout_s=ENOUGH_S)
    names = {line.partition("=")[0] for line in noted.read_text().splitlines()}
    assert "CIQ_SECRET" not in names
    assert {"PATH", "NVCC_APPEND_FLAGS"} <= names


@needs.nvcc
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"output": "library", "flags": f"{FLAGS} -Xcompiler=-flto"}, "-flto is not modelled"),
        ({"output": "executable", "flags": f"{FLAGS} -Xcompiler=-O1,-B."}, "-B. is not modelled"),
        ({"flags": f"{FLAGS} -rdc=true"}, "-rdc=true is not modelled"),
        ({"flags": "-O3"}, "k.cu.*scale.h: No such file"),
        ({"source": "raw.cu"}, "leaves something for the compiler to read"),
    ],
)
def test_a_build_that_may_depend_on_more_is_not_modelled(root, arguments, reason):
    (root / "raw.cu").write_text(f'{SOURCE}const char *text = R"(\n#include <a>\n)";\n')
    with pytest.raises(NotModelled, match=reason):
        nvcc(root, **arguments).cacheable(None)


@needs.nvcc
def test_a_variable_that_no_key_holds_does_not_reach_a_build(root, monkeypatch):
    """cicc and ptxas look at some that no manual names."""
    wrapper = root / "gcc"
    wrapper.write_text('#!/bin/sh\nexec /usr/bin/env gcc -DSECRET="${CIQ_SECRET:-0}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("NVCC_CCBIN", str(wrapper))
    (root / "k.cu").write_text(SOURCE.replace("SCALE;", "SCALE + SECRET;"))
    keys, code = [], []
    for number, secret in enumerate(("", "7")):
        monkeypatch.setenv("CIQ_SECRET", secret)
        keys.append(key(nvcc(root)))
        code.append(nvcc(root).build(None, root / f"out-{number}", timeout_s=ENOUGH_S).code)
    assert keys[0] == keys[1]
    assert code[0] == code[1]


@needs.nvcc
@pytest.mark.parametrize(
    ("wrapper", "reason"),
    [
        ('#!/bin/sh\nexec gcc "$@" -M > /dev/null\n', "the preprocessor is not understood"),
        ("#!/bin/sh\nexit 1\n", "the preprocessor is not understood"),
    ],
)
def test_a_host_compiler_that_is_not_understood_is_no_reason_to_fail(root, monkeypatch, wrapper, reason):
    (root / "gcc").write_text(wrapper)
    (root / "gcc").chmod(0o755)
    monkeypatch.setenv("NVCC_CCBIN", str(root / "gcc"))
    with pytest.raises(NotModelled, match=reason):
        nvcc(root).cacheable(None)


@needs.nvcc
def test_a_script_in_place_of_nvcc_is_not_modelled(root):
    real = nvcc(root)
    script = root / "nvcc"
    script.write_text(f'#!/bin/sh\nexec "{real.tool.program}" "$@"\n')
    script.chmod(0o755)
    wrapped = replace(real, tool=structs.replace(real.tool, program=str(script)))
    with pytest.raises(NotModelled, match="nvcc is a script around another program"):
        wrapped.cacheable(None).inputs()


@pytest.mark.slow
@needs.nvcc
def test_a_header_that_changed_after_the_cache_was_asked_is_built_and_not_kept(root):
    """The build's own text is compared: times and directories would miss one that comes and goes."""
    other = root / "first/scale.h"

    def make(out_dir: Path) -> BuildResult:
        write_files(root, {"first/scale.h": "#define SCALE 7.0f\n"})
        built = nvcc(root).build(None, out_dir, timeout_s=ENOUGH_S)
        other.unlink()
        return built

    for name in ("first", "out"):  # a directory that changes meanwhile would be a reason of its own
        (root / name).mkdir()
    builds = CachedBuilds(BuildCache(root), seen=SeenFiles(settled_ns=0))
    through(builds, nvcc(root), root / "out", lambda: make(root / "out"))
    assert BuildCache(root).stored() == []
    through(builds, nvcc(root), root / "out", lambda: nvcc(root).build(None, root / "out", timeout_s=ENOUGH_S))
    assert len(BuildCache(root).stored()) == 1


@needs.ptxas
def test_a_build_of_ptx_depends_on_the_ptx_its_words_and_ptxas(root):
    own, installed = ptxas(root).cacheable(None).inputs()
    assert own.files == {str(root / "k.ptx")}
    assert "ptxas" in {Path(path).name for path in installed.files}
    keys = [key(ptxas(root)), key(ptxas(root, arch="sm_90")), key(ptxas(root, flags="-O1"))]
    keys += [key(ptxas(root), Candidate({"--register-usage-level=": 3}))]
    keys += [key(ptxas(root), Candidate({}, blob=blob, origin="x")) for blob in (b"one", b"two")]
    assert len(set(keys)) == len(keys)
    with pytest.raises(NotModelled, match="--sanitize=memcheck is not modelled"):
        ptxas(root, flags="--sanitize=memcheck").cacheable(None).question()


@pytest.mark.slow
@needs.nvcc
def test_a_replay_that_changes_nothing_builds_nothing(tmp_path):
    files = {"k.cu": SOURCE, "k.ptx": HEAD + SMALL, "second/scale.h": "#define SCALE 3.0f\n", "test_k.py": TEST}
    project = make_project(tmp_path / "a project", files)
    project.pytest("--tune", "--tune-budget=6", code=0)
    project.expect_builds_kept(2)
    project.edit("second/scale.h", "3.0f", "3.5f")
    assert "1 × same inputs as a build of 2" in project.pytest()
