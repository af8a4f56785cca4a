"""gcc and clang as toolchains: real compilers on real sources, and shell scripts where a compiler must misbehave."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError, StoreError
from pytest_compileiq.model import Candidate, ControlsFile, KnobValue
from pytest_compileiq.toolchains.base import Place, Toolchain
from pytest_compileiq.toolchains.cc.builder import CcBuilder, resolve
from pytest_compileiq.toolchains.cc.known_options import render_options
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.options import parse_rendered
from tests.files import write_files

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
on_x86 = pytest.mark.skipif("x86" not in platform.machine(), reason="needs an x86-64 machine")

ROOT = Path(__file__).parents[4]
ENOUGH_S = 60.0

SUM = """\
#include <assert.h>
#include "weights.h"
double total(const double *x, int n) {
    assert(n >= 0);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * WEIGHT;
    return sum;
}
"""
LIBRARY_FLAGS = "-O2 -Iinclude"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "checkout")


def make_project(root: Path) -> Path:
    return write_files(root, {"kernels/sum.c": SUM, "kernels/include/weights.h": "#define WEIGHT 2.0\n"})


def builder(root: Path, cc: Cc | None = None) -> CcBuilder:
    return resolve(cc or Cc("sum.c", flags=LIBRARY_FLAGS), Place(root / "kernels", root))


def single(root: Path, text: str, **arguments: str) -> CcBuilder:
    """A project of the one source ``text``."""
    (root / "kernels").mkdir(parents=True, exist_ok=True)
    (root / "kernels" / "one.c").write_text(text)
    return builder(root, Cc("one.c", **arguments))  # type: ignore[arg-type]


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


# ── what a marker holds ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_toolchain_is_a_value() -> None:
    assert Cc("a.c", flags="-O2") == Cc("a.c", output="library")
    assert Cc("a.c") != Cc("a.c", flags="-O3")
    assert hash(Cc("a.c")) == hash(Cc("a.c"))
    assert isinstance(Cc("a.c"), Toolchain)


def test_naming_a_toolchain_in_a_test_file_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pytest_compileiq import Cc; Cc('a.c');"
        "print([m for m in ('numpy', 'scipy', 'pydantic', 'elftools', 'pytest_compileiq.model') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("cc", "said"),
    [
        (Cc(), "one or more sources"),
        (Cc(["a.c", "b.c"]), r"or Cc\(\*SOURCES\)"),
        (Cc("absent.c"), r"absent\.c.*kernels/absent\.c"),
        (Cc("sum.c", flags=["-O2"]), "one string"),  # type: ignore[arg-type]
        (Cc("sum.c", flags="-O2 '"), "flags=.*No closing quotation"),
        (Cc("sum.c", output="object"), "'library' or 'executable'"),  # type: ignore[arg-type]
        (Cc("sum.c", flags="-O3 -flto"), "'-flto' cannot be used: candidate options"),
        (Cc("sum.c", flags="-O3 -flto=auto"), "'-flto=auto' cannot be used"),
        (Cc("sum.c", flags="-o sum.o"), "'-o' cannot be used"),
        (Cc("sum.c", flags="@more"), "'@more' cannot be used"),
        (Cc("sum.c", flags="-O2 -I"), "-I needs a value"),
        (Cc("sum.c", flags="-O2 -DX=\0"), "no command can hold a NUL"),
        (Cc("x" * 300), "no such file"),
        (Cc("sum.c", flags="-march=no-such-processor"), "no-such-processor"),
    ],
)
def test_an_unusable_argument_says_what_was_expected(project: Path, cc: Cc, said: str) -> None:
    with pytest.raises(MarkerError, match=said):
        builder(project, cc)


# ── which compiler ───────────────────────────────────────────────────────────────────────────────────────────────


def test_gcc_is_identified_by_itself(project: Path) -> None:
    found = builder(project)
    version = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    line = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    assert (found.compiler.name, found.compiler.version, found.compiler.build) == ("gcc", version, line)
    assert found.target == f"{found.architecture}-gcc{version.partition('.')[0]}"
    assert found.clock == "cpu"


@needs_clang
def test_clang_is_identified_by_itself(project: Path) -> None:
    found = builder(project, Cc("sum.c", flags=LIBRARY_FLAGS, compiler="clang"))
    assert found.compiler.name == "clang"
    assert re.fullmatch(r".+-clang\d+", found.target)


def test_the_environment_does_not_choose_the_compiler(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert builder(project).compiler.name == "gcc"


def test_a_missing_compiler_says_what_was_looked_for(project: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"'gcc-99' on PATH .*install it"):
        builder(project, Cc("sum.c", compiler="gcc-99"))
    with pytest.raises(EnvironmentFault, match=r"kernels/tools/cc"):
        builder(project, Cc("sum.c", compiler="tools/cc"))


def test_a_program_that_is_no_compiler_is_refused(project: Path) -> None:
    script(project / "kernels" / "echo", "echo hello")
    with pytest.raises(EnvironmentFault, match=r"neither gcc nor clang.*hello"):
        builder(project, Cc("sum.c", compiler="./echo"))


# ── which processor ──────────────────────────────────────────────────────────────────────────────────────────────


@on_x86
def test_the_architecture_is_the_named_one_or_the_default(project: Path) -> None:
    assert builder(project).architecture == "x86-64"
    assert builder(project, Cc("sum.c", flags=f"{LIBRARY_FLAGS} -march=x86-64-v3")).architecture == "x86-64-v3"


@on_x86
@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=needs_clang)])
def test_native_is_resolved_to_names_and_to_the_same_instruction_sets(project: Path, compiler: str) -> None:
    found = builder(project, Cc("sum.c", flags=f"{LIBRARY_FLAGS} -march=native -mtune=native", compiler=compiler))
    command = " ".join(found.compiler.command)
    assert "native" not in command
    assert "--param" not in command
    assert "cache" not in command
    assert found.architecture != "native"
    assert found.native is None
    sets = found.program.instruction_sets
    assert sets(found.flags.compile) == sets(["-march=native"])
    assert resolve(Cc("sum.c", flags=" ".join(found.flags.compile)), Place(project / "kernels", project))


@on_x86
def test_a_processor_that_is_not_this_one_gives_a_reason(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_compileiq.toolchains.cc.compiler._cpuinfo_flags", lambda: frozenset({"pni", "sse2"}))
    reason = builder(project, Cc("sum.c", flags=f"{LIBRARY_FLAGS} -march=x86-64-v3")).native
    assert reason is not None
    assert "AVX2" in reason
    assert "SSE3" not in reason.replace("SSSE3", "")


# ── what it reads ────────────────────────────────────────────────────────────────────────────────────────────────


def test_sources_are_the_project_files_that_the_compiler_reads(project: Path) -> None:
    assert list(builder(project).sources()) == ["kernels/include/weights.h", "kernels/sum.c"]


def test_a_project_header_counts_even_when_included_as_a_system_header(project: Path) -> None:
    found = builder(project, Cc("sum.c", flags="-isystem include"))
    assert "kernels/include/weights.h" in found.sources()


def test_a_header_outside_rootdir_is_named_as_the_compiler_names_it(project: Path) -> None:
    outside = project.parent / "elsewhere"
    shutil.move(project / "kernels" / "include", outside)
    relative = builder(project, Cc("sum.c", flags="-I../../elsewhere")).sources()
    assert sorted(relative) == ["../elsewhere/weights.h", "kernels/sum.c"]
    absolute = builder(project, Cc("sum.c", flags=f"-I{outside}")).sources()
    assert sorted(absolute) == sorted([f"{outside}/weights.h", "kernels/sum.c"])
    assert set(absolute.values()) == set(relative.values())


@on_x86
@pytest.mark.parametrize("pragma", ['#pragma GCC target("avx2")', 'DO(GCC target("avx2"))'])
def test_sources_are_of_the_branch_that_is_compiled_where_a_pragma_chooses_it(tmp_path: Path, pragma: str) -> None:
    """gcc's preprocessor passes over such a pragma: its ``-M`` names the header of the other branch."""
    write_files(
        tmp_path,
        {
            "kernels/fast.h": '#include "faster.h"\n',
            "kernels/faster.h": "int f(void) { return 2; }\n",
            "kernels/slow.h": "int f(void) { return 1; }\n",
        },
    )
    text = f"#define DO(x) _Pragma(#x)\n{pragma}\n"
    text += '#ifdef __AVX2__\n#include "fast.h"\n#else\n#include "slow.h"\n#endif\n'
    found = single(tmp_path, text, flags="-march=x86-64-v2")
    assert list(found.sources()) == ["kernels/fast.h", "kernels/faster.h", "kernels/one.c"]
    own, _ = found.cacheable(None).inputs()
    assert str(tmp_path / "kernels/faster.h") in own.files


