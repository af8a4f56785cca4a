"""``acf flags``, ``acf export`` and ``acf verify-binary`` on real builds by real compilers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_compileiq import Cc, Nvcc, Ptxas
from pytest_compileiq.cli.main import main
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs
from tests.e2e.shipping import REPOSITORY, Build, committed_acf, make_build, prove
from tests.files import write_files

FLAGS = "-O2 -march=x86-64-v3"
SYSTEMS = {
    "make": (["make"], "kernel.o"),
    "ninja": (["ninja", "-v"], "kernel.o"),
    "cmake-make": (["cmake", "--build", "build", "-v"], "build/CMakeFiles/kernel.dir/kernel.c.o"),
    "cmake-ninja": (["cmake", "--build", "build", "-v"], "build/CMakeFiles/kernel.dir/kernel.c.o"),
}


def prove_kernel(root: Path, level: int = 2):
    return prove(root, "kernel", Cc("kernel.c", flags=FLAGS), {"-O": level, "-funroll-loops": ""})


@pytest.fixture(scope="module")
def _c_project(tmp_path_factory) -> Build:
    build = make_build("c", tmp_path_factory.mktemp("c"))
    prove_kernel(build.root)
    return build


@pytest.fixture
def c_project(tmp_path, _c_project) -> Build:
    shutil.copytree(_c_project.root, tmp_path / "project")
    return Build(tmp_path / "project", _c_project.path)


@pytest.fixture(params=["make", *(pytest.param(name, marks=pytest.mark.slow) for name in SYSTEMS if name != "make")])
def system(request, c_project) -> tuple[Build, list[str], Path]:
    """The C example, built once: the project, the command that builds it, and the object that takes the controls."""
    for tool in request.param.split("-"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    command, built = SYSTEMS[request.param]
    if command[0] == "cmake":
        generator = "Unix Makefiles" if request.param == "cmake-make" else "Ninja"
        c_project.run("cmake", "-S", ".", "-B", "build", "-G", generator)
    output = c_project.run(*command)
    assert compiled(output) == {"kernel.c", "plain.c"}
    return c_project, command, c_project.root / built


def compiled(output: str) -> set[str]:
    """The sources that a build compiled."""
    lines = [line for line in output.splitlines() if " -c " in line]
    return {name for name in ("kernel.c", "plain.c", "scale.cu", "plain.cu") if any(name in line for line in lines)}


# ── build systems ────────────────────────────────────────────────────────────────────────────────────────────────


def test_other_controls_rebuild_the_object_they_reach_and_no_other(system):
    project, command, built = system
    before = built.read_bytes()
    assert compiled(project.run(*command)) == set()
    prove_kernel(project.root, level=3)  # one byte of the controls file: -O2 is -O3
    assert compiled(project.run(*command)) == {"kernel.c"}
    assert built.read_bytes() != before
    assert compiled(project.run(*command)) == set()


def test_what_may_not_be_applied_stops_the_build_and_says_why(system):
    project, command, _ = system

    def stopped() -> str:
        output = project.run(*command, code=-1)
        assert compiled(output) == set()
        return output

    controls = project.controls("kernel")
    controls.write_bytes(controls.read_bytes().replace(b"-O2", b"-O1"))  # one byte that nobody proved
    assert f"acf: acf/kernel/{controls.name} was changed" in stopped()
    controls.write_bytes(controls.read_bytes().replace(b"-O1", b"-O2"))
    assert compiled(project.run(*command)) == {"kernel.c"}

    header = project.root / "kernel.h"
    header.write_text("#define SCALE 3.0f\n")
    output = stopped()
    assert "is stale: kernel.h (changed) since it was proven, by content and without a compile" in output
    assert "pytest test_kernel.py::test_kernel" in output
    header.write_text("#define SCALE 2.0f\n")

    project.for_another_line("kernel", "gcc7")
    output = stopped()
    assert "acf: kernel is for gcc7 and " in output and " is gcc" in output


SHADOWED = {
    "k.c": '#include "k.h"\nfloat total(const float *x) { return SCALE * x[0]; }\n',
    "k.cu": '#include "k.h"\nextern "C" __global__ void total(float *x) { x[0] *= SCALE; }\n',
    "first/other.h": "", "second/k.h": "#define SCALE 2.0f\n",
    "Makefile": """\
