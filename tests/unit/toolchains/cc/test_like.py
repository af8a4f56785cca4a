"""``Cc(like="compile_commands.json")``: which of the recorded words compile a kernel, and where their paths lead here."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_compileiq.errors import EnvironmentFault, MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import CcBuilder, resolve
from pytest_compileiq.toolchains.cc.compiler import CcCompiler
from pytest_compileiq.toolchains.cc.flags import by_stage, split_flags
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.cc.production import Production, production_commands
from tests import needs
from tests.files import write_files

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
ENOUGH_S = 60.0


def recorded(command: str, file: str = "/ci/project/src/a.c", directory: str = "/ci/project/build") -> dict[str, str]:
    return {"directory": directory, "file": file, "command": command}


def project(root: Path, *entries: object, **files: str) -> Path:
    """A project of ``src/a.c`` and the ``files``, with the database ``build/compile_commands.json``."""
    content = json.dumps(list(entries), default=str)
    return write_files(root, {"src/a.c": "", "build/compile_commands.json": content} | files)


def production(root: Path, like: str = "build", *, without_lto: bool = False, source: str = "src/a.c") -> Production:
    return production_commands(like, [source], Place(root, root), without_lto=without_lto)[0]


def flags(root: Path, words: str, **files: str) -> str:
    """What stays of the words of a command, as a shell writes it."""
    return shlex.join(production(project(root, recorded(f"gcc {words}"), **files)).flags)


# ── which words stay ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "stay"),
    [
        ("-O3 -DNDEBUG -o a.o -c ../src/a.c", "-O3 -DNDEBUG"),
        ("-MD -MT a.o -MF a.d -MMD -MP -MQ x -MJ a.json -Wp,-MD,a.d -O2 -c a.c", "-O2"),
        ("-pipe -save-temps=obj -v -gsplit-dwarf -fdiagnostics-color=always -fstack-usage -g -oa.o a.c", "-g"),
        ("-Werror -Werror=format-security -Wall -Winvalid-pch a.c", "-Wall"),
        ("-O2 -shared -static -Wl,-soname=liba.so -T map -rdynamic -lm -o liba.so a.c b.c", "-O2 -lm"),
        ("-D NAME=1 -U OTHER -x c -std=c11 -- a.c", "-DNAME=1 -UOTHER -xc -std=c11"),
        ("--param inline-unit-growth=9 -mllvm -x=-O1 -Xclang -fno-x", "--param=inline-unit-growth=9 -mllvm -x=-O1 -Xclang -fno-x"),
        ("-Xpreprocessor -DA -Xassembler -g a.c", "-Wp,-DA -Wa,-g"),
        ("-march=x86-64-v3 -fopenmp -ffast-math a.c", "-march=x86-64-v3 -fopenmp -ffast-math"),
        ("-flto -ffat-lto-objects -O2 -fno-lto a.c", "-O2 -fno-lto"),
        ("-flto=auto -flto-compression-level=9 -O2 -fno-lto -flto-partition=one a.c", "-O2 -fno-lto"),
    ],
)  # fmt: skip
def test_what_compiles_stays_and_what_is_written_where_goes(tmp_path: Path, words: str, stay: str) -> None:
    assert flags(tmp_path, words) == stay


@pytest.mark.parametrize(
    ("words", "stay"),
    [
        ("-I../include -I . -isystem ../third -iquote /ci/project/q", "-Iinclude -Ibuild -isystemthird -iquoteq"),
        ("-I/ci/project -I/ci/projects/x -I/usr/include/x", "-I. -I/ci/projects/x -I/usr/include/x"),
        ("-include ../src/config.h -include stdio.h", "-includesrc/config.h -includestdio.h"),
        ("""-DDATA='"/ci/project/data"' -DROOT=/ci/project -DNOT=/opt/ci/project""", """'-DDATA="data"' -DROOT=. -DNOT=/opt/ci/project"""),
        ("-ffile-prefix-map=/ci/project/src=/s --sysroot=/ci/project/sys", "-ffile-prefix-map=src=/s --sysroot=sys"),
        ("-fprofile-use=../a.profdata", "-fprofile-use=a.profdata"),
        ("-D NAME=/ci/project/x", "-DNAME=x"),
    ],
)  # fmt: skip
def test_a_path_of_the_project_is_relative_to_rootdir_wherever_it_was_recorded(
    tmp_path: Path, words: str, stay: str
) -> None:
    assert flags(tmp_path, words, **{"src/config.h": ""}) == stay


def test_response_files_stand_open(tmp_path: Path) -> None:
    inner = {"build/more.rsp": '-DA="b c" @src/inner.rsp', "build/src/inner.rsp": "-I../x\n-O3"}
    assert flags(tmp_path, "@more.rsp -c a.c", **inner) == "'-DA=b c' -Ix -O3"


@pytest.mark.parametrize("words", ["@/ci/project/acf/k/t.acf -c a.c", "@k.flags -c a.c"])
def test_controls_that_a_build_applies_are_left_out_of_the_baseline(tmp_path: Path, words: str) -> None:
    files = {"build/k.flags": "@/ci/project/acf/k/t.acf\n", "acf/k/t.acf": "-O3\n"}
    found = production(project(tmp_path, recorded(f"gcc -O2 {words}"), **files))
    assert (found.flags, found.left_out) == (("-O2",), ("@acf/k/t.acf",))


@pytest.mark.parametrize("content", [{}, {"build/x.rsp": "'"}, {"build/x.rsp": "@x.rsp"}, {"build/x.rsp": "-DX=\0"}])
def test_a_response_file_that_cannot_be_opened_is_named(tmp_path: Path, content: dict[str, str]) -> None:
    with pytest.raises(MarkerError, match=r"reads @x\.rsp, which cannot be read here .*build/x\.rsp.*flags="):
        flags(tmp_path, "@x.rsp -c a.c", **content)


def test_response_file_that_never_ends_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(MarkerError, match=r"reads @/dev/zero, which .*is no regular file"):
        flags(tmp_path, "@/dev/zero -c a.c")
    with pytest.raises(MarkerError, match=r"reads @.*fifo, which .*is no regular file"):
        flags(tmp_path, f"@{tmp_path}/fifo -c a.c")
    each = {f"build/{depth}.rsp": f"@{depth + 1}.rsp " * 60 for depth in range(7)}
    with pytest.raises(MarkerError, match=r"more than \d+ bytes"):
        flags(tmp_path, "@0.rsp -c a.c", **each, **{"build/7.rsp": ""})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-O2 -flto -fno-lto -flto=thin a.c", "'-flto'.*flags='-fno-lto'"),
        ("-flto=auto a.c", "'-flto=auto'.*flags='-fno-lto' beside like= takes it out"),
        ("-include-pch a.pch a.c", "'-include-pch'.*CMAKE_DISABLE_PRECOMPILE_HEADERS=ON"),
        ("-Xclang -include-pch -Xclang a.pch a.c", "'-include-pch'.*precompiled"),
        ("-include pch.h a.c", "'-includebuild/pch.h'.*precompiled"),
        ("-fmodules-ts -fmodule-mapper=a.modmap a.c", "'-fmodules-ts'.*CMAKE_CXX_SCAN_FOR_MODULES=OFF"),
        ("-Xclang -load -Xclang evil.so a.c", "'-load'.*other programs"),
        ("-fplugin=evil.so a.c", "'-fplugin=evil.so'.*other programs"),
        ("-wrapper evil a.c", "'-wrapper'.*other programs"),
        ("-B /evil a.c", "'-B'.*other programs"),
        ("-specs=evil a.c", "other programs"),
        ("-O2 -I", "ends with -I"),
    ],
)
def test_a_word_that_cannot_be_used_says_why_and_how_to_go_on(tmp_path: Path, words: str, said: str) -> None:
    with pytest.raises(MarkerError, match=rf"like='build': src/a\.c: .*{said}"):
        flags(tmp_path, words, **{"build/pch.h": "", "build/pch.h.gch": ""})


def test_what_is_left_out_and_says_something_is_told(tmp_path: Path) -> None:
    project(tmp_path, recorded("/usr/bin/ccache distcc /usr/bin/gcc -flto -flto-jobs=8 -Werror -O3 -c a.c"))
    left = production(tmp_path, without_lto=True)
    assert (left.compiler, left.flags) == ("/usr/bin/gcc", ("-O3",))
    assert left.left_out == ("ccache", "distcc", "-flto", "-flto-jobs=8", "-Werror")


def test_the_value_of_an_option_that_only_compiles_does_not_link_either() -> None:
    assert by_stage(["-Xclang", "-O1", "-mllvm", "-x=1", "-xc", "-O3"], "").link == ("-O3",)


def test_a_language_is_joined_to_its_option_and_does_not_link(tmp_path: Path) -> None:
    split = split_flags("-O2 -x c++ -g", Place(tmp_path, tmp_path))
    assert (split.compile, split.link) == (("-O2", "-xc++", "-g"), ("-O2", "-g"))


# ── which command it is ──────────────────────────────────────────────────────────────────────────────────────────


def test_arguments_relative_files_and_other_machines_are_understood(tmp_path: Path) -> None:
    entry = {"directory": "/ci/project/build", "file": "../src/a.c", "arguments": ["cc", "-DA=b c", "-I/ci/project/i"]}
    for like in ("build", "build/compile_commands.json", str(tmp_path / "build")):
        assert production(project(tmp_path, entry), like).flags == ("-DA=b c", "-Ii")


def test_a_source_above_rootdir_relocates_what_lies_beside_it(tmp_path: Path) -> None:
    project(tmp_path, recorded("gcc -I../include -c a.c"))
    root = tmp_path / "tests"
    root.mkdir()
    found = production_commands("../build", ["../src/a.c"], Place(root, root), without_lto=False)
    assert found[0].flags == ("-I../include",)


def test_several_ways_to_compile_a_source_are_listed_and_one_is_chosen_by_its_text(tmp_path: Path) -> None:
    ways = [
        recorded("gcc -O3 -fPIC -DSHARED -o CMakeFiles/shared.dir/ci/a.o -c a.c"),
        recorded("gcc -O3 -o CMakeFiles/static.dir/ci/a.o -c a.c"),
        {**recorded("gcc -O3 -c a.c"), "output": "again.o"},
    ]
    project(tmp_path, *ways)
    with pytest.raises(MarkerError) as several:
        production(tmp_path)
    assert "src/a.c: it is compiled in 2 ways: CMakeFiles/shared.dir/ci/a.o -fPIC -DSHARED" in str(several.value)
    assert "like='build#shared.dir'" in str(several.value)
    assert production(tmp_path, "build#shared.dir").flags == ("-O3", "-fPIC", "-DSHARED")
    assert production(tmp_path, "build/compile_commands.json#again.o").flags == ("-O3",)
    with pytest.raises(MarkerError, match=r"none of its commands holds 'nothing': CMakeFiles/shared.*'build#shared"):
        production(tmp_path, "build#nothing")


def test_this_checkouts_own_command_comes_before_those_of_others(tmp_path: Path) -> None:
    own = recorded("gcc -DOWN -c a.c", str(tmp_path / "src/a.c"), str(tmp_path))
    assert production(project(tmp_path, recorded("gcc -DOTHER -c a.c"), own)).flags == ("-DOWN",)


def test_a_file_of_the_same_name_elsewhere_is_another_file(tmp_path: Path) -> None:
    project(tmp_path, recorded("gcc -c a.c", "/ci/project/lib/b.c"), recorded("gcc -c a.c", "/ci/project/xsrc/a.c"))
    with pytest.raises(MarkerError, match=r"like='build' has no command for src/a\.c \(did you mean 'xsrc/a\.c'\?\)"):
        production(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no compilation database"),
        ("{}", "expected a list"),
        ("[1]", "command 0: expected directory, file, and command"),
        ('[{"file": "a.c", "directory": "/x"}]', "command 0: expected directory, file, and command.*'command'"),
        ('[{"file": "a.c", "directory": "/x", "command": "gcc \'"}]', "No closing quotation"),
        ('[{"file": "a.c", "directory": "/x", "arguments": []}]', "at least one word"),
        ('[{"file": "a.c", "directory": 7, "arguments": ["gcc"]}]', "command 0"),
        ('[{"file": "a.c", "directory": "/x", "arguments": 7}]', "expected texts"),
        ('[{"file": "a.c", "directory": "/x", "arguments": "gcc -c a.c"}]', "expected texts"),
        (r'[{"file": "a.c", "directory": "/x", "arguments": ["gcc", "-DA=\u0000"]}]', "expected texts"),
        (r'[{"file": "a.c", "directory": "/\u0000", "command": "gcc -c a.c"}]', "expected texts"),
        ("[" * 100_000, "no compilation database"),
    ],
)
def test_a_file_that_is_no_database_is_one_sentence(tmp_path: Path, content: str, said: str) -> None:
    write_files(tmp_path, {"build/compile_commands.json": content})
    with pytest.raises(MarkerError, match=rf"build/compile_commands\.json.*{said}.*CMAKE_EXPORT_COMPILE_COMMANDS=ON"):
        production(tmp_path)


def test_a_missing_database_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(MarkerError, match=r"like='out': no such file: .*out; make it with cmake .*meson.*bear -- make"):
        production(tmp_path, "out")


@pytest.mark.parametrize("like", ["x" * 300, "build#" + "x" * 300, "build/compile_commands.json#" + "x" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_no_file(tmp_path: Path, like: str) -> None:
    project(tmp_path, recorded("gcc -c a.c"))
    with pytest.raises(MarkerError, match=r"none of its commands holds 'xxx|no such file"):
        production(tmp_path, like)


@pytest.mark.parametrize("word", ["-include", "-I", "-DX="])
def test_a_word_that_is_longer_than_a_path_stays_as_it_is(tmp_path: Path, word: str) -> None:
    assert flags(tmp_path, f"{word}{'x' * 300} -c a.c").endswith("x" * 300)
    assert split_flags(f"{word}{'x' * 300}", Place(tmp_path, tmp_path)).compile[0].endswith("x" * 300)


# ── what is built ────────────────────────────────────────────────────────────────────────────────────────────────

ONE = "int one(void) { return VALUE; }\n"
TWO = "int two(void) { return VALUE; }\n"


def built_project(root: Path, *commands: tuple[str, str], **files: str) -> Path:
    """A project of ``src/…`` whose database was recorded on another machine, a (file, command) each."""
    entries = [recorded(command, f"/ci/project/src/{file}") for file, command in commands]
    return project(root, *entries, **{f"src/{name}": text for name, text in files.items()})


def builder(root: Path, *sources: str, **arguments: str) -> CcBuilder:
    return resolve(Cc(*sources, like="../build", **arguments), Place(root / "src", root))  # type: ignore[arg-type]


def call(found: CcBuilder, root: Path, *names: str) -> list[int]:
    home = root / f"out-{len(list(root.iterdir()))}"  # a library of the same path would be loaded once
    built = found.build(None, home, timeout_s=ENOUGH_S)
    library = found.load(built, set())
    return [getattr(library, name)() for name in names]


@needs_gcc
def test_each_source_is_compiled_by_its_own_command_and_flags_come_after(tmp_path: Path) -> None:
    commands = ("a.c", "gcc -DVALUE=1 -c a.c"), ("b.c", "gcc -O3 -DVALUE=2 -c b.c")
    built_project(tmp_path, *commands, **{"a.c": ONE, "b.c": TWO})
    found = builder(tmp_path, "a.c", "b.c")
    assert call(found, tmp_path, "one", "two") == [1, 2]
    command = " ".join(found.compiler.command)
    assert command.startswith("gcc -DVALUE=1 src/a.c gcc -O3 -DVALUE=2 src/b.c --then --link -shared")
    assert set(found.sources()) == {"src/a.c", "src/b.c"}
    again = builder(tmp_path, "a.c", "b.c", flags="-UVALUE -DVALUE=7")
    assert call(again, tmp_path, "one", "two") == [7, 7]


@needs_gcc
def test_sources_of_one_command_are_recorded_as_any_others(tmp_path: Path) -> None:
    commands = ("a.c", "gcc -O1 -DVALUE=3 -o a.o -c a.c"), ("b.c", "gcc -O1 -DVALUE=3 -o b.o -c b.c")
    built_project(tmp_path, *commands, **{"a.c": ONE, "b.c": TWO})
    found = builder(tmp_path, "a.c", "b.c")
    plain = resolve(Cc("a.c", "b.c", flags="-O1 -DVALUE=3"), Place(tmp_path / "src", tmp_path))
    added = ("-fPIC", "-fno-gnu-unique")  # to what no product compiles
    assert found.compiler.command == tuple(word for word in plain.compiler.command if word not in added)


@needs_gcc
def test_another_checkout_gives_the_same_command_and_machine_code(tmp_path: Path) -> None:
    both = []
    for name in ("here", "there/deeper"):
        root = tmp_path / name
        source = '#include "value.h"\nconst char *where(void) { return __FILE__ DATA; }\n' + ONE
        command = ("a.c", "gcc -I/ci/project/include -DDATA='\"/ci/project/data\"' -c /ci/project/src/a.c")
        built_project(root, command, **{"a.c": source, "../include/value.h": "#define VALUE 4\n"})
        found = builder(root, "a.c")
        both.append((found.compiler, found.sources(), found.build(None, root / "out", timeout_s=ENOUGH_S).digest))
    assert both[0] == both[1]


@needs.gxx
def test_c_and_cxx_sources_are_compiled_by_their_own_compilers_and_linked_for_cxx(tmp_path: Path) -> None:
    commands = ("a.c", "gcc -DVALUE=5 -c a.c"), ("b.cc", "g++ -std=c++17 -c b.cc")
    cxx = '#include <string>\nextern "C" int two() { return (int)std::string(40, 0).size(); }\n'
    built_project(tmp_path, *commands, **{"a.c": "int class(void) { return VALUE; }\n", "b.cc": cxx})
    found = builder(tmp_path, "a.c", "b.cc")
    assert Path(found.program.program).name == "g++"
    assert call(found, tmp_path, "class", "two") == [5, 40]


@pytest.mark.skipif("x86" not in platform.machine(), reason="needs an x86-64 machine")
@needs_gcc
@pytest.mark.parametrize("first", ["a.c", "b.c"])
def test_the_source_that_depends_most_on_the_machine_decides_the_target(tmp_path: Path, first: str) -> None:
    commands = [("a.c", "gcc -DVALUE=1 -c a.c"), ("b.c", "gcc -march=x86-64-v2 -DVALUE=2 -c b.c")]
    built_project(tmp_path, *commands, **{"a.c": ONE, "b.c": TWO})
    found = builder(tmp_path, first, *{"a.c", "b.c"} - {first})
    assert (found.architecture, found.compiler.architecture_from) == ("x86-64-v2", "test")
    native = ("c.c", "gcc -march=native -c c.c")
    built_project(tmp_path, *commands, native, **{"a.c": ONE, "b.c": TWO, "c.c": ""})
    assert builder(tmp_path, first, "c.c").compiler.architecture_from == "machine"


@pytest.mark.parametrize("name", ["g++", "g++-12", "clang++-16", "x86_64-linux-gnu-g++", "c++"])
def test_a_compiler_of_cplusplus_may_have_its_version_in_its_name(name: str) -> None:
    compiler = CcCompiler(f"/opt/c++/bin/{name}", "gcc", "12", "", "x86-64")
    assert compiler.links_cplusplus
    assert not replace(compiler, program="/opt/c++/bin/gcc-12").links_cplusplus


@needs_gcc
def test_a_compiler_that_is_not_here_asks_for_another(tmp_path: Path) -> None:
    built_project(tmp_path, ("a.c", "/opt/cross/bin/gcc-99 -DVALUE=1 -c a.c"), **{"a.c": ONE})
    with pytest.raises(EnvironmentFault, match=r"like='\.\./build': no compiler '/opt/cross/bin/gcc-99'.*Cc\(…, comp"):
        builder(tmp_path, "a.c")
    assert builder(tmp_path, "a.c", compiler="gcc").compiler.command[:2] == ("gcc", "-DVALUE=1")


HIDDEN = """
int helper(int x) { return x + 1; }
int one(void) { return helper(VALUE); }
"""


@needs_gcc
@pytest.mark.parametrize("optimised", ["-O2", "-O0"])
def test_functions_that_production_hides_are_called_and_count(tmp_path: Path, optimised: str) -> None:
    built_project(tmp_path, ("a.c", f"gcc {optimised} -fvisibility=hidden -DVALUE=6 -c a.c"), **{"a.c": HIDDEN})
    made = builder(tmp_path, "a.c").build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert sorted(made.code) == ["helper", "one"]
    assert builder(tmp_path, "a.c").load(made, set()).one() == 7
    counted = builder(tmp_path, "a.c").count(made)
    assert all(counted.code[name].metrics["instructions"] for name in ("helper", "one"))


def test_like_is_a_path(tmp_path: Path) -> None:
    with pytest.raises(MarkerError, match=r"Cc\(like=7\): expected a path"):
        resolve(Cc("a.c", like=7), Place(project(tmp_path) / "src", tmp_path))  # type: ignore[arg-type]


@needs_gcc
def test_a_macro_of_productions_command_is_a_knob_in_every_source(tmp_path: Path) -> None:
    commands = ("a.c", "gcc -DVALUE=1 -c a.c"), ("b.c", "gcc -O3 -DVALUE=2 -c b.c")
    built_project(tmp_path, *commands, **{"a.c": ONE, "b.c": TWO})
    found = builder(tmp_path, "a.c", "b.c")
    assert found.baseline_params["VALUE"] == 1
    controls = found.render(Candidate({"-DVALUE=": 9}))
    built = found.build(controls, tmp_path / "nine", timeout_s=ENOUGH_S)
    library = found.load(built, set())
    assert (library.one(), library.two()) == (9, 9)
    assert "redefined" not in built.log