def test_names_with_blanks_and_dollars_survive_the_makefile(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "my $1 #2.h").write_text("#define ONE 1\n")
    found = single(tmp_path, '#include "my $1 #2.h"\nint one(void) { return ONE; }\n')
    assert sorted(found.sources()) == ["kernels/my $1 #2.h", "kernels/one.c"]


def test_what_the_compiler_warns_of_is_no_source(tmp_path: Path) -> None:
    """It warns of controls that do not go together, and of C++'s options for C, and prints that beside its rules."""
    knobs: dict[str, KnobValue] = {"-O": "s", "-fprefetch-loop-arrays": ""}
    warned = single(tmp_path, "int one(void) { return 1; }\n", flags="-std=c++17")
    assert [*warned.sources(), *warned.sources_with(warned.render(Candidate(knobs)))] == ["kernels/one.c"] * 2


def test_what_packages_install_is_in_no_fingerprint_and_its_place_in_no_command(project: Path, tmp_path: Path) -> None:
    """Everybody's environment lies elsewhere, often inside the project; the machine code shows another header."""
    write_files(
        project,
        {"kernels/one.c": '#include <pack/pack.h>\n#include "weights.h"\ndouble f(void) { return WEIGHT * P; }'},
    )
    found = []
    for environment in (tmp_path / "a venv", project / ".venv"):
        site = "lib/python3.12/site-packages"
        write_files(environment, {f"{site}/pack/pack.h": '#include "more.h"\n', f"{site}/pack/more.h": "#define P 3\n"})
        cc = Cc("one.c", flags=f"-O2 -Iinclude -I'{environment / site}'")
        found.append((builder(project, cc).sources(), builder(project, cc).compiler.command))
        assert builder(project, cc).build(None, tmp_path / "out", timeout_s=ENOUGH_S).code.keys() == {"f"}
    assert found[0] == found[1]
    assert found[0][0].keys() == {"kernels/one.c", "kernels/include/weights.h"}
    assert "-I.../site-packages" in found[0][1]