k.o: k.c k.flags
\tgcc -O2 -Ifirst -Isecond -fPIC -MMD @k.flags -c k.c -o k.o
%.flags:
\tacf flags $* --compiler gcc --output $@ --depfile $@.d
-include k.d k.flags.d
""",
}  # fmt: skip


def test_a_header_that_comes_before_the_recorded_one_stops_the_build(tmp_path, c_project):
    project = Build(write_files(tmp_path / "shadowed", SHADOWED), c_project.path)
    prove(project.root, "k", Cc("k.c", flags="-O2 -Ifirst -Isecond"), {"-O": 3})
    assert "-c k.c" in project.run("make") and "acf flags" not in project.run("make")
    (project.root / "first" / "k.h").write_text("#define SCALE 3.0f\n")
    assert "is stale: first/k.h, which the compiler reads now" in project.run("make", code=-1)
    (project.root / "first" / "k.h").unlink()
    assert "-c k.c" in project.run("make") and "acf flags" not in project.run("make")


IN_SOURCE = {
    "k.c": '#include "extra.h"\n#include <k.h>\nfloat total(const float *x) { return SCALE * x[0] * EXTRA; }\n',
    "include/extra.h": "#define EXTRA 1.0f\n", "k.h": "#define SCALE 2.0f\n",
    "options.rsp": "'-DNAME=\"a b\"' -Iinclude\n",
    "compile_commands.json": '[{"directory": "%s", "file": "k.c", "command": "gcc -O2 -I. @options.rsp -c k.c"}]',
    "Makefile": """\
k.o: k.c k.flags
\tgcc -O2 -I. @options.rsp -MMD @k.flags -c k.c -o k.o
%.flags: FORCE
\tacf flags $* --compiler gcc --output $@.new --depfile $@.d --depfile-target $@
\tcmp -s $@.new $@ || cp $@.new $@
FORCE:
-include k.d
""",
}  # fmt: skip


def test_a_build_in_its_own_source_tree_with_a_space_in_its_path_sees_every_header(tmp_path, c_project):
    root = tmp_path / "my project"
    database = IN_SOURCE["compile_commands.json"].replace("%s", str(root))
    project = Build(write_files(root, IN_SOURCE | {"compile_commands.json": database}), c_project.path)
    prove(root, "k", Cc("k.c", like="."), {"-O": 3})
    assert "-c k.c" in project.run("make") and "-c k.c" not in project.run("make")
    assert "right: k.o: total is the proven code of k" in project.run("acf", "verify-binary", "k.o")
    assert r"my\ project/include/extra.h" in (root / "k.flags.d").read_text()
    (root / "k.h").write_text("#define SCALE 3.0f\n")
    assert "is stale: k.h (changed)" in project.run("make", code=-1)
    (root / "k.h").write_text(IN_SOURCE["k.h"])
    (root / "extra.h").write_text("#define EXTRA 3.0f\n")
    assert "is stale: extra.h, which the compiler reads now" in project.run("make", code=-1)


@needs.nvcc
def test_a_header_that_comes_before_the_recorded_one_is_in_no_export(tmp_path, capsys):
    root = write_files(tmp_path, SHADOWED)
    prove(root, "total", Nvcc("k.cu", arch="sm_90a", flags="-Ifirst -Isecond"), {"--use_fast_math": ""})
    export = ["--acf-dir", str(root / "acf"), "export", "--runtime", str(root / "runtime")]
    assert main(export) == 0
    (root / "first" / "k.h").write_text("#define SCALE 3.0f\n")
    assert main(export) == 3
    assert "is stale: first/k.h, which the compiler reads now" in capsys.readouterr().err


@needs.nvcc
def test_objects_to_be_linked_or_debugged_are_told_by_their_code(tmp_path, capsys, monkeypatch):
    source = """extern "C" __global__ void plain(float *y, int n) { y[threadIdx.x] /= n; }
