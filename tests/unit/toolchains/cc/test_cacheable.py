"""What a build by the installed gcc depends on: each change of it makes another key, or ends what an entry says."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from pytest_compileiq.model import Candidate
from pytest_compileiq.rules.build_key import Inputs, NotModelled, key_of
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc import cacheable
from pytest_compileiq.toolchains.cc.builder import CcBuilder, resolve
from pytest_compileiq.toolchains.cc.marker import Cc
from tests.files import write_files

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

KERNEL = '#include "a.h"\n#include <math.h>\ndouble kernel(double x) { return sqrt(x) * A; }\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path, {"kernels/k.c": KERNEL, "kernels/inc/a.h": "#define A 2\n", "kernels/late/x.h": ""})


def builder(root: Path, flags: str = "-O1 -Iinc -Ilate -Imissing", **arguments: str) -> CcBuilder:
    return resolve(Cc("k.c", flags=flags, **arguments), Place(root / "kernels", root))


def inputs(root: Path, flags: str = "-O1 -Iinc -Ilate -Imissing", **arguments: str) -> Inputs:
    own, installed = builder(root, flags, **arguments).cacheable(None).inputs()
    return own | installed


def key(of: CcBuilder, knobs: dict[str, str] | None = None) -> str:
    controls = of.render(Candidate(knobs)) if knobs is not None else None
    return key_of(of.cacheable(controls).question())


def absent(found: Inputs, path: Path) -> bool:
    return path.name in found.absent.get(str(path.parent), ())


def test_what_it_reads_is_all_there(root):
    files = inputs(root).files
    assert {str(root / "kernels/k.c"), str(root / "kernels/inc/a.h")} <= files
    names = {Path(path).name for path in files}
    assert {"math.h", "cc1", "as", "ld", "collect2", "stdc-predef.h", "crti.o", "libc.so", "ld.so.cache"} <= names
    assert os.path.realpath(shutil.which("gcc") or "") in files
    assert any(name.startswith("libc.so.6") for name in names), "what cc1 loads"
    assert all(Path(path).is_file() for path in files)


def test_the_compiler_is_looked_at_once_in_a_run_and_what_the_command_names_always(root, tmp_path_factory, monkeypatch):
    elsewhere = write_files(tmp_path_factory.mktemp("elsewhere"), {"b.h": "", "c.h": ""})
    (root / "kernels/k.c").write_text('#include "b.h"\n#include <c.h>\n' + KERNEL)
    monkeypatch.setenv("CPATH", str(elsewhere))
    own, installed = builder(root, f"-O1 -Iinc -I{elsewhere} -L{elsewhere}/lib").cacheable(None).inputs()
    always = {str(root / "kernels/k.c"), str(root / "kernels/inc/a.h"), *map(str, elsewhere.iterdir())}
    assert own.files == always
    assert {str(root / "kernels"), str(elsewhere), f"{elsewhere}/lib"} <= own.absent.keys()
    assert {"math.h", "cc1", "libc.so", "as"} <= {Path(path).name for path in installed.files}
    assert "/usr/include" in installed.absent


def test_a_header_that_the_environment_names_is_not_the_compilers_own(root, tmp_path_factory, monkeypatch):
    elsewhere = write_files(tmp_path_factory.mktemp("elsewhere"), {"b.h": '__asm__(".inc" "bin \\"x\\"");\n'})
    (root / "kernels/k.c").write_text("#include <b.h>\n" + KERNEL)
    monkeypatch.setenv("CPATH", str(elsewhere))
    with pytest.raises(NotModelled, match=r"b\.h may hold assembly"):
        inputs(root)


@pytest.mark.parametrize("place", ["kernels", "kernels/late", "kernels/missing"])
def test_a_header_that_could_be_found_is_looked_for_in_every_directory(root, place):
    """Relative directories are the compiler's, which runs in rootdir, and not the test's."""
    found = inputs(root)
    assert absent(found, root / place / "a.h")
    assert absent(found, root / place / "a.h.gch")
    assert absent(found, root / "kernels/inc/a.h.gch")


def test_a_header_that_is_found_later_than_another_counts_too(root):
    (root / "kernels/late/a.h").write_text("#define A 3\n")
    assert str(root / "kernels/late/a.h") in inputs(root).files


def test_names_of_a_branch_that_is_not_taken_are_looked_for(root):
    (root / "kernels/inc/a.h").write_text("#if __has_include(<tuned.h>)\n#include <tuned.h>\n#endif\n#define A 2\n")
    assert absent(inputs(root), root / "kernels/late/tuned.h")


def test_what_is_asked_for_by_another_name_is_looked_for(root):
    """As xxHash asks, and in another file than the one that names it."""
    named = "#ifdef __has_include\n#define HAS __has_include\n#else\n#define HAS(x) 0\n#endif\n#define KNOWS HAS\n"
    (root / "kernels/inc/a.h").write_text(f'{named}#include "b.h"\n')
    (root / "kernels/inc/b.h").write_text("#if KNOWS(<tuned.h>)\n#define A 3\n#else\n#define A 2\n#endif\n")
    assert absent(inputs(root, "-O1 -Iinc -Ilate -DKNOWS_NOTHING=1"), root / "kernels/late/tuned.h")
    with pytest.raises(NotModelled, match="-DASKS=KNOWS may ask for files"):
        inputs(root, "-O1 -Iinc -DASKS=KNOWS")


def test_a_library_that_could_be_found_is_looked_for(root):
    (root / "kernels/lib").mkdir()
    found = inputs(root, "-O1 -Iinc -Llib -lm")
    assert absent(found, root / "kernels/lib/libm.so")
    assert absent(found, root / "kernels/lib/libm.a")
    assert absent(found, root / "kernels/lib/libc.so")


def test_a_program_that_path_could_give_is_looked_for(root, monkeypatch):
    (root / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{root}/bin:{os.environ['PATH']}")
    assert absent(inputs(root), root / "bin/as")


def test_a_precompiled_header_is_not_modelled(root):
    subprocess.run(["gcc", root / "kernels/inc/a.h"], check=True)
    with pytest.raises(NotModelled, match="precompiled"):
        inputs(root)


@pytest.mark.parametrize("text", ['char *x = ".incbin";', "#define X a.h\n#include X"])
def test_a_source_that_cannot_be_followed_is_not_modelled(root, text):
    (root / "kernels/inc/a.h").write_text(f"#define A 2\n#ifdef NEVER\n{text}\n#endif\n")
    with pytest.raises(NotModelled, match=r"a\.h: it"):
        inputs(root)


def test_a_source_that_only_the_preprocessor_takes_is_not_modelled(root):
    with pytest.raises(NotModelled, match="may hold assembly, and the compiler refuses"):
        inputs(with_header(root, 'int broken(void) { return ; __asm__("nop") }'))


def with_header(root: Path, text: str) -> Path:
    (root / "kernels/inc/a.h").write_text(f"#define A 2\n{text}\n")
    (root / "kernels/inc/data").write_text(".byte 1\n")
    return root


@pytest.mark.parametrize(
    "text",
    [
        'static inline void f(void) { __asm__ volatile("nop" ::: "memory"); }',
        'static int twice(int x) { __asm__("addl %0, %0\\n\\t# twice; 1:\\n1: nop" : "+r"(x)); return x; }\nint g(int x) { return twice(x); }',
        'int other(void) __asm__("renamed");',
        "#define JOINED(a, b) a##b\nint JOINED(sc, ale)(int x) { return x; }",
        '__attribute__((section(".text.hot"))) int placed(int x) { return x; }',
    ],
)  # fmt: skip
def test_assembly_that_names_no_file_is_modelled(root, text):
    assert str(root / "kernels/inc/a.h") in inputs(with_header(root, text)).files


@pytest.mark.parametrize(
    "text",
    [
        '__asm__(".inc" "bin \\"data\\"");',
        '#define B "bin data"\n__asm__(".inc" B);',
        '#define JOINED(a, b) a##b\nJOINED(__a, sm__)(".inc" "lude data");',
        '__asm__("1:.INCLUDE data");',
        '__asm__(".macro read what\\n.inc\\\\what data\\n.endm\\nread bin");',
        '__asm__(".irp what, bin\\n.inc\\\\what data\\n.endr");',
        'void f(void) { __asm__(".inc%c0 data" :: "i"(7)); }',
        '__attribute__((section(".a,\\"a\\"\\n.include data\\n.section .b"))) int placed = 1;',
        'int renamed(void) __asm__("x\\n.include data\\n#");\nint g(void) { return renamed(); }',
        '__asm__("/* \\" */ .include data /* \\" */");',
        '__asm__(".byte \'\\"; .include data #\\"");',
    ],
)
def test_assembly_that_may_read_a_file_is_not_modelled(root, text):
    """However it is put together: what counts is what the assembler gets."""
    with pytest.raises(NotModelled, match=r"a\.h may hold assembly, and the assembler gets"):
        inputs(with_header(root, text), "-O1 -Iinc -fPIC")


def test_a_source_that_is_assembly_is_not_modelled(root):
    (root / "kernels/k.S").write_text('.include "data"\n')
    with pytest.raises(NotModelled, match=r"k\.S is neither C nor C"):
        resolve(Cc("k.S"), Place(root / "kernels", root)).cacheable(None).question()


def test_a_key_holds_what_the_build_is_asked_with(root, monkeypatch):
    kinds: dict[str, Callable[[], str]] = {
        "baseline": lambda: key(builder(root)),
        "controls": lambda: key(builder(root), {"-funroll-loops": ""}),
        "no controls": lambda: key(builder(root), {}),
        "flags": lambda: key(builder(root, "-O2 -Iinc -Ilate -Imissing")),
        "order": lambda: key(builder(root, "-O1 -Ilate -Iinc -Imissing")),
        "libraries": lambda: key(builder(root, "-O1 -Iinc -Ilate -Imissing -lm")),
        "output": lambda: key(builder(root, output="executable")),
        "functions": lambda: key(builder(root, functions="kernel")),
    }
    keys = {kind: make() for kind, make in kinds.items()}
    for name in ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "SOURCE_DATE_EPOCH", "COMPILER_PATH"):
        monkeypatch.setenv(name, "1")
        keys[name] = kinds["baseline"]()
        monkeypatch.delenv(name)
    monkeypatch.setenv("UNRELATED", "1")
    # An empty options file is asked for with an option more, and nothing in it.
    assert keys.pop("no controls") == keys["baseline"] == kinds["baseline"]()
    assert len(set(keys.values())) == len(keys)


def test_a_build_sees_of_the_environment_what_its_key_holds(root, monkeypatch):
    """``DEPENDENCIES_OUTPUT`` has gcc write a file."""
    monkeypatch.setenv("DEPENDENCIES_OUTPUT", str(root / "written"))
    builder(root).build(None, root / "out", timeout_s=60)
    assert not (root / "written").exists()


def test_a_script_around_gcc_is_not_modelled(root):
    wrapper = root / "kernels" / "gcc"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("gcc")} "$@"\n')
    wrapper.chmod(0o755)
    with pytest.raises(NotModelled, match="script"):
        builder(root, compiler="./gcc").cacheable(None).question()


def test_a_wrapper_sees_no_more_of_the_environment_than_gcc_does(root, monkeypatch):
    monkeypatch.setenv("WRAPPERS_OWN", "kept out")
    monkeypatch.setenv("CPATH", "/seen")
    wrapper = root / "kernels" / "gcc"
    wrapper.write_text(f'#!/bin/sh\necho "$WRAPPERS_OWN$CPATH" > {root}/seen\nexec {shutil.which("gcc")} "$@"\n')
    wrapper.chmod(0o755)
    builder(root, compiler="./gcc").build(None, root / "out", timeout_s=60)
    assert (root / "seen").read_text() == "/seen\n"


def test_a_compiler_by_another_name_is_not_modelled(root):
    """As where ``/usr/lib/ccache/gcc`` leads."""
    shutil.copy("/bin/true", root / "ccache")
    (root / "gcc").symlink_to("ccache")
    found = builder(root)
    wrapped = replace(found, program=structs.replace(found.program, program=str(root / "gcc")))
    with pytest.raises(NotModelled, match="may be a wrapper"):
        wrapped.cacheable(None).question()


clang = pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")


@clang
def test_the_inputs_of_a_build_by_clang_are_all_there(root):
    own, installed = builder(root, compiler="clang").cacheable(None).inputs()
    assert {str(root / "kernels/k.c"), str(root / "kernels/inc/a.h")} <= own.files
    assert {"math.h", "ld", "crti.o", "libc.so", "ld.so.cache"} <= {Path(path).name for path in installed.files}
    assert os.path.realpath(shutil.which("clang") or "") in installed.files
    assert any("libLLVM" in path for path in installed.files), "what clang loads"
    for place in ("kernels", "kernels/late", "kernels/missing"):
        assert absent(own, root / place / "a.h")


@clang
def test_assembly_by_clang_is_followed(root):
    text = 'static int twice(int x) { __asm__("addl %0, %0 # twice" : "+r"(x)); return x; }\nint g(int x) { return twice(x); }'
    of = builder(with_header(root, text), compiler="clang")
    assert str(root / "kernels/inc/a.h") in of.cacheable(None).inputs()[0].files
    with pytest.raises(NotModelled, match=r"a\.h may hold assembly, and the assembler gets"):
        inputs(with_header(root, '__asm__(".inc" "bin \\"data\\"");'), compiler="clang")


@clang
@pytest.mark.parametrize("compiler", ["clang", "clang++"])
def test_the_key_of_a_build_by_clang_holds_its_installation_of_gcc(root, compiler):
    """clang takes start files and headers from one that it finds by itself."""
    of = builder(root, compiler=compiler).cacheable(None)
    assert "internal-isystem" in of.question()["expanded"][0]


@clang
def test_a_configuration_file_of_clang_is_not_modelled(root):
    """One beside the program counts, under a name that this copy of it alone looks for."""
    program = root / "own-clang"
    shutil.copy(os.path.realpath(shutil.which("clang") or ""), program)
    of = builder(root, compiler=str(program)).cacheable(None)
    assert of.question()["expanded"]
    (root / "own-clang.cfg").write_text("-DCONFIGURED")
    cacheable._expanded.cache_clear()  # another run
    with pytest.raises(NotModelled, match="own-clang reads a configuration file"):
        of.question()


@clang
def test_a_precompiled_header_of_clang_is_not_modelled(root):
    flags = "-O1 -Iinc -include kernels/inc/a.h"
    assert absent(inputs(root, flags, compiler="clang"), root / "kernels/inc/a.h.pch")
    header = root / "kernels/inc/a.h"
    subprocess.run(["clang", "-x", "c-header", header, "-o", f"{header}.pch"], check=True)
    with pytest.raises(NotModelled, match=r"a\.h\.pch is a precompiled header"):
        inputs(root, flags, compiler="clang")


@clang
def test_a_source_that_clang_compiles_among_others_is_known_as_clangs(root):
    """As in a build of ``like=`` that ``CC`` names for some sources alone."""
    of = builder(root).cacheable(None)
    ((words, source),) = of.compilations
    mixed = structs.replace(of, compilations=((words, source), ((shutil.which("clang"), *words[1:]), source)))
    assert of.question()["expanded"] == []
    assert len(mixed.question()["expanded"]) == 1


@clang
def test_clang_by_the_name_of_cc_is_known_as_clang(root):
    """As FreeBSD installs it."""
    shutil.copy(os.path.realpath(shutil.which("clang") or ""), root / "cc")
    assert builder(root, compiler=str(root / "cc")).cacheable(None).question()["expanded"]


@clang
def test_a_header_map_is_not_modelled(root):
    without_entries = struct.pack("<IHHIIII", 0x686D6170, 1, 0, 36, 0, 1, 0) + bytes(12)
    (root / "kernels/map").write_bytes(without_entries)
    with pytest.raises(NotModelled, match="header map"):
        inputs(root, "-O1 -Iinc -Imap", compiler="clang")