def test_a_missing_header_is_a_build_error_that_names_it(project: Path) -> None:
    (project / "kernels" / "include" / "weights.h").unlink()
    with pytest.raises(BuildError, match=r"weights\.h: No such file"):
        builder(project).sources()


# ── what it makes ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=needs_clang)])
def test_a_library_is_built_measured_and_callable(project: Path, tmp_path: Path, compiler: str) -> None:
    found = builder(project, Cc("sum.c", flags=LIBRARY_FLAGS, compiler=compiler))
    built = found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert list(built.code) == ["total"]
    assert built.metrics["code_bytes"] >= built.code["total"].metrics["code_bytes"] > 0
    assert built.seconds > 0
    used: set[str] = set()
    total = found.load(built, used).total
    total.restype = ctypes.c_double
    assert total((ctypes.c_double * 3)(1, 2, 4), 3) == 14.0
    assert used == {"total"}


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
def test_instructions_are_counted(tmp_path: Path) -> None:
    found = single(tmp_path, "void nothing(void) {}\n", flags="-O2 -fcf-protection=none")
    built = found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    counted = found.count(built)
    assert counted.metrics["instructions"] == counted.code["nothing"].metrics["instructions"] == 1
    assert "instructions" not in built.metrics  # it takes objdump, and few objectives name it