__device__ int count = 5;
extern "C" __global__ void counter(int *y) { y[0] = atomicAdd(&count, 1); }
"""
    root = write_files(tmp_path, {"k.cu": source, "test_k.py": ""})
    prove(root, "k", Nvcc("k.cu", arch="sm_90a"), {"--use_fast_math": ""})
    nvcc = [next(installed("nvcc")).program, "-arch=sm_90a", "--use_fast_math", "-c", "k.cu", "-o", "k.o"]
    told = {}
    for option in ("-lineinfo", "-rdc=true", "-G"):
        subprocess.run([*nvcc, option], cwd=root, check=True)
        code = main(["--acf-dir", str(root / "acf"), "verify-binary", str(root / "k.o"), "--name", "k"])
        told[option] = code, capsys.readouterr().out
    assert told["-lineinfo"][0] == 0
    # A global's address is filled in by the link; the other kernel is the proven one, linked or not.
    assert told["-rdc=true"][0] == 1
    assert (
        "counter (sm_90a) is neither proven arm" in told["-rdc=true"][1]
        and "; other code: -rdc" in told["-rdc=true"][1]
    )
    assert "plain (sm_90a) is the proven code" in told["-rdc=true"][1]
    assert told["-G"][0] == 1 and "2 functions (sm_90a) are neither proven arm" in told["-G"][1]

    monkeypatch.setenv("PTXAS_FLAGS", "-O1")
    assert main(["--acf-dir", str(root / "acf"), "export", "--runtime", str(root / "runtime")]) == 0
    assert "k was proven without PTXAS_FLAGS, set here, which nvcc reads: unset it" in capsys.readouterr().err


def test_what_the_build_made_is_what_was_proven(c_project, capsys):
    c_project.run("make")
    verify = ["--acf-dir", str(c_project.root / "acf"), "verify-binary", str(c_project.root / "kernel.o")]
    assert main(verify) == 0
    assert "kernel.o: kernel is the proven code of kernel" in capsys.readouterr().out
    c_project.run("gcc", *FLAGS.split(), "-fPIC", "-fno-gnu-unique", "-c", "kernel.c", "-o", "kernel.o")
    assert main(verify) == 1
    assert "kernel is the baseline of kernel" in capsys.readouterr().out
    c_project.run("gcc", "-O1", "-fPIC", "-c", "kernel.c", "-o", "kernel.o")
    assert main(verify) == 1
    assert "is neither proven arm" in capsys.readouterr().out


def test_of_linked_host_code_the_objects_to_give_are_named(c_project, capsys):
    c_project.run("make")
    verify = ["--acf-dir", str(c_project.root / "acf"), "verify-binary"]
    library = c_project.root / "libkernel.so"
    said = f"cannot tell: {library} is linked, which rewrites what the compiler made: give the object file"
    for name in ([], ["--name", "kernel"]):
        assert main([*verify, str(library), *name]) == 2
        target = Store(c_project.root / "acf").targets("kernel")[0]
        assert capsys.readouterr().out == f"{said} of kernel.c for the 1 function of kernel ({target})\n"
    c_project.run("gcc", "-shared", "plain.o", "-o", "libplain.so")
    assert main([*verify, str(c_project.root / "libplain.so")]) == 2
    assert "is linked, which rewrites what the compiler made, and holds no device code" in capsys.readouterr().out
    assert main([*verify, str(library), str(c_project.root / "kernel.o")]) == 2
    assert "right: " in capsys.readouterr().out


SEVERAL = {
    "a.c": "".join(f"int f{n}(int x) {{ return x * {n + 3} + hidden(x); }}\n" for n in range(12)),
    "b.c": '__attribute__((visibility("hidden"))) int hidden(int x) { return x / 7; }\n',
}


@pytest.fixture
def several(tmp_path) -> Build:
    """A library of two objects, of which one hides a function that the other's twelve call."""
    build = Build(tmp_path, os.environ["PATH"])
    head = '__attribute__((visibility("hidden"))) int hidden(int x);\n'
    (tmp_path / "a.c").write_text(head + SEVERAL["a.c"])
    (tmp_path / "b.c").write_text(SEVERAL["b.c"])
    prove(tmp_path, "several", Cc("a.c", "b.c", flags="-O0"), {"-O": 2})
    return build