def test_without_objdump_the_count_is_left_out(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("as", "ld"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    found = builder(project, Cc("sum.c", flags=LIBRARY_FLAGS, compiler=shutil.which("gcc")))
    monkeypatch.setenv("PATH", str(tools))
    assert set(found.build(None, tmp_path / "out", timeout_s=ENOUGH_S).metrics) == {"code_bytes"}


def test_a_program_is_one_entry_and_its_path(tmp_path: Path) -> None:
    found = single(tmp_path, '#include <stdio.h>\nint main(void) { puts("ran"); return 0; }\n', output="executable")
    built = found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert list(built.code) == ["main"]
    assert subprocess.run([found.load(built, set())], capture_output=True, text=True, check=True).stdout == "ran\n"


def test_two_checkouts_give_the_same_machine_code(tmp_path: Path) -> None:
    builds = []
    for name in ("here", "a/much/longer/way/there"):
        root = make_project(tmp_path / name)
        builds.append(builder(root).build(None, tmp_path / f"out-{len(name)}", timeout_s=ENOUGH_S))
    assert builds[0].code == builds[1].code
    assert builder(tmp_path / "here").compiler == builder(tmp_path / "a/much/longer/way/there").compiler


def test_a_comment_changes_the_source_and_not_the_code(project: Path, tmp_path: Path) -> None:
    before = builder(project).sources(), builder(project).build(None, tmp_path / "1", timeout_s=ENOUGH_S).digest
    source = project / "kernels" / "sum.c"
    source.write_text(SUM.replace("double sum = 0;", "double sum = 0; /* an accumulator */"))
    after = builder(project).sources(), builder(project).build(None, tmp_path / "2", timeout_s=ENOUGH_S).digest
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_constant_in_a_header_changes_the_code(project: Path, tmp_path: Path) -> None:
    before = builder(project).build(None, tmp_path / "1", timeout_s=ENOUGH_S)
    (project / "kernels" / "include" / "weights.h").write_text("#define WEIGHT 3.0\n")
    assert builder(project).build(None, tmp_path / "2", timeout_s=ENOUGH_S).digest != before.digest


def test_candidate_options_come_after_the_baselines(project: Path, tmp_path: Path) -> None:
    controls = ControlsFile("options", b"-O1\n", {"-O": 1})
    tuned = builder(project, Cc("sum.c", flags=f"-O3 {LIBRARY_FLAGS}")).build(
        controls, tmp_path / "tuned", timeout_s=ENOUGH_S
    )
    plain = builder(project, Cc("sum.c", flags=f"-O1 {LIBRARY_FLAGS.removeprefix('-O2 ')}"))
    assert tuned.code == plain.build(None, tmp_path / "plain", timeout_s=ENOUGH_S).code


def test_candidate_options_change_the_code_the_same_way_every_time(project: Path, tmp_path: Path) -> None:
    found = builder(project)
    controls = found.render(Candidate({"-O": 3, "-funroll-loops": "", "-fassociative-math": "", "block": 128}))
    tuned = found.build(controls, tmp_path / "tuned", timeout_s=ENOUGH_S)
    assert tuned.digest != found.build(None, tmp_path / "baseline", timeout_s=ENOUGH_S).digest
    assert found.build(controls, tmp_path / "again", timeout_s=ENOUGH_S).code == tuned.code


def test_an_empty_candidate_is_the_baseline(project: Path, tmp_path: Path) -> None:
    found = builder(project)
    tuned = found.build(found.render(Candidate({})), tmp_path / "tuned", timeout_s=ENOUGH_S)
    assert tuned.code == found.build(None, tmp_path / "baseline", timeout_s=ENOUGH_S).code


def test_relaxed_maths_compiles_and_does_not_link(project: Path, tmp_path: Path) -> None:
    found = builder(project, Cc("sum.c", flags=f"-Ofast -ffast-math -funsafe-math-optimizations {LIBRARY_FLAGS} -lm"))
    assert "-ffast-math" in found.flags.compile
    assert not {"-Ofast", "-ffast-math", "-funsafe-math-optimizations"} & set(found.flags.link)
    assert found.flags.libraries == ("-lm",)
    found.load(found.build(None, tmp_path / "out", timeout_s=ENOUGH_S), set())
    assert sys.float_info.min / 4 > 0, "loading the library set flush-to-zero in this process"


def test_the_static_data_of_inline_functions_is_not_shared_between_arms(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "count.cpp").write_text(
        "inline int& counter() { static int value = 0; return value; }\n"
        'extern "C" int count() { return ++counter(); }\n'
    )
    found = builder(tmp_path, Cc("count.cpp", compiler="g++"))
    arms = [found.load(found.build(None, tmp_path / arm, timeout_s=ENOUGH_S), set()) for arm in ("baseline", "tuned")]
    assert [arm.count() for arm in arms] == [1, 1]


# ── how it fails ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_compile_error_is_one_sentence_with_the_compilers_own(tmp_path: Path) -> None:
    found = single(tmp_path, "#warning look out\nint one(void) { return undeclared; }\n")
    with pytest.raises(BuildError, match=r"^gcc refuses kernels/one\.c: .*error: .*undeclared") as caught:
        found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert caught.value.kind == "compile"
    assert "look out" in caught.value.log
    assert "\n" not in str(caught.value)


def test_warnings_are_kept_in_the_log(tmp_path: Path) -> None:
    found = single(tmp_path, "#warning look out\nint one(void) { return 1; }\n")
    assert "look out" in found.build(None, tmp_path / "out", timeout_s=ENOUGH_S).log


def test_a_link_error_names_what_is_missing(tmp_path: Path) -> None:
    found = single(tmp_path, "int one(void) { return 1; }\n", flags="-lno_such_library")
    with pytest.raises(BuildError, match=r"refuses the link: .*no_such_library"):
        found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)


def test_a_library_that_exports_nothing_is_refused(tmp_path: Path) -> None:
    found = single(tmp_path, "static int one(void) { return 1; }\nint two;\n")
    with pytest.raises(BuildError, match=r"one\.c: exports no function"):
        found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    found = single(tmp_path, "int one(void) { return 1; }\n", flags="-O2 -fvisibility=hidden")
    with pytest.raises(BuildError, match="flags='-fvisibility=default' shows what -fvisibility=hidden hides"):
        found.build(None, tmp_path / "hidden", timeout_s=ENOUGH_S)


def test_a_source_named_twice_is_compiled_twice_and_the_linker_refuses_it(project: Path, tmp_path: Path) -> None:
    found = builder(project, Cc("sum.c", "sum.c", flags=LIBRARY_FLAGS))
    with pytest.raises(BuildError, match="gcc refuses the link"):
        found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)


def test_a_library_with_a_hole_fails_as_a_build_when_it_is_loaded(tmp_path: Path) -> None:
    found = single(tmp_path, "int hole(void); int (*pointer)(void) = hole; int one(void) { return pointer(); }\n")
    built = found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    with pytest.raises(BuildError, match=r"cannot be loaded: undefined symbol hole: name the source"):
        found.load(built, set())


@pytest.mark.parametrize(
    ("misbehaviour", "kind", "said"),
    [
        ("sleep 600", "timeout", "took longer than 0.5 s, at kernels/sum.c"),
        ("kill -SEGV $$", "compile", "was killed by signal 11"),
        ("echo 'internal compiler error: boo' >&2; exit 4", "compile", "internal compiler error: boo"),
        ("exit 3", "compile", "it printed nothing"),
        ("exit 0", "compile", "not an ELF object|the link"),
    ],
)
def test_a_compiler_that_misbehaves_is_a_typed_failure(
    project: Path, tmp_path: Path, misbehaviour: str, kind: str, said: str
) -> None:
    script(project / "kernels" / "cc", f'for a in "$@"; do case $a in -c) {misbehaviour};; esac; done\nexec gcc "$@"')
    found = builder(project, Cc("sum.c", flags=LIBRARY_FLAGS, compiler="./cc"))
    with pytest.raises(BuildError, match=said) as caught:
        found.build(None, tmp_path / "out", timeout_s=0.5 if kind == "timeout" else ENOUGH_S)
    assert caught.value.kind == kind