def test_the_objects_of_a_library_are_compared_as_one_whole_in_a_line_of_their_artifact(several, capsys):
    def verified(level: str) -> int:
        for name in ("a", "b"):
            several.run("gcc", level, "-fPIC", "-fno-gnu-unique", "-c", f"{name}.c", "-o", f"{name}.o")
        objects = [str(several.root / name) for name in ("a.o", "b.o")]
        return main(["--acf-dir", str(several.root / "acf"), "verify-binary", *objects])

    target = Store(several.root / "acf").targets("several")[0]
    a_o, a_c, b_c = (several.root / name for name in ("a.o", "a.c", "b.c"))
    assert verified("-O2") == 0
    assert capsys.readouterr().out == f"right: {a_o}: 12 functions are the proven code of several ({target})\n"
    assert main(["--acf-dir", str(several.root / "acf"), "verify-binary", str(a_o)]) == 1
    assert "-fno-gnu-unique; give the objects of its 2 sources together, not 1: f0 (" in capsys.readouterr().out
    assert verified("-O0") == 1
    names = "f0, f1, f10, f11, f2, f3, f4, f5, f6, f7, and 2 more"
    said = f"12 functions are the baseline of several ({target}): its controls were not applied: {names}"
    assert capsys.readouterr().out == f"differs: {a_o}: {said}\n"
    a_c.write_text(a_c.read_text().replace("int f11(", "__attribute__((weak)) int g11("))
    assert verified("-O2") == 1
    assert f"f11 is missing of those of several ({target})" in capsys.readouterr().out
    b_c.write_text(b_c.read_text().replace("x / 7", "x / 9"))  # what one object hides is part of the other's functions
    assert verified("-O2") == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert (
        f"11 functions are neither proven arm of several ({target}), which is made with -fPIC -fno-gnu-unique: f0 ("
        in line
    )


def test_of_an_archive_the_object_files_are_asked_for(c_project, capsys):
    c_project.run("make")
    c_project.run("ar", "rc", "lib.a", "kernel.o")
    verified = ["--acf-dir", str(c_project.root / "acf"), "verify-binary", str(c_project.root / "lib.a")]
    assert main(verified) == 2
    assert "lib.a is an archive: give the object files in it" in capsys.readouterr().out


def test_a_damaged_binary_is_a_sentence_wherever_the_damage_is(c_project, capsys):
    c_project.run("make")
    whole = (c_project.root / "kernel.o").read_bytes()
    damaged = c_project.root / "damaged.o"
    for at in range(4, len(whole), 29):
        damaged.write_bytes(whole[:at] + b"\xff\xff" + whole[at + 2 :])
        assert main(["--acf-dir", str(c_project.root / "acf"), "verify-binary", str(damaged)]) in (0, 1, 2)
        assert "damaged.o" in capsys.readouterr().out


# ── acf flags by itself ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def flags(c_project, monkeypatch):
    monkeypatch.chdir(c_project.root)
    return lambda *more: main(["flags", "kernel", "--compiler", "gcc", *more])


def test_the_fragment_is_all_that_is_printed_and_how_it_was_decided_is_said_beside_it(flags, c_project, capsys):
    assert flags() == 0
    said = capsys.readouterr()
    assert said.out == f"@{c_project.controls('kernel')}\n"
    assert "applies: 2 sources have the content that was proven; nothing was compiled" in said.err


def test_the_depfile_names_the_controls_and_the_metadata_and_survives_their_absence(flags, c_project, capsys):
    assert flags("--depfile", "k.d", "--depfile-target", "k.o") == 0
    rules = (c_project.root / "k.d").read_text().splitlines()
    controls = c_project.controls("kernel")
    assert rules[0].startswith("k.o: ")
    assert {str(controls), str(next(controls.parent.glob("*.toml")))} <= set(rules[0].split())
    assert f"{controls}:" in rules
    assert flags("--depfile", "k.d") == 2
    assert "--depfile-target" in capsys.readouterr().err


def test_a_variable_that_an_artifact_names_is_compared_and_its_value_not_shown(flags, c_project, monkeypatch, capsys):
    (metadata,) = (c_project.root / "acf/kernel").glob("*.toml")
    named = "[fingerprint.environment]\nDEPLOYED_TO = 'here'\n\n[fingerprint.sources]"
    metadata.write_text(metadata.read_text().replace("[fingerprint.sources]", named))
    monkeypatch.setenv("DEPLOYED_TO", "here")
    assert flags() == 0
    monkeypatch.setenv("DEPLOYED_TO", "nobody's business")
    assert flags() == 3
    said = capsys.readouterr().err
    assert "DEPLOYED_TO was 'here' and is 'another value'" in said and "business" not in said


def test_a_retired_artifact_is_refused_and_can_be_left_out_with_the_reason(flags, c_project, capsys):
    (metadata,) = (c_project.root / "acf/kernel").glob("*.toml")
    metadata.write_text(metadata.read_text().replace('"tuned"', '"retired"\nreason = "wrong on ragged rows"', 1))
    assert flags("--output", "k.flags") == 3
    said = capsys.readouterr()
    assert said.out == "" and "was retired: wrong on ragged rows" in said.err
    assert not (c_project.root / "k.flags").exists()
    assert flags("--on-stale", "omit") == 0
    said = capsys.readouterr()
    assert said.out == "" and "omitted: kernel" in said.err and "wrong on ragged rows" in said.err


def test_a_baseline_has_nothing_to_apply_and_nothing_to_refuse(flags, c_project, capsys):
    store = Store(c_project.root / "acf")
    artifact = store.read("kernel", *store.targets("kernel"))
    update = {"outcome": "baseline", "controls": None, "claims": (), "reason": "nothing was better"}
    store.write("kernel", artifact.model_copy(update=update), controls=(), samples=())
    (c_project.root / "kernel.c").write_text("void kernel(void) {}\n")
    assert flags() == 0
    said = capsys.readouterr()
    assert said.out == "" and "nothing to apply" in said.err


def test_a_wrong_call_is_a_sentence(flags, c_project, capsys):
    for arguments, sentence in (
        (["flags", "kernal", "--compiler", "gcc"], "there is no artifact 'kernal'"),
        (["flags", "kernel", "--compiler", "no-such-gcc"], "no compiler 'no-such-gcc'"),
        (["flags", "kernel", "--compiler", "make"], "is neither gcc nor clang"),
        (["flags", "kernel", "--compiler", "gcc", "--target", "sm_90a-nvcc13.3"], "has no target"),
        (["export", "--runtime", "out", "none"], "there is no artifact 'none'"),
        (["verify-binary", "kernel.c", "--name", "none"], "there is no artifact 'none'"),
        (["verify-binary", "--triton-cache", "nowhere"], "there is no directory nowhere"),
    ):
        assert main(arguments) == 2
        assert sentence in capsys.readouterr().err
    for file, sentence in (("kernel.c", "neither a cubin"), ("nowhere.so", "is missing"), (".", "is no regular file")):
        assert main(["verify-binary", file]) == 2
        assert sentence in capsys.readouterr().out


def test_a_path_that_make_would_split_is_refused(tmp_path, c_project, monkeypatch, capsys):
    odd = tmp_path / "my: project"
    shutil.copytree(c_project.root, odd)
    monkeypatch.chdir(odd)
    assert main(["flags", "kernel", "--compiler", "gcc", "--depfile", "k.d", "--depfile-target", "k.o"]) == 2
    assert "has a character that make, a shell or nvcc would split at" in capsys.readouterr().err