def test_a_build_of_several_sources_says_at_which_its_time_was_over(project: Path, tmp_path: Path) -> None:
    write_files(project, {"kernels/late.c": "int late;\n"})
    script(project / "kernels" / "cc", 'case "$*" in *-c*late*) sleep 600;; esac\nexec gcc "$@"')
    found = builder(project, Cc("sum.c", "late.c", flags=LIBRARY_FLAGS, compiler="./cc"))
    with pytest.raises(
        BuildError, match=r"took longer than 0\.9 s, at kernels/late\.c \(source 2 of 2\); see timeout_s"
    ):
        found.build(None, tmp_path / "out", timeout_s=0.9)


@pytest.mark.parametrize("output", ["library", "executable"])
def test_builds_together_link_once_what_has_the_same_objects_and_are_what_each_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    found = single(tmp_path, "int one(void) { return 1; }\nint main(void) { return one() - 1; }\n", output=output)
    linked, link = [], found.links.link
    monkeypatch.setattr(
        found.links, "link", lambda objects, path, run: link(objects, path, lambda: linked.append(run()))
    )
    for number, knobs in enumerate([{"-O": 2}, {"-O": 2, "-fgcse": ""}, {"-O": 0}, {"-O": 2, "-fno-gcse": ""}]):
        controls = render(knobs)
        together = found.build_together(controls, tmp_path / "builds" / f"{number}", timeout_s=ENOUGH_S)
        alone = found.build(controls, tmp_path / "builds" / f"{number} alone", timeout_s=ENOUGH_S)
        assert (together.code, together.metrics) == (alone.code, alone.metrics)
        assert together.path.read_bytes() == alone.path.read_bytes() and os.access(together.path, os.X_OK)
    assert len(linked) == 2


# ── controls ─────────────────────────────────────────────────────────────────────────────────────────────────────


def render(knobs: dict[str, KnobValue]) -> ControlsFile:
    return render_options(Candidate(knobs))


def test_an_options_file_is_one_sorted_option_a_line_without_the_kernels_own_knobs() -> None:
    controls = render({"-funroll-loops": "", "block": 128, "-O": 3, "--param=max-unroll-times=": 4})
    assert controls.data == b"--param=max-unroll-times=4\n-O3\n-funroll-loops\n"
    assert controls.kind == "options"
    assert controls.knobs["block"] == 128


def test_a_blob_is_refused() -> None:
    with pytest.raises(MarkerError, match="opaque"):
        render_options(Candidate({}, blob=b"\0"))