def test_a_path_that_cannot_be_printed_is_refused(tmp_path, c_project, monkeypatch, capsys):
    odd = tmp_path / "my\n::error::project"
    shutil.copytree(c_project.root, odd)
    monkeypatch.chdir(odd)
    assert main(["flags", "kernel", "--compiler", "gcc"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "has a character that cannot be printed" in captured.err


# ── NVIDIA's compilers ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def _cuda_project(tmp_path_factory) -> Build:
    tools = [str(Path(next(installed(name)).program).parent) for name in ("nvcc", "ptxas")]
    build = make_build("cuda", tmp_path_factory.mktemp("cuda"), tools)
    prove_scale(build.root, "cuda-attention")
    prove(build.root, "add", Ptxas("add.ptx", arch="sm_90a"), {"--maxrregcount=": 40}, committed_acf("cuda-attention"))
    return build


def prove_scale(root: Path, acf: str):
    return prove(root, "scale", Nvcc("scale.cu", arch="sm_90a"), {"-Xptxas=-O": 3}, committed_acf(acf))


@pytest.fixture
def cuda_project(tmp_path, _cuda_project, monkeypatch) -> Build:
    shutil.copytree(_cuda_project.root, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PATH", _cuda_project.path)
    return Build(tmp_path / "project", _cuda_project.path)


@pytest.mark.slow
@needs.nvcc
@needs.ptxas
def test_nvcc_and_ptxas_build_what_was_proven_and_rebuild_what_another_acf_reaches(cuda_project, capsys):
    cuda_project.run("make")
    assert main(["verify-binary", "libkernels.so", "--name", "scale"]) == 0
    assert main(["verify-binary", "add.cubin", "--name", "add"]) == 0
    capsys.readouterr()
    assert compiled(cuda_project.run("make")) == set()

    before = (cuda_project.root / "libkernels.so").read_bytes()
    controls = cuda_project.controls("scale")
    controls.write_bytes(b"\0" + controls.read_bytes()[1:])
    assert compiled(cuda_project.run("make", "-n")) == {"scale.cu"}
    assert f"{controls.name} was changed" in cuda_project.run("make", code=-1)

    prove_scale(cuda_project.root, "cuda-matmul")
    output = cuda_project.run("make")
    assert compiled(output) == {"scale.cu"} and "ptxas -arch" not in output
    assert (cuda_project.root / "libkernels.so").read_bytes() != before
    assert main(["verify-binary", "libkernels.so"]) == 0

    cuda_project.for_another_line("scale", "nvcc13.2")
    assert "acf: scale is for nvcc13.2 and " in cuda_project.run("make", code=-1)


@needs.nvcc
@needs.ptxas
def test_options_lie_beside_the_acf_in_each_compilers_words(cuda_project, capsys):
    assert main(["flags", "scale", "--compiler", "nvcc", "--arch", "sm_90a"]) == 0
    said = capsys.readouterr()
    assert said.out == f"-Xptxas=--apply-controls={cuda_project.controls('scale')} -Xptxas=-O3\n"
    assert "--arch" not in said.err
    assert main(["flags", "add", "--compiler", "ptxas"]) == 0
    said = capsys.readouterr()
    assert said.out == f"--apply-controls={cuda_project.controls('add')} --maxrregcount=40\n"
    assert main(["flags", "scale", "--compiler", "nvcc"]) == 0
    assert "--arch was not given" in capsys.readouterr().err


@needs.nvcc
@needs.ptxas
def test_a_path_that_nvcc_would_split_is_refused_to_nvcc_alone(cuda_project, tmp_path, capsys):
    elsewhere = tmp_path / "with a blank"
    shutil.copytree(cuda_project.root, elsewhere)
    flags = ["--acf-dir", str(elsewhere / "acf"), "flags"]
    assert main([*flags, "scale", "--compiler", "nvcc", "--arch", "sm_90a"]) != 0
    said = capsys.readouterr()
    assert said.out == "" and "nvcc would split at: link its project to a path without one" in said.err
    (tmp_path / "link").symlink_to(elsewhere)  # the remedy
    assert main(["--acf-dir", str(tmp_path / "link/acf"), "flags", "scale", "--compiler", "nvcc"]) == 0
    assert f"-Xptxas=--apply-controls={tmp_path / 'link/acf'}" in capsys.readouterr().out
    assert main([*flags, "add", "--compiler", "ptxas"]) == 0
    assert "with a blank" in capsys.readouterr().out


@needs.nvcc
def test_an_acf_for_one_architecture_is_refused_to_a_command_for_several(cuda_project, capsys):
    command = ["flags", "scale", "--compiler", "nvcc"]
    assert main([*command, "--arch", "sm_90a", "sm_80"]) == 3
    assert "reach every architecture of a command, sm_80 too" in capsys.readouterr().err
    assert main([*command, "--arch", "sm_80"]) == 3
    assert "the command compiles for sm_80" in capsys.readouterr().err
    assert main([*command, "--arch", "sm_90a", "--arch", "sm_80", "--on-stale", "omit"]) == 0
    assert capsys.readouterr().out == ""


@needs.nvcc
def test_ptxas_and_gcc_are_other_lines_than_nvcc(cuda_project, capsys):
    for compiler in ("ptxas", "gcc"):
        assert main(["flags", "scale", "--compiler", compiler]) == 3
        assert f"scale is for nvcc13.3 and {shutil.which(compiler)} is {compiler}" in capsys.readouterr().err


# ── verify-binary on this repository's own artifacts ─────────────────────────────────────────────────────────────

KERNELS = REPOSITORY / "tests" / "kernels" / "cuda"


def nvcc(project: Build, *words: str) -> None:
    project.run("nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-O3", *words)


def verify(*arguments: str) -> int:
    return main(["--acf-dir", str(REPOSITORY / "acf"), "verify-binary", *arguments])


@pytest.mark.slow
@needs.nvcc
@pytest.mark.parametrize("kind", [["-cubin"], ["-fatbin"], ["-shared", "-Xcompiler=-fPIC"], ["-c"]], ids=" ".join)
def test_every_kind_of_binary_tells_the_acf_from_none_and_from_another(kind, cuda_project, capsys):
    source = str(KERNELS / "attention.cu")
    for acf, code, said in (
        ("cuda-attention", 0, "right: made: attention (sm_90a) is the proven code of cuda-attention (sm_90a-nvcc13.3)"),
        (None, 1, "differs: made: attention (sm_90a) is the baseline of cuda-attention"),
        ("cuda-matmul", 1, "differs: made: attention (sm_90a) is neither proven arm"),
    ):
        controls = ["-Xptxas=--apply-controls=used.acf"] if acf else []  # nvcc would split a path with a blank
        if acf:
            shutil.copy(next((REPOSITORY / "acf" / acf).glob("*.acf")), cuda_project.root / "used.acf")
        nvcc(cuda_project, *kind, *controls, source, "-o", "made")
        assert verify("made") == code
        assert said in capsys.readouterr().out


@needs.nvcc
def test_an_object_of_relocatable_device_code_is_looked_into(cuda_project, capsys):
    nvcc(cuda_project, "-rdc=true", "-c", str(KERNELS / "attention.cu"), "-o", "made.o")
    assert verify("made.o", "cuda-attention") == 1
    assert "attention (sm_90a) is " in capsys.readouterr().out


@pytest.mark.slow
@needs.nvcc
def test_controls_that_reached_an_architecture_they_were_not_proven_for_are_no_proven_code(cuda_project, capsys):
    (cuda_project.root / "main.cu").write_text(f'#include "{KERNELS / "attention.cu"}"\nint main() {{}}\n')
    shutil.copy(next((REPOSITORY / "acf/cuda-attention").glob("*.acf")), cuda_project.root / "used.acf")
    words = ["-gencode=arch=compute_80,code=[sm_80,compute_80]", "-Xptxas=--apply-controls=used.acf", "main.cu"]
    nvcc(cuda_project, *words, "-o", "program")
    assert verify("program") == 1
    proven, other = sorted(capsys.readouterr().out.splitlines(), reverse=True)
    assert proven.startswith("right: program: attention (sm_90a) is the proven code of cuda-attention")
    assert other.startswith("differs: program: attention (sm_80) was compiled with an ACF, and cuda-attention")
    cuda_project.run(
        "nvcc", "-gencode=arch=compute_80,code=compute_80", "-shared", "-Xcompiler=-fPIC", "main.cu", "-o", "ptx.so"
    )
    assert verify("ptx.so") == 2
    assert "PTX alone" in capsys.readouterr().out


@needs.nvcc
def test_compressed_device_code_is_taken_out_by_cuobjdump_or_cannot_be_told(cuda_project, capsys, monkeypatch):
    nvcc(cuda_project, "-fatbin", "--compress-mode=size", str(KERNELS / "attention.cu"), "-o", "made.fatbin")
    if next(installed("cuobjdump"), None) is not None:
        assert verify("made.fatbin") == 1
        assert "is the baseline of cuda-attention" in capsys.readouterr().out
    monkeypatch.setattr("pytest_compileiq.ship.binaries.installed", lambda name: iter(()))
    assert verify("made.fatbin") == 2
    assert "its device code is compressed, and there is no cuobjdump" in capsys.readouterr().out


@needs.nvcc
def test_a_named_artifact_must_be_there_and_a_strange_kernel_is_nobodys(cuda_project, capsys):
    nvcc(cuda_project, "-cubin", str(KERNELS / "reduction.cu"), "-o", "made.cubin")
    assert verify("made.cubin") == 0
    assert "is the baseline, which was not beaten, of cuda-reduction" in capsys.readouterr().out
    assert verify("made.cubin", "--name", "cuda-attention") == 2
    assert "holds no entry function of cuda-attention" in capsys.readouterr().out
    nvcc(cuda_project, "-cubin", "plain.cu", "-o", "plain.cubin")
    assert verify("plain.cubin") == 2
    assert "holds plain, which no artifact is for" in capsys.readouterr().out