SMUGGLED: list[tuple[str, KnobValue]] = [
    ("-fplugin=", "evil"),
    ("-fplugin-arg-evil-x", ""),
    ("-fpass-plugin=", "evil.so"),
    ("-fmodule-mapper=", "|sh"),
    ("-fdump-tree-all", ""),
    ("-fdump-rtl-all=", "out"),
    ("-fprofile-generate", ""),
    ("-fprofile-use=", "x"),
    ("-fno-profile-values", ""),
    ("-ftest-coverage", ""),
    ("-fauto-profile=", "x"),
    ("-fopt-info-all=", "x"),
    ("-fstack-usage", ""),
    ("-fcallgraph-info", ""),
    ("-fsave-optimization-record", ""),
    ("-fsanitize=", "address"),
    ("-flto", ""),
    ("-flto=", "auto"),
    ("-fuse-ld=", "evil"),
    ("-fproc-stat-report=", "FILE"),
    ("-fbasic-block-sections=", "list=FILE"),
    ("-fdeps-file=", "FILE"),
    ("-foptimization-record-file=", "FILE"),
    ("-fmemory-profile-output=", "FILE"),
    ("-fno-integrated-as", ""),
    ("-freport-bug", ""),
    ("-march=", "x86-64-v4"),
    ("-mllvm", ""),
    ("-B", "."),
    ("-wrapper", ""),
    ("-wrapper ", "sh"),
    ("-o", "x"),
    ("-oops", ""),
    ("-Xassembler", ""),
    ("-Wl,", "-rpath"),
    ("-include", "x"),
    ("-specs=", "x"),
    ("-@", "x"),
    ("-", "o"),
    ("-O", "3 -fplugin=x"),
    ("-O", "3\n-fplugin=x"),
    ("-O", "3\r-fplugin=x"),
    ("-O", "9"),
    ("-funroll-loops", "\n"),
    ("-funroll-loops", "'"),
    ("-funroll-loops", '"'),
    ("-funroll-loops", "\\"),
    ("-funroll-loops=", "/etc/passwd"),
    ("-funroll-loops=", "é"),
    ("-f" + "x" * 300, ""),
    ("--param=", ""),
    ("--param ", "max-unroll-times=4"),
    ("--param=a=", "@x"),
    ("-funroll-loops", True),
    ("-funroll-loops", False),
]


@pytest.mark.parametrize(("name", "value"), SMUGGLED)
def test_an_option_that_does_more_than_choose_code_cannot_ride_in(name: str, value: KnobValue) -> None:
    with pytest.raises(MarkerError, match="knob"):
        render({name: value})
    smuggled = f"{name}{value}\n".encode()
    with pytest.raises(StoreError):
        parse_rendered(smuggled, {name: value}, render_options)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"-O3\n-fplugin=x\n", r"line 2 is .*-fplugin=x"),
        (b"-O3\n-funroll-loops\n-fplugin=x\n", "3 lines and should have 2"),
        (b"-O3\n", "1 lines and should have 2"),
        (b"-O3\n-funroll-loops", "line 2"),
        (b"-O3\r\n-funroll-loops\r\n", "line 1"),
        (b"-funroll-loops\n-O3\n", "line 1"),
        (b"\xff\xfe", "line 1"),
        (b"", "0 lines"),
    ],
)
def test_an_options_file_that_is_not_what_its_knobs_give_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        parse_rendered(data, {"-O": 3, "-funroll-loops": ""}, render_options)


def test_what_was_rendered_parses() -> None:
    controls = render({"-O": 3, "-funroll-loops": "", "block": 128})
    assert parse_rendered(controls.data, dict(controls.knobs), render_options) == controls


def test_more_options_than_any_compiler_has_are_refused() -> None:
    with pytest.raises(MarkerError, match="1001 compiler options"):
        render({f"-fx{number}": "" for number in range(1001)})


def test_the_fragment_for_other_frameworks_names_the_file(project: Path) -> None:
    controls = ControlsFile("options", b"-O3\n", {"-O": 3})
    assert builder(project).options(controls, Path("/cache/k.acf")) == ("@/cache/k.acf",)
